"""From the records in results/ to the figures of a table, and the tables by their names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
NONE = "–"
RECONSTRUCTED = {"imvwl", "drls", "dvsm", "elsmml", "tdlsr"}
TABLES: dict[str, Callable[[], str]] = {}

Record = dict[str, Any]


def records(*folders: str) -> list[Record]:
    """All records of these folders of results/."""
    paths = [RESULTS / folder / "records.jsonl" for folder in folders]
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").splitlines()]


def select(found: Iterable[Record], method: str, profile: str, **settings: Any) -> list[Record]:
    """Records of one method under one condition, one per fold."""
    chosen = [
        record
        for record in found
        if (record["method"], record["profile"]) == (method, profile)
        and settings.items() <= record["settings"].items()
    ]
    folds = [record["fold"] for record in chosen]
    assert len(folds) == len(set(folds)), f"{method} {profile} {settings}: a fold occurs twice"
    return chosen


def mean_std(chosen: Sequence[Record], figure: str = "AP", digits: int = 3) -> str:
    """Mean ± population standard deviation over folds."""
    if not chosen:
        return NONE
    values = [{**record["metrics"], **record.get("details", {})}[figure] for record in chosen]
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def mean(chosen: Sequence[Record]) -> str:
    return mean_std(chosen).split(" ")[0]


def named(method: str, profile: str = "default") -> str:
    """The method as tables call it: `drls† (paper)`."""
    dagger = "†" if method in RECONSTRUCTED else ""
    return method + dagger + (" (paper)" if profile == "paper" else "")


def pairs_of(found: Iterable[Record]) -> list[tuple[str, str]]:
    """Methods with their profiles, in alphabetical order."""
    return sorted({(record["method"], record["profile"]) for record in found})


def table(function: Callable[[], str]) -> Callable[[], str]:
    """Make a function the table of its name."""
    TABLES[function.__name__] = function
    return function


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table whose first `left` columns, and those named alike, are text, the others figures."""
    rule = ["---" if name in head[:left] else "---:" for name in head]
    return "".join(f"| {' | '.join(line)} |\n" for line in (head, rule, *rows))
