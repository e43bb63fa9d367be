"""Data that is incomplete by nature: with rates of 0, its gaps stay and nothing is added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from viewgap.bench.run.execute import fit_task
from viewgap.bench.run.task import Task
from viewgap.datasets import load_dataset
from viewgap.metrics.prediction import Prediction
from viewgap.metrics.registry import measure


@pytest.fixture
def patients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Views, single values and labels are missing, as in leukaemia patients."""
    rng = np.random.default_rng(3)
    labels = (rng.random((80, 4)) < 0.4).astype(float)
    labels[rng.random((80, 4)) < 0.2] = np.nan
    mask = rng.random((80, 2)) < 0.7
    mask[~mask.any(axis=1), 0] = True
    first, second = rng.normal(size=(80, 5)), rng.normal(size=(80, 3))
    first[4, 2] = np.nan  # one value
    second[~mask[:, 1]] = 1e30  # never read
    (tmp_path / "patients").mkdir()
    np.savez(
        tmp_path / "patients" / "p.npz", view0=first, view1=second, view_mask=mask, labels=labels
    )
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    return "patients"


def test_gaps_stay_and_hidden_labels_count_nowhere(patients: str) -> None:
    dataset = load_dataset(patients)
    task = Task(patients, "late_fusion_ridge", view_rate=0.0, label_rate=0.0)
    fitted = fit_task(task)
    parts = {"train": fitted.fold.train, "test": fitted.fold.test}
    for name, rows in parts.items():
        views, labels = getattr(fitted.split, name)
        assert np.array_equal(views.observed, dataset.views.observed[rows])
        found = labels.as_float() if hasattr(labels, "as_float") else np.asarray(labels)
        assert np.array_equal(found, dataset.labels[rows], equal_nan=True)
    hidden = np.isnan(dataset.labels[fitted.fold.test])
    assert hidden.any()
    decisions = fitted.probabilities > fitted.model.thresholds_
    changed = np.where(hidden, 1 - fitted.probabilities, fitted.probabilities)
    other = Prediction.of(fitted.split.test[1], changed, "field", decisions=decisions ^ hidden)
    assert measure(other) == pytest.approx(dict(fitted.record.metrics))
