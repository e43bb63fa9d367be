"""A whole story with small numbers, and texts that try to break out of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from viewgap.metrics import SIX
from viewgap.report import Example, MethodResult, Story, ViewTrust

NASTY = "<script>document.title='broken'</script>"


@pytest.fixture
def make_story() -> Callable[..., Story]:
    """A story; keywords replace its fields."""

    def make(**changes: Any) -> Story:
        rng = np.random.default_rng(0)
        views = ["pixels", "gradients", "fourier", "profiles", "patterns", NASTY]
        observed = rng.random((100, 6)) < 0.5
        observed[:, 0] |= ~observed.any(axis=1)
        fields: dict[str, Any] = {
            "dataset": "MultiDigits",
            "main": "SCSD",
            "results": [result("a simple pick", 0.61), result("SCSD", 0.71), result(NASTY, 0.4)],
            "label_names": [*"012345678", NASTY],
            "view_names": views,
            "view_rate": 0.5,
            "label_rate": 0.5,
            "n_train": 2100,
            "n_test": 100,
            "folds": 1,
            "observed": observed,
            "trust": [ViewTrust(name, 1 / 6, 0.4) for name in views],
            "history": {
                "validation_score": [0.3, 0.5, 0.6, 0.59],
                "loss": [3.0, 2.0, 1.5, 1.4],
                "codebook_use": [0.2, 0.4, 0.5, 0.5],
            },
            "best_epoch": 3,
            "examples": [
                Example(
                    name=f"canvas {i}",
                    image=rng.random((8, 8)),
                    truth=[j in (i, 9) for j in range(10)],
                    probability=[0.9 if j in (i, i + 1) else 0.1 for j in range(10)],
                    observed=[bool(value) for value in observed[i]],
                )
                for i in range(4)
            ],
            "sample_noun": ("canvas", "canvases"),
            "label_noun": ("digit", "digits"),
            "provenance": {"machine": NASTY, "versions": "numpy 2"},
            "command": "viewgap demo",
        }
        return Story(**{**fields, **changes})

    return make


def result(title: str, ap: float) -> MethodResult:
    by_views = {n: ap + 0.02 * n for n in range(1, 5)}
    return MethodResult(title, dict.fromkeys(SIX, ap), seconds=1.25, by_views=by_views)
