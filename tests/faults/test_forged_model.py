"""A forged model file costs nothing but an error: shapes, sizes, names, methods, versions."""

from __future__ import annotations

import json
import os
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from peak_memory import memory_below
from viewgap.errors import ModelFileError, ViewError, ViewgapWarning
from viewgap.methods.label_frequency import LabelFrequency
from viewgap.model_file import load_model, save_model

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
    "a method that is a helper": {"method": "_blocks"},
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
    "missing metadata": {"metadata": {}},
    "metadata that is a list": {"metadata": []},
    "metadata of another kind": {"metadata": {"penalties": {"a": "x", "b": 1.0}}},
    "parameters that are a range without end": {"params": {"$range": [0, 10**18, 1]}},
    "metadata that is a range without end": {"metadata": {"$range": [0, 10**18, 1]}},
    "a range without end in a parameter": {"params": {"views": {"a": {"$range": [0, 10**18, 1]}}}},
    "classes of two labels": {"classes": ["no", "yes"]},
    "classes that are no values": {"classes": "no"},
    "columns of a view that is not there": {"feature_names": {"z": ["x"]}},
    "a column name too few": {"feature_names": {"a": ["x"]}},
    "an unknown key": {"import": "os"},
    "a missing key": {"metadata": ...},
}


@pytest.mark.parametrize("lie", LIES)
def test_lying_description(saved: Any, lie: str) -> None:
    saved.forge_description(**LIES[lie])
    expected = pytest.raises(ModelFileError, match="does not describe a usable model")
    with memory_below(20 * 2**20), expected:
        load_model(saved.folder)


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
    real = os.open

    def recording(place: Any, *args: Any, **options: Any) -> Any:
        opened.append(Path(place))
        return real(place, *args, **options)

    monkeypatch.setattr(os, "open", recording)
    with pytest.raises(ModelFileError):
        load_model(saved.folder)
    names = {"checksums.json", "model.json", "weights.safetensors"}
    assert opened[0] == saved.folder
    assert {str(place) for place in opened[1:]} <= names


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
    with memory_below(20 * 2**20), pytest.raises(ModelFileError, match="damaged"):
        load_model(saved.folder)


def test_nesting_without_end(saved: Any) -> None:
    saved.forge("model.json", b'{"a":' * 100_000 + b"1" + b"}" * 100_000)
    with pytest.raises(ModelFileError, match="nested too deeply"):
        load_model(saved.folder)


def test_more_values_than_a_description_can_have(saved: Any) -> None:
    saved.forge("model.json", b"[" + b"[]," * 5_000_000 + b"0]")
    expected = pytest.raises(ModelFileError, match="more than 4,000,000 values")
    with memory_below(40 * 2**20), expected:  # the file itself, and nothing made of it
        load_model(saved.folder)


def test_more_arrays_than_a_model_can_have(saved: Any) -> None:
    empty = {"dtype": "F32", "shape": [0, 2**40], "data_offsets": [0, 0]}
    saved.forge_header({f"x{i}": empty for i in range(100_001)})
    with pytest.raises(ModelFileError, match="more than 100,000 arrays"):
        load_model(saved.folder)


def test_a_large_file_that_holds_no_arrays_is_not_read(saved: Any) -> None:
    with (saved.folder / "weights.safetensors").open("wb") as file:
        file.truncate(2**40)  # sparse: it takes no place on the disk
    promised = json.loads(saved.original["checksums.json"])
    promised["weights.safetensors"]["bytes"] = 2**40
    saved.write("checksums.json", json.dumps(promised).encode())
    with pytest.raises(ModelFileError, match="not a valid tensor file"):
        load_model(saved.folder)


def test_column_ranges_that_do_not_fit_are_refused(saved: Any) -> None:
    good = np.zeros((3, 3))
    backwards = np.stack([np.ones(3), np.zeros(3), np.zeros(3)])
    lies = [good[:, :2], good[:2], good.astype(np.float32), backwards]
    for lie in lies:
        saved.forge_arrays(**{"ranges/0": lie})
        with pytest.raises(ModelFileError, match="range"):
            load_model(saved.folder)
    saved.forge_arrays(**{"ranges/2": good})
    with pytest.raises(ModelFileError, match="expected column ranges of 2 views, found 3"):
        load_model(saved.folder)


def test_files_without_column_ranges_are_read_as_before(saved: Any) -> None:
    """Earlier versions kept none: nothing is told of far values, missing cells still have means."""
    arrays = safetensors.numpy.load(saved.original["weights.safetensors"])
    kept = {name: array for name, array in arrays.items() if not name.startswith("ranges/")}
    assert len(kept) == len(arrays) - 2
    saved.forge("weights.safetensors", safetensors.numpy.save(kept))
    assert saved.outcome() == "equal"
    loaded = load_model(saved.folder)
    views = {name: block.copy() for name, block in saved.views().items()}
    views["a"][3, 1] = np.nan
    views["b"][5, 0] = 1e12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = loaded.predict_proba(views)
    with pytest.warns(ViewgapWarning, match="view 'b', column 0, sample id 5"):
        np.testing.assert_array_equal(found, saved.model.predict_proba(views))


def test_columns_without_end_that_no_array_contradicts(saved: Any) -> None:
    method = LabelFrequency().fit(saved.views(), saved.labels())
    save_model(method, saved.folder, overwrite=True)
    saved.original = {entry.name: entry.read_bytes() for entry in saved.folder.iterdir()}
    saved.forge_description(view_dims=[3, 10**12])
    saved.forge_header({})
    model = load_model(saved.folder)
    with memory_below(20 * 2**20), pytest.raises(ViewError, match="view 'b': 2 columns"):
        model.predict_proba(saved.views())


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["weights.0", "intercepts.1", "scaler.scale_1"])
def test_not_a_number(saved: Any, name: str, value: float) -> None:
    dtype = np.float32 if name.startswith("scaler") else np.float64
    shape = {"weights.0": (3, 2), "intercepts.1": (2,), "scaler.scale_1": (2,)}[name]
    array = np.zeros(shape, dtype=dtype)
    array.flat[-1] = value
    saved.forge_arrays(**{name.replace(".", "_dot_"): array})
    with pytest.raises(ModelFileError, match=f"'{name}' holds NaN or infinity"):
        load_model(saved.folder)


def test_nan_in_the_description(saved: Any) -> None:
    start = b'"label_frequency": ['
    saved.forge("model.json", saved.original["model.json"].replace(start, start + b"NaN,"))
    with pytest.raises(ModelFileError, match="NaN is not JSON"):
        load_model(saved.folder)


def test_newer_format(saved: Any) -> None:
    saved.forge_description(format=4, viewgap="9.1", surprise="a key that this one does not know")
    with pytest.raises(ModelFileError, match=r"written by a newer viewgap \(9\.1, format 4"):
        load_model(saved.folder)


@pytest.mark.parametrize("version", [0, -1, "1", True, 1.0, None, [1], ...])
def test_a_format_that_never_existed(saved: Any, version: Any) -> None:
    saved.forge_description(format=version)
    with pytest.raises(ModelFileError, match="does not exist"):
        load_model(saved.folder)


def test_a_parameter_unknown_to_an_older_release_takes_its_default(saved: Any) -> None:
    saved.forge_description(params={"penalties": [1.0]})
    loaded = load_model(saved.folder)
    assert loaded.get_params()["nan"] == "mean"
    assert loaded.get_params()["penalties"] == [1.0]


def test_a_model_of_format_2_calls_its_metadata_facts(saved: Any) -> None:
    metadata = json.loads(saved.original["model.json"])["metadata"]
    saved.forge_description(format=2, facts=metadata, metadata=...)
    assert load_model(saved.folder).penalties_ == metadata["penalties"]


def test_a_model_of_format_1_has_no_column_names(saved: Any) -> None:
    saved.forge_description(format=1, feature_names=...)
    assert load_model(saved.folder).feature_names_in_ == {}


KEPT = Path(__file__).parents[1] / "models" / "format_3"
NETWORKS = sorted(
    path.parent.name
    for path in KEPT.glob("*/weights.safetensors")
    if b'"network/' in path.read_bytes()
)


@pytest.mark.parametrize("method", NETWORKS)
def test_weights_in_half_precision(save: Any, method: str) -> None:
    saved = save(load_model(KEPT / method))
    arrays = safetensors.numpy.load(saved.original["weights.safetensors"])
    weights = {k: v for k, v in arrays.items() if k.startswith("network/") and v.dtype.kind == "f"}
    saved.forge_arrays(**{k: v.astype(np.float16) for k, v in weights.items()})
    with pytest.raises(ModelFileError, match="must be float32 or float64"):
        load_model(saved.folder)
