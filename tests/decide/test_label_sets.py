"""Label sets: the risk holds, unknown stays possible, files belong to one model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import viewgap
from viewgap.decide.losses import Design, row_losses
from viewgap.decide.risk_control import RISKS, accepted_threshold, decisions
from viewgap.errors import DataFileError, SettingError


@pytest.fixture(scope="module")
def data():
    return viewgap.load_dataset("synthetic", n_samples=400, seed=0)


@pytest.fixture(scope="module")
def model(data):
    return viewgap.LateFusionRidge().fit(data.views[:150], data.labels[:150])


@pytest.mark.parametrize("risk", RISKS)
def test_the_promised_risk_holds_in_most_draws(risk: str) -> None:
    rng = np.random.default_rng(0)
    proba = rng.random((20_000, 4))
    truth = rng.random(proba.shape) < proba**2
    complete = Design.of(np.ones_like(truth))
    broken = 0
    for _ in range(60):
        rows = rng.choice(len(proba), 200)
        own = Design.of(np.ones((200, 4), dtype=bool))
        found = accepted_threshold(risk, proba[rows], truth[rows], own, 0.2, 0.1)
        if found is not None:
            decided = decisions(risk, found, proba)
            broken += row_losses(risk, *decided, truth, complete)[0].mean() > 0.2
    assert broken <= 15  # six are expected at most


def test_losses_equal_a_loop() -> None:
    rng = np.random.default_rng(1)
    proba, truth, seen = rng.random((50, 5)), rng.random((50, 5)) < 0.4, rng.random((50, 5)) < 0.7
    expected = []
    for p, t, o in zip(proba, truth, seen, strict=True):
        own = [p[j] <= 0.3 for j in range(5) if t[j] and o[j]]
        if own:
            expected.append(sum(own) / len(own))
    nothing = np.zeros_like(truth)
    found, _ = row_losses("missed positives", proba <= 0.3, nothing, truth, Design.of(seen))
    assert found == pytest.approx(expected)


def test_a_label_without_positives_is_never_ruled_out(data, model) -> None:
    labels = np.array(data.labels[150:], dtype=float)
    labels[labels[:, 0] == 1, 0] = np.nan
    sets = viewgap.LabelSets(model).calibrate(data.views[150:], labels)
    decided = sets.predict(data.views[150:])
    assert (decided.iloc[:, 0] == "possible").all()
    assert (decided.iloc[:, 1:] == "ruled out").any().any()


def test_saved_sets_answer_alike_and_only_for_their_model(data, model, tmp_path: Path) -> None:
    sets = viewgap.LabelSets(model, risk="coverage").calibrate(data.views[150:], data.labels[150:])
    sets.save(tmp_path / "sets.json")
    again = viewgap.LabelSets.load(tmp_path / "sets.json", model)
    assert again.predict(data.views[:9]).equals(sets.predict(data.views[:9]))
    other = viewgap.LateFusionRidge().fit(data.views[:99], data.labels[:99])
    with pytest.raises(DataFileError, match="another model"):
        viewgap.LabelSets.load(tmp_path / "sets.json", other)


def test_levels_and_risks_are_checked(model) -> None:
    with pytest.raises(SettingError):
        viewgap.LabelSets(model, risk="recall")
    with pytest.raises(SettingError):
        viewgap.LabelSets(model, target_level=1.0)
