"""Figures of results as SVG and PNG: what varies in the records decides what is drawn.

Needs matplotlib, the extra `viewgap[figures]`. The same records give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from viewgap.bench.figure_kinds import (
    draw_curve,
    draw_map,
    draw_methods,
    draw_radar,
    draw_ranks,
    draw_utilisation,
)
from viewgap.bench.figure_parts import is_number, matplotlib_ready, rendered, setting_of
from viewgap.bench.record import Record
from viewgap.bench.rows import Row, summarise, titles
from viewgap.bench.statistics import check_metric, common_blocks, rank_test
from viewgap.errors import InputError, RunError, SettingError
from viewgap.fsio import write_file
from viewgap.metrics import SIX

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("auto", "bars", "radar", "heatmap", "curve", "ranks", "codebook")
Drawing = tuple[str, "Figure"]


def draw(
    records: Sequence[Record], out: Path, kind: str = "auto", metric: str | None = None
) -> list[Path]:
    """Draw figures into the folder `out` and return their paths, SVG before PNG.

    `kind="auto"`: one number varied -> curve, two -> heat map; otherwise methods side by side,
    with a radar where nothing is missing, a diagram of ranks where three methods share folds and
    the use of the codebook over epochs where records kept it. `metric` draws only that one.
    """
    if kind not in KINDS:
        raise SettingError(f"kind must be one of {', '.join(KINDS)}; found {kind!r}")
    if metric is not None:
        check_metric(metric)
    if not records:
        raise InputError("there is no record to draw")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot create {out}: {error.strerror}") from error
    paths: list[Path] = []
    with matplotlib_ready():
        for name, figure in _drawings(records, kind, metric):
            for form, content in rendered(figure).items():
                path = _free_path(out / f"{_file_name(name)}.{form}", paths)
                write_file(path, content)
                paths.append(path)
    return paths


def varied_settings(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of settings that vary among rows of one method: numbers in every row, and others."""
    varied = sorted({name for row in rows for name in row.varied})
    numbers = [n for n in varied if all(is_number(setting_of(row, n)) for row in rows)]
    return tuple(numbers), tuple(name for name in varied if name not in numbers)


def choose_kinds(rows: Sequence[Row]) -> tuple[str, ...]:
    """What to draw for the rows of one data set."""
    numbers, others = varied_settings(rows)
    if len(numbers) == 1:
        return ("curve",)
    if len(numbers) == 2 and not others:
        return ("heatmap",)
    complete = all(
        setting_of(row, name) == 0 for row in rows for name in ("view_rate", "label_rate")
    )
    return ("bars", "radar") if complete and len(rows) > 1 else ("bars",)


def _drawings(records: Sequence[Record], kind: str, metric: str | None) -> Iterator[Drawing]:
    by_dataset: dict[str, list[Row]] = {}
    for row in summarise(records):
        by_dataset.setdefault(row.dataset, []).append(row)
    if kind not in ("ranks", "codebook"):
        for dataset, rows in by_dataset.items():
            for chosen in choose_kinds(rows) if kind == "auto" else (kind,):
                yield from _DRAW[chosen](dataset, rows, metric)
    steady = all(row.varied == () for rows in by_dataset.values() for row in rows)
    automatic = kind == "auto" and steady
    if kind == "ranks" or (automatic and _has_ranks(records)):
        name = metric or "AP"
        yield f"ranks_{name}", draw_ranks(rank_test(records, name))
    curves = _codebook_curves(records)
    if kind == "codebook" and not curves:
        raise InputError("no record keeps the use of a codebook over epochs")
    if kind == "codebook" or (automatic and curves):
        yield "codebook", draw_utilisation(curves)


def _codebook_curves(records: Sequence[Record]) -> dict[str, list[list[float]]]:
    """Use of the codebook over epochs, one curve per fold; older records have none."""
    curves: dict[str, list[list[float]]] = {}
    for title, record in zip(titles(records), records, strict=True):
        curve = record.provenance.get("history", {}).get("codebook_use", [])
        if len(curve) > 1:
            curves.setdefault(f"{record.dataset}, {title}", []).append(curve)
    return curves


def _has_ranks(records: Sequence[Record]) -> bool:
    blocks, methods = common_blocks(records).scores.shape
    return bool(methods >= 3 and blocks >= 2)


def _bars(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    yield f"{dataset}_methods", draw_methods(rows, [metric] if metric else SIX)


def _radar(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    if len(rows) < 2:
        raise InputError(f"a radar compares rows, and {dataset} has one; use --kind bars")
    yield f"{dataset}_radar", draw_radar(rows)


def _curve(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    numbers, others = varied_settings(rows)
    if len(numbers) != 1:
        raise InputError(_unfit(dataset, "a curve needs one number that varies", numbers + others))
    name = numbers[0]
    yield f"{dataset}_{name}", draw_curve(rows, name, [metric] if metric else ["AP", "AUC"])


def _heatmap(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    numbers, others = varied_settings(rows)
    if len(numbers) != 2 or others:
        raise InputError(
            _unfit(
                dataset, "a heat map needs two numbers that vary and nothing else", numbers + others
            )
        )
    shown = metric or "AP"
    for method, profile in dict.fromkeys((row.method, row.profile) for row in rows):
        own = [row for row in rows if (row.method, row.profile) == (method, profile)]
        name = "_".join((dataset, method, profile, *numbers, shown))
        yield name, draw_map(own, (numbers[0], numbers[1]), shown)


def _unfit(dataset: str, need: str, varied: Sequence[str]) -> str:
    return f"{need} among the rows of one method on {dataset}; found {', '.join(varied) or 'none'}"


_DRAW: Mapping[str, Callable[[str, Sequence[Row], str | None], Iterator[Drawing]]] = {
    "bars": _bars,
    "radar": _radar,
    "curve": _curve,
    "heatmap": _heatmap,
}


def _file_name(name: str) -> str:
    """A name that every file system takes, whatever a data set is called."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:120]


def _free_path(path: Path, taken: Sequence[Path]) -> Path:
    """Two names that come out alike as files get numbers; older figures are replaced."""
    candidate, number = path, 2
    while candidate in taken:
        candidate = path.with_stem(f"{path.stem}_{number}")
        number += 1
    return candidate
