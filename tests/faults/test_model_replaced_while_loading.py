"""Whoever loads a model while it is overwritten gets the old one or the new one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap.fsio as fsio
import viewgap.model_folder as model_folder
from viewgap.errors import ModelFileError
from viewgap.methods.late_fusion_ridge import LateFusionRidge
from viewgap.model_file import load_model, save_model

RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(30, 3))}
FIRST = LateFusionRidge(random_state=0).fit(X, (X["a"] > 0).astype(float))
SECOND = LateFusionRidge(random_state=0).fit(X, (X["a"][:, :2] < 0).astype(float))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    save_model(FIRST, tmp_path / "model")
    return tmp_path / "model"


def after(name: str, action: Callable[[], Any], times: int = 1) -> Callable[..., int]:
    """`os.open`, which does something when the file `name` has been opened."""
    real, left = os.open, [times]

    def opening(path: Any, *arguments: Any, **options: Any) -> int:
        handle = real(path, *arguments, **options)
        if Path(path).name == name and left[0]:
            left[0] -= 1
            action()
        return handle

    return opening


def labels_of(model: Any) -> int:
    return len(model.label_names_)


@pytest.mark.parametrize("moment", ["model", "checksums.json", "model.json", "weights.safetensors"])
def test_overwritten_between_two_files(
    place: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    monkeypatch.setattr(os, "open", after(moment, lambda: save_model(SECOND, place, True)))
    found = load_model(place)
    expected = FIRST if moment == "weights.safetensors" else SECOND
    assert labels_of(found) == labels_of(expected)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_overwritten_again_and_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = after("checksums.json", lambda: save_model(SECOND, place, True), times=10)
    monkeypatch.setattr(os, "open", save)
    assert labels_of(load_model(place)) == labels_of(SECOND)


def test_not_there_between_the_two_steps_of_a_writer(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    aside = fsio._beside(place, "old")
    os.rename(place, aside)

    def second_step(seconds: float) -> None:
        if aside.exists():
            save_model(SECOND, place)
            shutil.rmtree(aside)

    monkeypatch.setattr(model_folder.time, "sleep", second_step)
    assert labels_of(load_model(place)) == labels_of(SECOND)


def test_what_is_damaged_stays_damaged(place: Path) -> None:
    (place / "model.json").unlink()
    with pytest.raises(ModelFileError, match=r"model\.json is missing"):
        load_model(place)


def test_systems_that_cannot_hold_a_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "_FOLDERS_CAN_BE_HELD", False)
    assert labels_of(load_model(place)) == labels_of(FIRST)
    with monkeypatch.context() as meanwhile:
        save = after("checksums.json", lambda: save_model(SECOND, place, True))
        meanwhile.setattr(os, "open", save)
        assert labels_of(load_model(place)) == labels_of(SECOND)
    (place / "model.json").unlink()
    with pytest.raises(ModelFileError, match=r"model\.json is missing"):
        load_model(place)
