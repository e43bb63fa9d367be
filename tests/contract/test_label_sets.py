"""Every method can have label sets; their words come from its probabilities and the thresholds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.decide.thresholds import RULED_OUT


@pytest.fixture(scope="module")
def sets(fitted: Any, other: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", viewgap.errors.ViewgapWarning)
        own = viewgap.LabelSets(fitted, target_level=0.6, confidence_level=0.7)
        return own.calibrate(other.views(), other.Y)


def test_words_follow_probabilities_sample_by_sample(sets: Any, fitted: Any, other: Any) -> None:
    views = other.views(slice(24))
    words = sets.predict(views).to_numpy()
    proba = fitted._checked_probabilities(views)
    assert any(value is not None for table in sets.tables.values() for value in table.lower)
    for row, (own, observed) in enumerate(zip(proba, views.observed, strict=True)):
        pattern = "".join("1" if flag else "0" for flag in observed)
        lower = np.array([-1 if v is None else v for v in sets.tables[pattern].lower])
        assert ((words[row] == RULED_OUT) == (own <= lower)).all()


def test_sets_of_a_stored_model_answer_alike(
    sets: Any, fitted: Any, other: Any, tmp_path: Path
) -> None:
    viewgap.save_model(fitted, tmp_path / "model")
    sets.save(tmp_path / "sets.json")
    model = viewgap.load_model(tmp_path / "model")
    again = viewgap.LabelSets.load(tmp_path / "sets.json", model)
    views = other.views(slice(24))
    assert again.predict(views).equals(sets.predict(views))
