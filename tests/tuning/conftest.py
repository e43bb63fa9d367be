"""Tiny data for studies, in memory and as a folder of tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest


def make_data(n: int = 60) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two views with gaps, three labels with gaps."""
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(n, 3))
    X = {
        v: causes @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))
        for v, d in (("a", 4), ("b", 6))
    }
    X["b"][::5] = np.nan
    Y = (causes > 0.2).astype(float)
    Y[rng.random(Y.shape) < 0.1] = np.nan
    return X, Y


@pytest.fixture
def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    return make_data()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    X, Y = make_data()
    place = tmp_path / "data"
    place.mkdir()
    ids = pd.Index([f"s{i}" for i in range(len(Y))], name="id")
    for name, values in X.items():
        pd.DataFrame(values, index=ids).dropna().to_csv(place / f"{name}.csv")
    pd.DataFrame(Y, index=ids, columns=["x", "y", "z"]).to_csv(place / "labels.csv")
    return place
