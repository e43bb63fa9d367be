"""Every method learns where there is something to learn, and nothing where there is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.methods.label_frequency import LabelFrequency

LONGER = {"max_epochs": 60, "patience": 60, "n_estimators": 50}
# With up to half of the numbers dropped in every layer, few numbers are too few to learn with.
ROOMIER = {"lmvcat": {"embedding": 128}}


@pytest.fixture
def make_longer(make: Any, method: Any, tools: Any) -> Any:
    """The small estimator, with enough epochs and trees to learn."""
    settings = {name: value for name, value in LONGER.items() if name in make.known}
    settings |= tools.learning_rate(method) | ROOMIER.get(method, {})
    return lambda: make(**settings)


def test_beats_the_floor(make_longer: Any, method: Any, tools: Any) -> None:
    train, test = tools.make_problem(120, seed=5), tools.make_problem(200, seed=6)
    floor = LabelFrequency().fit(train.views(), train.Y).score(test.views(), test.Y)
    found = make_longer().fit(train.views(), train.Y).score(test.views(), test.Y)
    if method == "label_frequency":
        assert found == floor
    else:
        assert found > floor + 0.15


def test_is_at_chance_on_permuted_labels(make_longer: Any, tools: Any) -> None:
    train, test = tools.make_problem(120, seed=7), tools.make_problem(400, seed=8, missing=0.0)
    order = np.random.default_rng(0).permutation(len(train.Y))
    found = make_longer().fit(train.views(), train.Y[order]).predict_proba(test.views())
    areas = []
    for truth, scores in zip(test.Y.T == 1, found.T, strict=True):
        difference = scores[truth][:, None] - scores[~truth]
        areas.append(np.mean((difference > 0) + 0.5 * (difference == 0)))
    assert abs(np.mean(areas) - 0.5) < 0.2
