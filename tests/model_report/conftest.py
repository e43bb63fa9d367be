"""A small model on data with gaps, named to break a page."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import viewgap
from browser import chromium
from viewgap.model_report import ModelReport

NASTY = "<script>alert(1)</script> \"q\" 'é' &amp; " + "long " * 12


class Case:
    """A fitted model, held-out samples, their labels, and the report on them."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        n = 160
        base = rng.normal(size=(n, 4))
        values = {
            NASTY: base + 0.3 * rng.normal(size=(n, 4)),
            "b": base[:, :3] + rng.normal(size=(n, 3)),
            "c": rng.normal(size=(n, 2)),
        }
        observed = rng.random((n, 3)) < 0.7
        observed[~observed.any(axis=1), 0] = True
        ids = [f"s{i}" for i in range(n)]
        self.names = [NASTY, "one", "two", "rare"]
        labels = (base > [0, 0.3, -0.2, 1.8]).astype(float)
        labels[rng.random(labels.shape) < 0.15] = np.nan
        views = viewgap.ViewSet(values, observed, sample_ids=ids)
        self.all_views, self.all_labels = views, labels
        self.train, self.test = np.arange(80), np.arange(80, n)
        self.model = viewgap.LateFusionRidge().fit(views[self.train], self.frame(self.train))
        self.views, self.truth = views[self.test], labels[self.test]
        self.report: ModelReport = viewgap.report(self.model, self.views, self.frame(self.test))

    def frame(self, rows: Any) -> Any:
        """Labels of rows with their ids."""
        import pandas as pd

        index = [f"s{i}" for i in rows]
        return pd.DataFrame(self.all_labels[rows], index=index, columns=self.names)

    def proba(self, views: Any) -> Any:
        """Answers, also for samples without any view."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", viewgap.errors.ViewgapWarning)
            return np.asarray(self.model.set_params(on_empty="prior").predict_proba(views))


@pytest.fixture(scope="session")
def case() -> Case:
    """One fit and one report for all tests."""
    return Case()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    yield from chromium()
