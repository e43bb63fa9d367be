"""What results cost: seconds a fold and peak memory of every method.

Memory is the most that any fold needed, since that is what a machine must have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewgap.bench.analyse.summary import MISSING, Row

UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Cost:
    """Time and memory of one row; None is what its records do not say.

    `at_most`: some record knows only the peak of its whole process, whose earlier tasks may have
    needed more than this one. `memory_folds` say how much memory the host needed.
    """

    seconds: float | None
    spread: float | None
    host: float | None
    gpu: float | None
    at_most: bool
    memory_folds: int
    devices: tuple[str, ...]


def cost_of(row: Row) -> Cost:
    """Seconds are averaged over the folds, peaks of memory are the largest of any fold."""
    seconds = [record.seconds for record in row.records]
    given = [record.provenance.get("memory") for record in row.records]
    memory = [found if isinstance(found, Mapping) else {} for found in given]
    known = [found for found in memory if found.get("host") is not None]
    return Cost(
        seconds=float(np.mean(seconds)) if seconds else None,
        spread=float(np.std(seconds)) if len(seconds) > 1 else None,
        host=_largest(found.get("host") for found in memory),
        gpu=_largest(found.get("cuda") for found in memory),
        at_most=any(found.get("host_of") == "process" for found in known),
        memory_folds=len(known),
        devices=tuple(sorted({str(r.provenance.get("device", MISSING)) for r in row.records})),
    )


def memory_text(size: float) -> str:
    """Bytes in the unit that suits them, three digits: 1.23 GB (1 GB = 10⁹ bytes)."""
    unit = 0
    while round(size, 0 if size >= 100 else 2) >= 1000 and unit < len(UNITS) - 1:
        size, unit = size / 1000, unit + 1
    digits = 0 if size >= 100 or unit == 0 else 1 if size >= 10 else 2
    return f"{size:.{digits}f} {UNITS[unit]}"


def seconds_digits(seconds: float) -> int:
    """Decimals with which a time is printed: methods take from milliseconds to hours."""
    return 0 if seconds >= 1000 else 1 if seconds >= 10 else 2 if seconds >= 0.1 else 3


def _largest(sizes: Iterable[Any]) -> float | None:
    known = [float(size) for size in sizes if isinstance(size, int | float)]
    return max(known, default=None)
