"""Every method of viewgap, with settings that make it small, and tiny data with a known signal.

A new file in `methods/` is tested by all files of this folder with no edit here: parameters that
many methods share have a small value below. A method that needs something else gets it in `SMALL`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import viewgap.methods as methods
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier

Make = Callable[..., MultiViewClassifier]

SHARED = {
    "batch_size": 32,
    "codebook_size": 16,
    "device": "cpu",
    "embedding": 16,
    "feed_forward": 32,
    "hidden": (32,),
    "layers": 2,
    "max_epochs": 3,
    "n_estimators": 4,
    "references": 64,
    "wide": 16,
    "random_state": 0,
}
SMALL: dict[str, dict[str, Any]] = {
    "ensemble": {
        "methods": {"late_fusion_ridge": {"features": "auto"}, "extra_trees": {"n_estimators": 2}}
    },
    "imvwl": {"max_iter": 60},
    "naim3l": {"max_iter": 20},
    "scsd": {"n_networks": 2},
}

DIMS = {"colour": 5, "shape": 8, "text": 12}
N_LABELS = 4


@dataclass(frozen=True)
class Problem:
    """Complete views, what is observed of them, and labels with NaN where not observed."""

    blocks: dict[str, np.ndarray]
    observed: np.ndarray
    Y: np.ndarray

    def views(self, rows: Any = slice(None)) -> ViewSet:
        """Some rows, with the missing cells marked by the mask."""
        blocks = {name: block[rows] for name, block in self.blocks.items()}
        return ViewSet(blocks, observed=self.observed[rows])

    def with_nan(self) -> dict[str, np.ndarray]:
        """All rows as a dict, with the missing cells filled with NaN."""
        mask = self.observed.T[:, :, None]
        return {
            name: np.where(seen, block, np.nan)
            for seen, (name, block) in zip(mask, self.blocks.items(), strict=True)
        }


def make_problem(
    n: int,
    *,
    seed: int = 0,
    missing: float = 0.3,
    n_labels: int = N_LABELS,
    dims: dict[str, int] = DIMS,
    noise: float = 0.5,
    above: float = 0.3,
) -> Problem:
    """Views that are noisy linear pictures of hidden causes; labels are causes `above` a number."""
    rng = np.random.default_rng(seed)
    pictures = np.random.default_rng(12345)
    causes = rng.normal(size=(n, n_labels))
    blocks = {
        name: causes @ pictures.normal(size=(n_labels, dim)) + noise * rng.normal(size=(n, dim))
        for name, dim in dims.items()
    }
    observed = rng.random((n, len(dims))) >= missing
    observed[np.arange(n), rng.integers(len(dims), size=n)] = True
    Y = (causes > above).astype(np.float64)
    Y[rng.random(Y.shape) < missing] = np.nan
    return Problem(blocks, observed, Y)


def small_settings(method: str) -> dict[str, Any]:
    """Settings that make a method small and repeatable."""
    known = methods.get(method)._get_param_names()
    return {name: value for name, value in SHARED.items() if name in known} | SMALL.get(method, {})


def learning_rate(method: str) -> dict[str, float]:
    """The setting of a deep method with which few steps of a small network learn something."""
    settings = getattr(methods.get(method), "settings_type", None)
    optimiser = getattr(settings, "optimiser", None)  # solvers have settings, and none
    return {} if optimiser is None else {"learning_rate": {"adamw": 0.01, "sgd": 0.1}[optimiser]}


def bits(model: MultiViewClassifier) -> str:
    """A fingerprint of everything a fitted model knows."""
    state = model._get_state()
    digest = hashlib.sha256(repr(sorted(state.metadata.items())).encode())
    digest.update(model.label_frequency_.tobytes())
    for name in sorted(state.arrays):
        array = np.asarray(state.arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def garbage(shape: tuple[int, ...]) -> np.ndarray:
    """What may stand under a mask: values that spoil every sum that reads one of them."""
    return np.resize([np.nan, np.inf, -np.inf, 1e30], shape)


# The machinery of these is that of DDINet and SCSD, which stay in `make quick`, as do new methods.
# What is marked `base_class` is settled before a method sees the data: one network stands for all
# of these. `pytest --every-method` asks each.
ALIKE = ("aimnet", "dicnet", "drls", "lmvcat", "mtd", "pcve", "rank", "simm", "sip", "tdlsr")
PARAMS = [pytest.param(n, marks=pytest.mark.slow if n in ALIKE else ()) for n in methods.names()]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--every-method"):
        items[:] = [item for item in items if not _is_repeated(item)]


def _is_repeated(item: pytest.Item) -> bool:
    params = getattr(getattr(item, "callspec", None), "params", {})
    return item.get_closest_marker("base_class") is not None and params.get("method") in ALIKE


@pytest.fixture(scope="session", params=PARAMS)
def method(request: pytest.FixtureRequest) -> str:
    """Name of a method: each test that asks for it runs once per method."""
    return str(request.param)


@pytest.fixture(scope="session")
def make(method: str) -> Make:
    """Return a function that makes a small estimator of the method."""
    kind = methods.get(method)

    def build(**settings: Any) -> MultiViewClassifier:
        return kind(**(small_settings(method) | settings))

    build.known = frozenset(kind._get_param_names())  # type: ignore[attr-defined]
    return build


@pytest.fixture(scope="session")
def problem() -> Problem:
    return make_problem(80)


@pytest.fixture(scope="session")
def other() -> Problem:
    """Rows that no estimator of these tests was fitted on."""
    return make_problem(30, seed=1)


@pytest.fixture(scope="session")
def fitted(make: Make, problem: Problem) -> MultiViewClassifier:
    """An estimator fitted on `problem`, for tests that only look at it."""
    return make().fit(problem.views(), problem.Y)


@pytest.fixture(scope="session")
def tools() -> Any:
    """Functions of this file for test files (which cannot import it)."""

    class Tools:
        bits = staticmethod(bits)
        garbage = staticmethod(garbage)
        learning_rate = staticmethod(learning_rate)
        make_problem = staticmethod(make_problem)

    return Tools
