"""A browser, and stories and records with texts that try to break out of the page."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from viewgap.bench.results.record import Record
from viewgap.metrics import SIX
from viewgap.report import Example, MethodResult, Story, ViewTrust

NASTY = "<script>document.title='broken'</script>"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")  # no longer: its event loop would be in the way of other tests
def browser() -> Iterator[Any]:
    """Headless Chromium, driven by playwright."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs chromium")
    with playwright_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield started
        started.close()


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


@pytest.fixture(scope="session")
def make_cell() -> Callable[..., Record]:
    """The record of one cell; keywords replace its fields, `ap` sets the level of all metrics."""

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
        return Record(**{"cell": f"{zlib.crc32(name.encode()):08x}", **fields})

    return make


@pytest.fixture(scope="session")
def make_records(make_cell: Callable[..., Record]) -> Callable[[], list[Record]]:
    """Three methods on three folds of two data sets, one of them named to break the page."""

    def make() -> list[Record]:
        levels = {"scsd": 0.45, "rank": 0.43, "drls": 0.42}
        return [
            make_cell(level + 0.001 * fold * place, dataset=dataset, method=method, fold=fold)
            for dataset in ("corel5k", NASTY + ' "&quoted"')
            for place, (method, level) in enumerate(levels.items())
            for fold in range(3)
        ]

    return make


@pytest.fixture(scope="session")
def failures() -> list[dict[str, Any]]:
    """One cell that failed, with an error that tries to become markup."""
    settings = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7, "params": {}}
    return [
        {
            "cell": "feedbeef",
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
