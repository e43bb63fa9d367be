"""F52: a model file that lies about shapes, sizes, names or methods costs nothing but an error."""

from __future__ import annotations

import json
import os
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.errors import ModelFileError
from viewgap.model_file import load_model

HEADERS = {
    "huge shape": {"w": {"dtype": "F64", "shape": [10**12], "data_offsets": [0, 8 * 10**12]}},
    "overflowing shape": {"w": {"dtype": "F64", "shape": [2**62, 8], "data_offsets": [0, 8]}},
    "negative shape": {"w": {"dtype": "F64", "shape": [-1], "data_offsets": [0, 8]}},
    "backwards": {"w": {"dtype": "F64", "shape": [1], "data_offsets": [8, 0]}},
    "overlap": {
        "v": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]},
        "w": {"dtype": "F64", "shape": [1], "data_offsets": [4, 12]},
    },
    "hole": {"w": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]}},
    "unknown type": {"w": {"dtype": "OBJECT", "shape": [1], "data_offsets": [0, 8]}},
    "small float": {"w": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}},
    "complex numbers": {"w": {"dtype": "C64", "shape": [1], "data_offsets": [0, 8]}},
    "wrong size": {"w": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}},
    "no shape": {"w": {"dtype": "F64", "data_offsets": [0, 8]}},
    "list": [],
}


@pytest.mark.parametrize("lie", HEADERS)
def test_lying_header(saved: Any, lie: str) -> None:
    saved.forge_header(HEADERS[lie], bytes(16 if lie == "hole" else 8))
    with pytest.raises(ModelFileError, match=r"weights\.safetensors"):
        load_model(saved.folder)


@pytest.mark.parametrize("length", [0, 1, 7, 10**6, 2**63, 2**64 - 1])
def test_lying_header_length(saved: Any, length: int) -> None:
    saved.forge("weights.safetensors", struct.pack("<Q", length) + b"{}")
    with pytest.raises(ModelFileError, match=r"weights\.safetensors"):
        load_model(saved.folder)


LIES: dict[str, Any] = {
    "a method that is a path": {"method": "../../tmp/evil"},
    "a method that is a module": {"method": "os"},
    "a method that is a helper": {"method": "_ridge"},
    "a method that is the base": {"method": "base"},
    "a method that is a list": {"method": ["scsd"]},
    "a method of another shape": {"method": "imputed_logistic"},
    "parameters that do not exist": {"params": {"__class__": "evil"}},
    "parameters that are a list": {"params": []},
    "parameters that are a tuple": {"params": {"$tuple": []}},
    "a setting out of range": {"params": {"nan": "perhaps"}},
    "columns without end": {"view_dims": [10**15, 10**15]},
    "no columns": {"view_dims": [0, 2]},
    "half a column": {"view_dims": [2.5, 2]},
    "columns that are text": {"view_dims": "33"},
    "a view too few": {"view_dims": [3]},
    "a name twice": {"view_names": ["a", "a"]},
    "no names": {"view_names": []},
    "names that are numbers": {"view_names": [1, 2]},
    "a label too many": {"label_names": ["x", "y", "z"]},
    "more labels than weights": {"label_names": list("xyz"), "label_frequency": [0.1, 0.2, 0.3]},
    "a frequency above one": {"label_frequency": [0.5, 1.5]},
    "a frequency that is true": {"label_frequency": [0.5, True]},
    "a missing fact": {"facts": {}},
    "facts that are a list": {"facts": []},
    "a fact of another kind": {"facts": {"penalties": {"a": "x", "b": 1.0}}},
    "an unknown key": {"import": "os"},
    "a missing key": {"facts": ...},
}


@pytest.mark.parametrize("lie", LIES)
def test_lying_description(saved: Any, lie: str) -> None:
    saved.forge_description(**LIES[lie])
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="does not describe a usable model"):
            load_model(saved.folder)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20


@pytest.mark.parametrize(
    "arrays",
    [
        {"weights_dot_0": np.zeros((3, 3))},
        {"weights_dot_0": np.zeros((3, 2), dtype=np.float32)},
        {"weights_dot_0": np.zeros(6)},
        {"intercepts_dot_1": np.zeros((1, 2))},
        {"scaler_dot_mean_0": np.zeros(4, dtype=np.float32)},
        {"scaler_dot_mean_7": np.zeros(4, dtype=np.float32)},
    ],
)
def test_arrays_of_the_wrong_shape(saved: Any, arrays: Any) -> None:
    saved.forge_arrays(**arrays)
    with pytest.raises(ModelFileError, match="does not describe a usable model"):
        load_model(saved.folder)


@pytest.mark.parametrize(
    "checksums",
    [
        {"../../etc/passwd": {"bytes": 1, "sha256": ""}, "model.json": {}},
        {"model.json": {}, "weights.safetensors": {}},
        {"model.json": 1, "weights.safetensors": 2},
        {"model.json": {"bytes": 10**18, "sha256": "0"}, "weights.safetensors": {}},
        {},
        [],
    ],
)
def test_lying_checksums_open_no_other_file(saved: Any, monkeypatch: Any, checksums: Any) -> None:
    saved.write("checksums.json", json.dumps(checksums).encode())
    opened = []
    real = Path.open

    def recording(place: Path, *args: Any, **options: Any) -> Any:
        opened.append(place)
        return real(place, *args, **options)

    monkeypatch.setattr(Path, "open", recording)
    with pytest.raises(ModelFileError):
        load_model(saved.folder)
    names = {"checksums.json", "model.json", "weights.safetensors"}
    assert opened
    assert all(place.parent == saved.folder and place.name in names for place in opened)


def test_a_pipe_does_not_wait_forever(saved: Any) -> None:
    place = saved.folder / "model.json"
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(ModelFileError, match="not a regular file"):
        load_model(saved.folder)


def test_a_folder_where_a_file_should_be(saved: Any) -> None:
    (saved.folder / "model.json").unlink()
    (saved.folder / "model.json").mkdir()
    with pytest.raises(ModelFileError, match="not a regular file"):
        load_model(saved.folder)


@pytest.mark.parametrize("promised", [True, False])
def test_a_description_too_large_is_not_read(saved: Any, promised: bool) -> None:
    size = 10**10
    with (saved.folder / "model.json").open("r+b") as file:
        file.truncate(size)  # sparse: takes no space
    if promised:
        checksums = json.loads(saved.original["checksums.json"])
        checksums["model.json"]["bytes"] = size
        saved.write("checksums.json", json.dumps(checksums).encode())
    with pytest.raises(ModelFileError, match="more than" if promised else "damaged"):
        load_model(saved.folder)


def test_weights_larger_than_promised_are_not_read(saved: Any) -> None:
    with (saved.folder / "weights.safetensors").open("r+b") as file:
        file.truncate(10**11)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(saved.folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * 2**20


def test_nesting_without_end(saved: Any) -> None:
    saved.forge("model.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    with pytest.raises(ModelFileError, match="nested too deeply"):
        load_model(saved.folder)
