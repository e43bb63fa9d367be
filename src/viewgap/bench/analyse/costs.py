"""What results cost: seconds a fold and peak memory of every method, as a table.

Memory is the most that any fold needed, since that is what a machine must have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from viewgap.bench.analyse.summary import HOLE, Row
from viewgap.bench.show.sheets import Cell, Line, Sheet
from viewgap.bench.show.table_formats import csv_lines, csv_number, row_words
from viewgap.bench.show.tables import folds_of, reconstruction_note

AT_MOST = "≤ "
HOST, GPU = "host memory", "GPU memory"
UNITS = ("B", "kB", "MB", "GB", "TB")


@dataclass(frozen=True)
class Cost:
    """Time and memory of one row; None is what its records do not say.

    `at_most`: some record knows only the peak of its whole process, whose earlier cells may have
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
    memory = [_memory(record.provenance) for record in row.records]
    return Cost(
        seconds=float(np.mean(seconds)) if seconds else None,
        spread=float(np.std(seconds)) if len(seconds) > 1 else None,
        host=_largest(found.get("host") for found in memory),
        gpu=_largest(found.get("cuda") for found in memory),
        at_most=any(_of_process(found) for found in memory),
        memory_folds=sum(found.get("host") is not None for found in memory),
        devices=tuple(sorted({str(r.provenance.get("device", HOLE)) for r in row.records})),
    )


def cost_sheet(rows: Sequence[Row]) -> Sheet:
    """Seconds and memory of every row. A kind of memory that no record knows has no column."""
    costs = [cost_of(row) for row in rows]
    peaks = {
        HOST: any(cost.host is not None for cost in costs),
        GPU: any(cost.gpu is not None for cost in costs),
    }
    shown = [name for name, known in peaks.items() if known]
    lines = [
        Line(
            row.heading,
            row.title,
            (_seconds_cell(cost), *(Cell(_peak(cost, name)) for name in shown)),
            (", ".join(cost.devices) or HOLE, folds_of(row)),
        )
        for row, cost in zip(rows, costs, strict=True)
    ]
    return Sheet(("seconds a fold", *shown, "device", "folds"), lines, _notes(rows, costs, shown))


def cost_csv(rows: Sequence[Row]) -> str:
    """The same with plain numbers, memory in bytes."""
    numbers = ("seconds_mean", "seconds_std", "host_bytes", "host_of", "gpu_bytes")
    lines = []
    for row in rows:
        cost = cost_of(row)
        of = "" if cost.host is None else "process" if cost.at_most else "cell"
        values = [csv_number(cost.seconds), csv_number(cost.spread), csv_number(cost.host), of]
        values += [csv_number(cost.gpu), str(cost.memory_folds), "; ".join(cost.devices)]
        lines.append([*row_words(row), *values, str(row.folds), str(row.failed)])
    return csv_lines((*numbers, "memory_folds", "device", "folds", "failed"), lines)


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


def _seconds_cell(cost: Cost) -> Cell:
    if cost.seconds is None:
        return Cell(HOLE)
    digits = seconds_digits(cost.seconds)
    after = "" if cost.spread is None else f" ± {cost.spread:.{digits}f}"
    return Cell(f"{cost.seconds:.{digits}f}", after)


def _peak(cost: Cost, name: str) -> str:
    size = cost.host if name == HOST else cost.gpu
    if size is None:
        return HOLE
    return (AT_MOST if name == HOST and cost.at_most else "") + memory_text(size)


def _notes(rows: Sequence[Row], costs: Sequence[Cost], shown: Sequence[str]) -> list[str]:
    notes = ["seconds of fit and prediction, loading of data excluded"]
    if shown:
        notes.append(
            "memory: largest peak of any fold, of the process: data, libraries and what earlier "
            "cells left behind count"
        )
    else:
        notes.append("no record says how much memory it needed")
    if any(0 < cost.memory_folds < row.folds for row, cost in zip(rows, costs, strict=True)):
        notes.append("memory is known for some of the folds only")
    if any(cost.at_most for cost in costs):
        notes.append(
            f"{AT_MOST.strip()}: peak since the process began: an earlier cell may have needed it"
        )
    if len({device for cost in costs for device in cost.devices}) > 1:
        notes.append("times of different devices say nothing about the methods")
    return [*notes, *reconstruction_note(rows)]


def _memory(provenance: Mapping[str, Any]) -> Mapping[str, Any]:
    found = provenance.get("memory")
    return found if isinstance(found, Mapping) else {}


def _of_process(memory: Mapping[str, Any]) -> bool:
    return memory.get("host") is not None and memory.get("host_of") == "process"


def _largest(sizes: Iterable[Any]) -> float | None:
    known = [float(size) for size in sizes if isinstance(size, int | float)]
    return max(known, default=None)
