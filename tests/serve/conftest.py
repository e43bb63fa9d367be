"""A small fitted model, and one with names made to break a page; the service around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from browser import chromium
from nasty_service import COLUMNS, running
from nasty_service import LABELS as NASTY_LABELS
from service_calls import frames, labels


@pytest.fixture(scope="session")
def model() -> Any:
    X = frames()
    return viewgap.LateFusionRidge(on_empty="prior").fit(X, labels(X))


@pytest.fixture(scope="session")
def folder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "cells"
    viewgap.save_model(model, path)
    return path


@pytest.fixture(scope="module")
def nasty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model `nasty`, and its label sets in `sets.json`."""
    folder = tmp_path_factory.mktemp("nasty")
    rng = np.random.default_rng(0)
    n = 300
    ids = [f"s{i}" for i in range(n)]
    X = {
        view: pd.DataFrame(rng.normal(size=(n, len(names))), ids, names)
        for view, names in COLUMNS.items()
    }
    base = np.hstack([table.to_numpy() for table in X.values()])
    truth = base @ rng.normal(size=(base.shape[1], len(NASTY_LABELS))) > 0.2
    y = pd.DataFrame(truth.astype(float), ids, NASTY_LABELS)
    half = {view: table[:150] for view, table in X.items()}
    model = viewgap.LateFusionRidge(random_state=0, on_empty="prior").fit(half, y[:150])
    viewgap.save_model(model, folder / "nasty")
    rest = {view: table[150:] for view, table in X.items()}
    viewgap.LabelSets(model, target_level=0.8).calibrate(rest, y[150:]).save(folder / "sets.json")
    return folder


@pytest.fixture(scope="module")
def address(nasty: Path) -> Iterator[str]:
    """Where the model with label sets is served."""
    with running(nasty) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    yield from chromium()
