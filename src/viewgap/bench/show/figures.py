"""Figures of results as SVG and PNG: what varies in the records decides what is drawn.

Needs matplotlib, the extra `viewgap[figures]`. The same records give the same bytes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from viewgap.bench.analyse.label_gains import required_gains
from viewgap.bench.analyse.statistics import RankTest, rank_tests, with_metric
from viewgap.bench.analyse.summary import (
    Row,
    by_heading,
    by_method,
    entries,
    grouped,
    metrics_of,
    summarise,
)
from viewgap.bench.results.record import Record
from viewgap.bench.show.charts import (
    draw_conditions,
    draw_curve,
    draw_map,
    draw_methods,
    draw_radar,
)
from viewgap.bench.show.contents import has_calibration, main_metric
from viewgap.bench.show.diagnostics import (
    draw_calibration,
    draw_costs,
    draw_label_gains,
    draw_ranks,
    draw_utilisation,
)
from viewgap.bench.show.style import is_number, matplotlib_ready, rendered, setting_of
from viewgap.errors import InputError, SettingError, ViewgapWarning
from viewgap.fsio import make_folder, write_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST_AXES = 3  # of a radar
KINDS = (
    *("auto", "bars", "radar", "heatmap", "curve", "ranks", "codebook"),
    *("cost", "calibration", "labels"),
)


@dataclass(frozen=True)
class Drawing:
    """A figure, its kind, and a name for its file."""

    kind: str
    name: str
    figure: Figure


def draw(
    records: Sequence[Record],
    out: Path,
    kind: str = "auto",
    metric: str | None = None,
    reference: str | None = None,
) -> list[Path]:
    """Draw figures into the folder `out` and return their paths, SVG before PNG.

    `kind="auto"`: one number varied -> curve, two -> heat map; a method with two varied numbers
    has a heat map per condition. Otherwise methods side by side: all metrics under one condition,
    a panel per condition where there are several; a radar where nothing is missing, ranks where
    three methods share data sets or folds, what they cost, and where records kept it calibration,
    gains label by label over `reference` and the use of the codebook. `metric` draws only that
    one.
    """
    check_request(records, kind, metric)
    make_folder(out)
    paths: list[Path] = []
    with matplotlib_ready():
        for drawing in drawings(records, kind, metric, reference):
            for form, content in rendered(drawing.figure).items():
                path = _free_path(out / f"{_file_name(drawing.name)}.{form}", paths)
                write_file(path, content)
                paths.append(path)
    return paths


def draw_rank_test(test: RankTest, out: Path, note: str = "") -> list[Path]:
    """Draw the critical-difference diagram of one test into `out`: SVG and PNG."""
    make_folder(out)
    paths = []
    with matplotlib_ready():
        for form, content in rendered(draw_ranks(test, note)).items():
            path = out / f"{_file_name(f'ranks_over_data_sets_{test.metric}')}.{form}"
            write_file(path, content)
            paths.append(path)
    return paths


def check_request(records: Sequence[Record], kind: str, metric: str | None) -> None:
    """Refuse what cannot be drawn before anything is."""
    if kind not in KINDS:
        raise SettingError(f"kind must be one of {', '.join(KINDS)}; found {kind!r}")
    if not records:
        raise InputError("there is no record to draw")
    if metric is not None:
        with_metric(records, metric)


def varied_settings(rows: Sequence[Row]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of settings that vary among rows of one method: numbers in every row, and others."""
    varied = sorted({name for row in rows for name in row.varied})
    numbers = [n for n in varied if all(is_number(setting_of(row, n)) for row in rows)]
    return tuple(numbers), tuple(name for name in varied if name not in numbers)


def kinds_of_heading(rows: Sequence[Row]) -> tuple[str, ...]:
    """What to draw for rows that are compared with each other."""
    complete = all(
        setting_of(row, name) == 0 for row in rows for name in ("view_rate", "label_rate")
    )
    several = len(rows) > 1 and len(metrics_of(rows)) >= FEWEST_AXES
    kinds = ("bars", "radar") if complete and several else ("bars",)
    if any(row.varied_by_method for row in rows):  # settings of one method are no rivals
        return kinds
    has_details = has_calibration(rows)
    return (*kinds, *("cost",) * (len(rows) > 1), *("calibration",) * has_details)


def drawings(
    records: Sequence[Record],
    kind: str = "auto",
    metric: str | None = None,
    reference: str | None = None,
) -> Iterator[Drawing]:
    """The figures one by one; to be used within `matplotlib_ready`."""
    check_request(records, kind, metric)
    rows = summarise(records)
    if kind in ("auto", *_OVER_SETTINGS, *_SIDE_BY_SIDE):
        yield from _drawings_of_rows(rows, kind, metric)
    if kind == "auto":
        # Settings of one method are no rivals: data sets that vary them are left out.
        varied = {row.dataset for row in rows if row.varied_by_method}
        records = [record for record in records if record.dataset not in varied]
    if kind in ("auto", "ranks"):
        yield from _ranks(records, _shown(rows, metric), needed=kind == "ranks")
    if kind in ("auto", "labels"):
        yield from _labels(records, reference, needed=kind == "labels")
    curves = _codebook_curves(records) if kind in ("auto", "codebook") else {}
    if kind == "codebook" and not curves:
        raise InputError("no record keeps the use of a codebook over epochs")
    if curves:
        yield Drawing("codebook", "codebook", draw_utilisation(curves))


def _shown(rows: Sequence[Row], metric: str | None) -> str:
    """The metric that is asked for, or the main one of the rows."""
    return metric or main_metric(name for row in rows for name in row.mean)


def _curve_metrics(rows: Sequence[Row]) -> list[str]:
    known = {name for row in rows for name in row.mean}
    return [name for name in ("AP", "AUC") if name in known] or [_shown(rows, None)]


def _drawings_of_rows(rows: Sequence[Row], kind: str, metric: str | None) -> Iterator[Drawing]:
    """Figures of every data set, or of its methods side by side under every heading."""
    for dataset, own in grouped(rows, lambda row: row.dataset).items():
        if kind == "auto":
            yield from _automatic(dataset, own, metric)
        elif kind in _OVER_SETTINGS:
            yield from _OVER_SETTINGS[kind](dataset, own, metric)
        else:
            yield from _side_by_side(own, kind, metric)


def _automatic(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    numbers, others = varied_settings(rows)
    mapped: list[list[Row]] = []
    if others or len(numbers) > 2:
        mapped = [own for own in by_method(rows).values() if _has_map(own)]
    rest = [row for row in rows if not any(row in own for own in mapped)]
    numbers, others = varied_settings(rest)
    if len(numbers) == 1 or (len(numbers) == 2 and not others):
        yield from (_curve if len(numbers) == 1 else _heatmap)(dataset, rest, metric)
    elif len(by_heading(rest)) > 1:
        shown = _shown(rest, metric)
        yield Drawing("bars", f"{dataset}_conditions_{shown}", draw_conditions(rest, shown))
        for alike in by_heading(rest).values():
            if "radar" in kinds_of_heading(alike):
                yield from _side_by_side(alike, "radar", metric)
    elif rest:
        yield from _side_by_side(rest, "auto", metric)
    for own in mapped:
        first, second = _own_settings(own)
        yield _map_of_method(own, (first, second), _shown(own, metric))


def _side_by_side(rows: Sequence[Row], kind: str, metric: str | None) -> Iterator[Drawing]:
    for heading, alike in by_heading(rows).items():
        for name in kinds_of_heading(alike) if kind == "auto" else (kind,):
            yield _SIDE_BY_SIDE[name](heading, alike, metric)


def _own_settings(rows: Sequence[Row]) -> list[str]:
    """Varied settings of one method, without the conditions of the data."""
    return sorted({name for row in rows for name in row.varied_by_method})


def _has_map(rows: Sequence[Row]) -> bool:
    names = _own_settings(rows)
    return len(names) == 2 and all(is_number(setting_of(row, n)) for row in rows for n in names)


def _map_of_method(rows: Sequence[Row], names: tuple[str, str], metric: str) -> Drawing:
    first = rows[0]
    title = "_".join((first.dataset, first.method, first.profile, *names, metric))
    return Drawing("heatmap", title, draw_map(rows, names, metric))


def _ranks(records: Sequence[Record], metric: str, needed: bool) -> Iterator[Drawing]:
    """A diagram for every condition with enough methods and blocks."""
    tests, reasons = rank_tests(records, metric)
    if needed and not tests:
        raise next(iter(reasons.values()))
    for scope, reason in reasons.items() if needed else ():
        warnings.warn(f"no ranks on {scope}: {reason}", ViewgapWarning, stacklevel=2)
    for test in tests:
        name = f"ranks_{metric}" if len(tests) == 1 else f"ranks_{metric}_{test.scope}"
        yield Drawing("ranks", name, draw_ranks(test))


def _labels(records: Sequence[Record], reference: str | None, needed: bool) -> Iterator[Drawing]:
    try:
        gains = required_gains(records, reference)
    except InputError:
        if needed:
            raise
        return  # there is nothing to compare, and nobody asked for it
    for heading, own in grouped(gains, lambda gain: gain.row.heading).items():
        yield Drawing("labels", f"{heading}_label_gains", draw_label_gains(own))


def _codebook_curves(records: Sequence[Record]) -> dict[str, list[list[float]]]:
    """Use of the codebook over epochs, one curve per fold; older records have none."""
    curves: dict[str, list[list[float]]] = {}
    for entry in entries(records):
        curve = entry.record.provenance.get("history", {}).get("codebook_use", [])
        if len(curve) > 1:
            curves.setdefault(f"{entry.heading}, {entry.title}", []).append(curve)
    return curves


def _bars(heading: str, rows: Sequence[Row], metric: str | None) -> Drawing:
    return Drawing("bars", f"{heading}_methods", draw_methods(rows, [metric] if metric else ()))


def _radar(heading: str, rows: Sequence[Row], metric: str | None) -> Drawing:
    if len(rows) < 2:
        raise InputError(f"a radar compares rows, and {heading} has one; use --kind bars")
    return Drawing("radar", f"{heading}_radar", draw_radar(rows))


def _curve(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    numbers, others = varied_settings(rows)
    if len(numbers) != 1:
        raise InputError(_unfit(dataset, "a curve needs one number that varies", numbers + others))
    figure = draw_curve(rows, numbers[0], [metric] if metric else _curve_metrics(rows))
    yield Drawing("curve", f"{dataset}_{numbers[0]}", figure)


def _heatmap(dataset: str, rows: Sequence[Row], metric: str | None) -> Iterator[Drawing]:
    numbers, others = varied_settings(rows)
    if len(numbers) != 2 or others:
        need = "a heat map needs two numbers that vary and nothing else"
        raise InputError(_unfit(dataset, need, numbers + others))
    for own in by_method(rows).values():
        yield _map_of_method(own, (numbers[0], numbers[1]), _shown(own, metric))


def _cost(heading: str, rows: Sequence[Row], metric: str | None) -> Drawing:
    return Drawing("cost", f"{heading}_cost", draw_costs(rows, _shown(rows, metric)))


def _calibration(heading: str, rows: Sequence[Row], metric: str | None) -> Drawing:
    if not has_calibration(rows):
        raise InputError(f"no record on {heading} has figures of calibration")
    return Drawing("calibration", f"{heading}_calibration", draw_calibration(rows))


def _unfit(dataset: str, need: str, varied: Sequence[str]) -> str:
    return f"{need} among the rows of one method on {dataset}; found {', '.join(varied) or 'none'}"


_OVER_SETTINGS = {"curve": _curve, "heatmap": _heatmap}
_SIDE_BY_SIDE = {"bars": _bars, "radar": _radar, "cost": _cost, "calibration": _calibration}


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
