"""A small data set without anything to find, which the tests spoil."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

N = 60


@pytest.fixture
def clean() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Two views and three labels of 60 samples with ids, all there, all different."""
    rng = np.random.default_rng(0)
    ids = [f"s{i:02d}" for i in range(N)]

    def frame(values: Any, prefix: str) -> pd.DataFrame:
        names = [f"{prefix}{k}" for k in range(values.shape[1])]
        return pd.DataFrame(values, index=pd.Index(ids, name="id"), columns=names)

    views = {
        "genes": frame(rng.normal(size=(N, 5)), "g"),
        "drugs": frame(rng.normal(size=(N, 4)), "d"),
    }
    truth = rng.random((N, 3)) < 0.5
    truth[~truth.any(axis=1), 0] = True
    return views, frame(truth.astype(float), "label")
