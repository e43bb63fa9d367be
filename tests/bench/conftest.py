"""A small data set in a folder that worker processes find as well, records, and a browser."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import chromium
from viewgap.bench.results.record import Record
from viewgap.metrics import SIX

NASTY = "<script>document.title='broken'</script>"


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
            "task": "0123456789abcdef",
            "settings": {"view_rate": 0.5, "params": {}},
        }
        return Record(**with_details({**fields, **changes}))

    return make


def with_details(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a record from metrics and, under `details`, what else is known of a prediction."""
    details = dict(fields.pop("details", {}))
    labels = details.pop("labels", {})
    known = {name: value for name, value in details.items() if value is not None}
    return {"labels": labels, **fields, "metrics": {**fields["metrics"], **known}}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    yield from chromium()


@pytest.fixture(scope="session")
def make_result() -> Callable[..., Record]:
    """The record of one task; keywords replace its fields, `ap` sets the level of all metrics."""

    def make(ap: float = 0.5, **changes: Any) -> Record:
        fields: dict[str, Any] = {
            "dataset": "corel5k",
            "method": "label_frequency",
            "profile": "paper",
            "fold": 0,
            "seed": 1,
            "metrics": dict.fromkeys(SIX, ap),
            "seconds": 1.5,
            "settings": {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7, "params": {}},
            "provenance": {
                "versions": {"python": "3.12.3", "torch": "2.11.0"},
                "commit": "0123abc",
                "device": "cpu",
                "cpu": "A&B processor",
                "cores": 2,
                "data": "sample-sha256:42",
            },
        }
        fields |= changes
        name = "-".join(str(fields[key]) for key in ("dataset", "method", "fold", "settings"))
        fields = {"task": f"{zlib.crc32(name.encode()):08x}", **fields}
        return Record(**with_details(fields))

    return make


@pytest.fixture(scope="session")
def make_records(make_result: Callable[..., Record]) -> Callable[[], list[Record]]:
    """Three methods on three folds of two data sets, one of them named to break the page."""

    def make() -> list[Record]:
        levels = {"scsd": 0.45, "rank": 0.43, "drls": 0.42}
        return [
            make_result(level + 0.001 * fold * place, dataset=dataset, method=method, fold=fold)
            for dataset in ("corel5k", NASTY + ' "&quoted"')
            for place, (method, level) in enumerate(levels.items())
            for fold in range(3)
        ]

    return make


@pytest.fixture(scope="session")
def failures() -> list[dict[str, Any]]:
    """One task that failed, with an error that tries to become markup."""
    settings = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7, "params": {}}
    return [
        {
            "task": "feedbeef",
            "dataset": "corel5k",
            "method": "mtd",
            "profile": "paper",
            "fold": 2,
            "seed": 1,
            "settings": settings,
            "error": f"RunError: no memory for {NASTY}",
            "traceback": "Traceback (most recent call last):\n" + "x" * 300,
        }
    ]
