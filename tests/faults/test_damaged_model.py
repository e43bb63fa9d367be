"""Truncated, bit-flipped, empty or swapped model files are refused before use."""

from __future__ import annotations

import errno
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap.model_folder as model_folder
from peak_memory import memory_below
from viewgap.errors import ModelFileError
from viewgap.methods.label_frequency import LabelFrequency
from viewgap.model_file import load_model, save_model

FILES = ["model.json", "weights.safetensors", "checksums.json"]
MUTATIONS = 300


@pytest.mark.parametrize("name", FILES)
def test_truncated_anywhere(saved: Any, name: str) -> None:
    whole = saved.original[name]
    offsets = sorted({round(k * (len(whole) - 2) / 85) for k in range(86)})
    assert offsets[0] == 0
    for offset in offsets:
        saved.write(name, whole[:offset])
        assert saved.outcome() == "refused", offset


@pytest.mark.slow
def test_random_mutations(saved: Any) -> None:
    chance = random.Random(0)
    outcomes = []
    for _ in range(MUTATIONS):
        name = chance.choice(FILES)
        data = bytearray(saved.original[name])
        place = chance.randrange(len(data))
        change = chance.choice(["flip", "cut", "double", "zero"])
        if change == "flip":
            data[place] ^= 1 << chance.randrange(8)
        elif change == "cut":
            del data[place : place + chance.randint(1, 8)]
        elif change == "double":
            data[place:place] = data[place : place + chance.randint(1, 8)]
        else:
            data[place : place + 4] = bytes(4)
        saved.write(name, bytes(data))
        outcomes.append(saved.outcome())
        saved.restore()
    assert outcomes.count("refused") > 0.9 * MUTATIONS
    assert saved.outcome() == "equal"


@pytest.mark.slow
def test_random_mutations_with_matching_checksums(saved: Any) -> None:
    """An attacker can make the checksums fit: what loads must still be a model that answers."""
    chance = random.Random(1)
    refused = 0
    for _ in range(MUTATIONS):
        name = chance.choice(FILES[:2])
        data = bytearray(saved.original[name])
        limit = len(data) if name == "model.json" else 600  # the header of the tensor file
        data[chance.randrange(limit)] = chance.randrange(256)
        saved.forge(name, bytes(data))
        try:
            loaded = load_model(saved.folder)
        except ModelFileError:
            refused += 1
        else:
            count = len(loaded.label_names_)
            views = dict(zip(loaded.view_names_, saved.views().values(), strict=True))
            assert loaded.predict_proba(views).shape == (30, count)
        saved.restore()
    assert refused > 0.3 * MUTATIONS


@pytest.mark.parametrize("name", FILES)
def test_missing_file(saved: Any, name: str) -> None:
    (saved.folder / name).unlink()
    with pytest.raises(ModelFileError, match=f"{name} is missing"):
        load_model(saved.folder)


def test_swapped_files(saved: Any, tmp_path: Any) -> None:
    saved.write("model.json", saved.original["weights.safetensors"])
    saved.write("weights.safetensors", saved.original["model.json"])
    assert saved.outcome() == "refused"
    saved.restore()
    save_model(LabelFrequency().fit(saved.views(), saved.labels()), tmp_path / "other")
    shutil.copy(tmp_path / "other" / "weights.safetensors", saved.folder)
    with pytest.raises(ModelFileError, match=r"weights\.safetensors is damaged"):
        load_model(saved.folder)


def test_the_message_says_which_file_and_what_to_do(saved: Any) -> None:
    saved.write("weights.safetensors", saved.original["weights.safetensors"][:-1])
    with pytest.raises(ModelFileError, match=r"weights\.safetensors is damaged.*save the model"):
        load_model(saved.folder)


def test_extra_files_are_never_opened(saved: Any) -> None:
    (saved.folder / "README.md").write_text("notes of a user")
    (saved.folder / "pytorch_model.bin").write_bytes(b"\x80\x02.")
    assert saved.outcome() == "equal"


@pytest.mark.parametrize("call", ["stat", "open"])
def test_unreadable_file(saved: Any, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    real = getattr(os, call)

    def refuse(place: Any, *arguments: Any, **options: Any) -> Any:
        if os.fspath(place).endswith("model.json"):
            raise PermissionError(13, "Permission denied")
        return real(place, *arguments, **options)

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(ModelFileError, match=r"cannot read .*model\.json: Permission denied"):
        load_model(saved.folder)


class OtherOS:
    """The `os` module with one function of another kind."""

    def __init__(self, **functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return self._functions.get(name, getattr(os, name))


def failing(*_: Any, **__: Any) -> Any:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("function", ["open", "stat", "read"])
def test_a_device_that_fails_is_said(
    saved: Any, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    if function == "read":
        monkeypatch.setattr(model_folder, "open", failing, raising=False)
    else:
        monkeypatch.setattr(model_folder, "os", OtherOS(**{function: failing}))
    with pytest.raises(ModelFileError, match=r"cannot read .*: Input/output error"):
        load_model(saved.folder)


def test_a_folder_that_cannot_be_listed_is_said(
    saved: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "os", OtherOS(listdir=failing))
    with pytest.raises(ModelFileError, match=r"cannot look into .*: Input/output error"):
        save_model(saved.model, saved.folder, overwrite=True)


def test_a_file_that_becomes_a_pipe_is_refused(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    try:
        pipe = os.fstat(read)
        monkeypatch.setattr(model_folder, "os", OtherOS(fstat=lambda _: pipe))
        with pytest.raises(ModelFileError, match="is not a regular file"):
            load_model(saved.folder)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("shapes", [[(2**20,)], [(2**18,), (2**18,), (8, 2**15), (2**18,)]])
def test_reading_takes_twice_the_file_at_most(tmp_path: Path, shapes: list[Any]) -> None:
    arrays = {str(n): np.full(shape, 0.5, "f4") for n, shape in enumerate(shapes)}
    model_folder.write(tmp_path / "model", {}, arrays, overwrite=False)
    whole = (tmp_path / "model" / "weights.safetensors").stat().st_size
    assert whole > 2**22
    with memory_below(2 * whole + 2**18):
        found = model_folder.read(tmp_path / "model")[1]
    assert all(array.flags.writeable for array in found.values())
