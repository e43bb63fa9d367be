"""A small fitted model, and its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewgap
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
