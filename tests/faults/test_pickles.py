"""A pickle offered as a model is refused by its content, by name, and never run."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from viewgap.errors import ModelFileError
from viewgap.model_file import load_model

FILES = ["model.json", "weights.safetensors", "checksums.json"]


class Payload:
    """Creates a file when unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "the payload ran"


def attacks(trace: Path) -> dict[str, bytes]:
    found = {f"protocol {p}": pickle.dumps(Payload(trace), protocol=p) for p in range(6)}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("archive/data.pkl", found["protocol 2"])
    return found | {"zip": archive.getvalue()}


ATTACKS = [*(f"protocol {p}" for p in range(6)), "zip"]


@pytest.mark.parametrize("attack", ATTACKS[:-1])
def test_the_payload_would_run(trace: Path, attack: str) -> None:
    pickle.loads(attacks(trace)[attack])
    assert trace.exists()


@pytest.mark.parametrize("attack", ATTACKS)
def test_refused_as_the_model_itself(tmp_path: Path, trace: Path, attack: str) -> None:
    place = tmp_path / "model.pt"
    place.write_bytes(attacks(trace)[attack])
    with pytest.raises(ModelFileError, match="zip archive" if attack == "zip" else "a pickle"):
        load_model(place)
    assert not trace.exists()


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("name", FILES)
def test_refused_inside_the_folder(saved: Any, trace: Path, name: str, attack: str) -> None:
    saved.forge(name, attacks(trace)[attack])
    with pytest.raises(ModelFileError, match="zip archive" if attack == "zip" else "a pickle"):
        load_model(saved.folder)
    assert not trace.exists()


@pytest.mark.parametrize("length", [0x0280, 0x0380, 0x0480, 0x0580, 0x4B50])
def test_a_tensor_file_whose_length_looks_like_a_pickle_is_no_pickle(
    saved: Any, length: int
) -> None:
    original = saved.original["weights.safetensors"]
    old = int.from_bytes(original[:8], "little")
    assert old < 0x4B50
    if length < old:
        pytest.skip("the header is longer than that")
    header = original[8 : 8 + old].ljust(length)
    saved.forge("weights.safetensors", length.to_bytes(8, "little") + header + original[8 + old :])
    assert saved.outcome() == "equal"


def test_ordinary_files_are_not_models(tmp_path: Path) -> None:
    place = tmp_path / "notes.txt"
    place.write_text("hello")
    with pytest.raises(ModelFileError, match="is a file, not a model folder"):
        load_model(place)
