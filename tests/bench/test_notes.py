"""Notes of fits: each is told once for all tasks that had it, wherever they ran."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.bench.run.execute import _loaded
from viewgap.bench.run.notes import Notes, collected
from viewgap.bench.run.task import Task
from viewgap.cli import run
from viewgap.errors import ViewgapWarning

IDS = [f"p{i}" for i in range(40)]
METHODS = ["label_frequency", "late_fusion_ridge"]


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """More samples with the same values than there are folds, and labels in words."""
    rng = np.random.default_rng(0)
    genes = pd.DataFrame(rng.normal(size=(40, 3)), IDS, ["g1", "g2", "g3"])
    genes.iloc[7:16] = genes.iloc[20].to_numpy()
    labels = pd.DataFrame({"x": (rng.random(40) < 0.5)}, IDS).replace({True: "yes", False: "no"})
    (tmp_path / "patients").mkdir()
    genes.to_csv(tmp_path / "patients" / "genes.csv", index_label="id")
    labels.to_csv(tmp_path / "patients" / "labels.csv", index_label="id")
    monkeypatch.chdir(tmp_path)
    _loaded.cache_clear()  # of the other tests, whose path and content are the same
    return tmp_path / "patients"


def task(method: str, fold: int) -> Task:
    return Task("synthetic", method, fold=fold)


def told(notes: Notes) -> list[str]:
    with collected() as texts:
        notes.tell()
    return texts


def test_a_note_is_told_once_with_the_fits_that_had_it() -> None:
    notes = Notes()
    for fold in range(2):
        notes.add(task("scsd", fold), ["same", f"{fold + 3} values of p{fold}"])
        notes.add(task("lmvcat", fold), ["same", *["rare"] * fold])
        notes.add(task("label_frequency", fold), ["same"])
    every, some, once = told(notes)
    assert every == "same (in all 6 fits)"
    assert some.startswith("3 values of p0 (in 2 of 6 fits, of scsd; first: synthetic")
    assert some.endswith("1 times with other details)")
    assert once == f"rare ({task('lmvcat', 1).title})"


def test_nothing_is_told_where_there_is_nothing() -> None:
    notes = Notes()
    notes.add(task("scsd", 0), [])
    assert told(notes) == []


def test_other_warnings_are_shown_as_ever() -> None:
    with warnings.catch_warnings(record=True) as others:
        warnings.simplefilter("always")
        with collected() as texts:
            warnings.warn("of a library", UserWarning, stacklevel=1)
            warnings.warn("ours", ViewgapWarning, stacklevel=1)
    assert [str(other.message) for other in others] == ["of a library"]
    assert texts == ["ours"]


@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_compare_tells_each_note_once(patients: Path, capfd: Any, jobs: str) -> None:
    words = ["compare", "patients", "--folds", "3", "--only", "--jobs", jobs]
    assert run([*words, *[word for name in METHODS for word in ("--method", name)]]) == 0
    err = capfd.readouterr().err
    notes = re.findall("note: (.*)", err)
    assert err.count("ViewgapWarning") == 0
    shared = [note for note in notes if "occur in the training rows" in note]
    assert len(shared) == 1
    assert "(in all 6 fits" in shared[0]
    assert sum("'yes' as 1" in note for note in notes) == 1


def test_in_python_they_are_warnings_of_the_caller(patients: Path) -> None:
    genes = pd.read_csv(patients / "genes.csv", index_col="id")
    labels = pd.read_csv(patients / "labels.csv", index_col="id") == "yes"
    with pytest.warns(ViewgapWarning, match="occur in the training rows") as found:
        viewgap.compare({"genes": genes}, labels.astype(float), methods=METHODS, folds=3)
    assert len(found) == 1
    assert found[0].filename == __file__
