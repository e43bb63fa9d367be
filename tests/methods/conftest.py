"""Small data for the simple methods, with missing views and labels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import viewgap
from viewgap.data.viewset import ViewSet


class Small:
    """Views with 4 and 70 columns (fewer and more than rows), labels with gaps; 60 rows."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.blocks = {
            "narrow": rng.normal(size=(60, 4)) * 3 + 1,
            "wide": rng.normal(size=(60, 70)),
        }
        self.observed = rng.random((60, 2)) < 0.7
        self.observed[np.arange(60), rng.integers(2, size=60)] = True
        self.Y = (self.blocks["narrow"][:, :3] + rng.normal(size=(60, 3)) > 1).astype(float)
        self.Y[rng.random(self.Y.shape) < 0.3] = np.nan
        self.views = ViewSet(self.blocks, observed=self.observed)

    def standardised(self, name: str) -> NDArray[np.float64]:
        """The view, by the mean and deviation of its observed rows; 0 where missing."""
        seen = self.observed[:, list(self.blocks).index(name)]
        block = self.blocks[name]
        scaled = (block - block[seen].mean(axis=0)) / block[seen].std(axis=0)
        return np.where(seen[:, None], scaled, 0.0)

    def side_by_side(self) -> NDArray[np.float64]:
        """All views, then the indicators."""
        return np.hstack([*map(self.standardised, self.blocks), self.observed])


@pytest.fixture
def small() -> Small:
    return Small()


@pytest.fixture(scope="module")
def data() -> tuple[ViewSet, NDArray[np.float64]]:
    """300 rows of the generator, half of the views and labels missing."""
    full = viewgap.load_dataset("synthetic", n_samples=300, seed=0)
    return viewgap.amputate(full.views, full.labels, seed=0)
