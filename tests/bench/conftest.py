"""A small data set of its own folder, so that worker processes find it as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.bench.results.record import Record
from viewgap.metrics import SIX


@pytest.fixture
def tiny_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A named data set with two dense views and three labels that depend on them."""
    rng = np.random.default_rng(0)
    first = rng.normal(3.0, 2.0, size=(60, 5)).astype(np.float32)
    second = rng.normal(size=(60, 4)).astype(np.float32)
    signal = np.column_stack([first[:, 0] - 3, second[:, 0], first[:, 1] + second[:, 1] - 3])
    folder = tmp_path / "data" / "tiny"
    folder.mkdir(parents=True)
    np.savez(folder / "tiny.npz", first=first, second=second, labels=(signal > 0).astype(float))
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path / "data"))
    return "tiny"


@pytest.fixture
def make_record() -> Callable[..., Record]:
    """A record with plausible content; keywords replace fields, `value` all metrics."""

    def make(value: float = 0.5, **changes: Any) -> Record:
        fields: dict[str, Any] = {
            "dataset": "tiny",
            "method": "label_frequency",
            "profile": "default",
            "fold": 0,
            "seed": 1,
            "metrics": dict.fromkeys(SIX, value),
            "seconds": 1.0,
            "cell": "0123456789abcdef",
            "settings": {"view_rate": 0.5, "params": {}},
        }
        return Record(**{**fields, **changes})

    return make
