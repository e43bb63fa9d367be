"""Small data, small members, and a clock that tests set."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from viewgap.data.viewset import ViewSet
from viewgap.ensemble import Ensemble, estimator, members, schedule
from viewgap.methods import base

SMALL: dict[str, dict[str, Any]] = {
    "extra_trees": {"n_estimators": 4, "n_jobs": 1},
    "late_fusion_ridge": {"features": "auto"},
    "gradient_boosting": {"n_estimators": 3, "n_jobs": 1},
    "label_frequency": {},
    "imputed_logistic": {},
    "random_forest": {"n_estimators": 3},
    "naim3l": {"max_iter": 5},
    "scsd": {"max_epochs": 3, "hidden": (16,), "embedding": 8, "codebook_size": 8},
    "rank": {"max_epochs": 2, "embedding": 8},
}


def make_data(n: int = 60, seed: int = 0) -> tuple[ViewSet, np.ndarray]:
    """Two views, the second missing for some rows; three labels, some not observed."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(n, 4)), rng.normal(size=(n, 3))
    Y = np.column_stack([a[:, 0] > 0, b[:, 0] > 0, a[:, 1] + b[:, 1] > 0]).astype(float)
    Y[rng.random(Y.shape) < 0.2] = np.nan
    observed = np.ones((n, 2), dtype=bool)
    observed[::3, 1] = False
    return ViewSet({"a": a, "b": b}, observed=observed), Y


def make(*names: str, **params: Any) -> Ensemble:
    """A small ensemble of these methods."""
    settings: dict[str, Any] = {"random_state": 0, "device": "cpu"}
    return Ensemble(methods={name: SMALL[name] for name in names}, **settings | params)


@pytest.fixture
def tools() -> Any:
    """Functions of this file for test files (which cannot import it)."""
    return SimpleNamespace(make=make, make_data=make_data, SMALL=SMALL)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of all that keeps a time budget."""
    fake = Clock()
    for module in (base, estimator, members, schedule):
        monkeypatch.setattr(module, "time", fake)
    return fake


@pytest.fixture
def costs(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set what members cost, (estimated, real) seconds by name; a real fit moves the clock."""
    seconds: dict[str, tuple[float, float]] = {}
    fit = members.fit_member

    def fit_at_a_cost(name: str, model: Any, *rest: Any) -> Any:
        before = clock.now
        found = fit(name, model, *rest)
        clock.now = before + seconds[name][1]
        return found

    def estimated(model: Any, *_: Any) -> float:
        name = next(n for n in seconds if n.replace("_", "") == type(model).__name__.lower())
        return seconds[name][0]

    monkeypatch.setattr(estimator, "fit_member", fit_at_a_cost)
    monkeypatch.setattr(schedule, "estimated_seconds", estimated)
    return lambda **given: seconds.update(given)
