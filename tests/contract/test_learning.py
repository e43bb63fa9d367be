"""Every method learns where there is something to learn, and nothing where there is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from viewgap.methods.label_frequency import LabelFrequency
from viewgap.metrics import average_precision

LONGER = {"max_epochs": 40, "patience": 40, "n_estimators": 50}
# With up to half of the numbers dropped in every layer, few numbers are too few to learn with.
ROOMIER = {"lmvcat": {"embedding": 128}}
BAR = 0.25


@pytest.fixture
def make_longer(make: Any, method: Any, tools: Any, trained: Any) -> Any:
    """The small estimator, with enough epochs and trees to learn."""
    longer = LONGER | {"random_state": trained.seed}
    settings = {name: value for name, value in longer.items() if name in make.known}
    settings |= tools.learning_rate(method) | ROOMIER.get(method, {})
    return lambda **changes: make(**settings | {k: v for k, v in changes.items() if k in settings})


def make_problem(tools: Any, n: int, seed: int, causes: int, missing: float = 0.2) -> Any:
    """Little noise, and rare labels: whoever learns nothing is far below who learns."""
    dims = {"colour": causes + 4, "shape": causes + 6, "text": causes + 8}
    settings = {"n_labels": causes, "dims": dims, "noise": 0.3, "above": 0.8}
    return tools.make_problem(n, seed=seed, missing=missing, **settings)


def test_the_loss_in_the_history_is_the_sum_of_its_terms(fitted: Any) -> None:
    history = dict(getattr(fitted, "history_", {}))
    if "loss" not in history:
        pytest.skip("not a network")
    for name in ("validation_score", *fitted.network_.epoch_metrics()):
        history.pop(name)
    losses = history.pop("loss")
    assert "classification" in history
    np.testing.assert_allclose(np.sum(list(history.values()), axis=0), losses, rtol=1e-5)


@pytest.mark.slow
def test_beats_the_floor(make_longer: Any, method: Any, tools: Any, trained: Any) -> None:
    train = make_problem(tools, 300, trained.seed + 5, causes=6)
    test = make_problem(tools, 1000, trained.seed + 6, causes=6)
    floor = LabelFrequency().fit(train.views(), train.Y).score(test.views(), test.Y)
    found = make_longer().fit(train.views(), train.Y).score(test.views(), test.Y)
    if method == "label_frequency":
        assert found == floor
    else:
        # 0 for whoever learns nothing, 1 for whoever knows everything
        trained.above((found - floor) / (1 - floor), BAR, "share of the way from floor to 1")


def test_whoever_learns_nothing_does_not_beat_it(tools: Any, trained: Any) -> None:
    """The bar above is one: scores without any sense stay below it."""
    train = make_problem(tools, 300, trained.seed + 5, causes=6)
    test = make_problem(tools, 1000, trained.seed + 6, causes=6)
    floor = LabelFrequency().fit(train.views(), train.Y).score(test.views(), test.Y)
    scores = np.random.default_rng(trained.seed).random(test.Y.shape)
    found = average_precision(test.Y, scores, "clean")
    trained.below((found - floor) / (1 - floor), BAR, "share of the way from floor to 1")


@pytest.mark.slow
def test_is_at_chance_on_permuted_labels(make_longer: Any, tools: Any, trained: Any) -> None:
    train = make_problem(tools, 240, trained.seed + 7, causes=24)
    test = make_problem(tools, 400, trained.seed + 8, causes=24, missing=0.0)
    order = np.random.default_rng(trained.seed).permutation(len(train.Y))
    model = make_longer(max_epochs=10, n_estimators=10).fit(train.views(), train.Y[order])
    found = model.predict_proba(test.views())
    areas = []
    for truth, scores in zip(test.Y.T == 1, found.T, strict=True):
        difference = scores[truth][:, None] - scores[~truth]
        areas.append(np.mean((difference > 0) + 0.5 * (difference == 0)))
    trained.below(abs(np.mean(areas) - 0.5), 0.2, "distance of the mean AUC from 0.5")
