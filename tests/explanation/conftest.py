"""A cheap model with three views, and samples with every pattern of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import viewgap

N_SAMPLES = 160


@pytest.fixture(scope="session")
def data() -> Any:
    return viewgap.load_dataset("synthetic", n_samples=N_SAMPLES, seed=3)


@pytest.fixture(scope="session")
def model(data: Any) -> Any:
    rows = slice(0, 120)
    return viewgap.LateFusionRidge(on_empty="prior").fit(data.views[rows], data.labels[rows])


@pytest.fixture(scope="session")
def samples(data: Any) -> Any:
    """Eight samples, one per pattern of the three views; the first has none."""
    mask = (np.arange(8)[:, None] >> np.arange(3)) & 1 == 1
    return data.views[120:128].with_observed(mask)
