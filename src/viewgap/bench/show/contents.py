"""What tables of results show: metrics, calibration and decisions, cost, gains label by label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from viewgap.bench.analyse.costs import Cost, cost_of, memory_text, seconds_digits
from viewgap.bench.analyse.label_gains import RARE, LabelGains, gain_text
from viewgap.bench.analyse.published import Figure, published_beside
from viewgap.bench.analyse.summary import (
    AVERAGE_RANK,
    FOOTNOTE,
    MISSING,
    RECONSTRUCTION,
    Row,
    Standing,
    by_heading,
    metrics_of,
    standings,
)
from viewgap.bench.show.tables import BEST, SECOND, Line, Table, TableEntry, csv_number, marks
from viewgap.methods.catalogue import read_metadata
from viewgap.metrics import SIX, get_metric
from viewgap.metrics.registry import Metric

METRIC = "AP"
PUBLISHED = "published"
AT_MOST = "≤ "
HOST, GPU = "host memory", "GPU memory"


def shown_metrics(rows: Sequence[Row]) -> list[Metric]:
    """The metrics of the main table: what the rows have, or the usual six where all failed."""
    return metrics_of(rows) or [get_metric(name) for name in SIX]


def main_metric(names: Iterable[str]) -> str:
    """The metric to show where there is place for one: AP, or the first where there is none."""
    known = list(names)
    return known[0] if known and METRIC not in known else METRIC


# ---------------------------------------------------------------------- metrics


def metrics_table(rows: Sequence[Row], published: bool = False) -> Table:
    """Mean ± deviation of every metric, average rank, seconds and folds.

    With `published` the figures printed in the SCSD paper follow the rows that have any.
    """
    metrics = shown_metrics(rows)
    figures = published_beside(rows) if published else [{} for _ in rows]
    lines, csv_lines = [], []
    for row, standing, printed in zip(rows, standings(rows), figures, strict=True):
        entries = [metric_entry(row, metric, _mark(metric.name, standing)) for metric in metrics]
        rank = MISSING if standing.average_rank is None else f"{standing.average_rank:.2f}"
        entries.append(TableEntry(rank, mark=_mark(AVERAGE_RANK, standing)))
        seconds = MISSING if row.seconds is None else f"{row.seconds:.1f}"
        lines.append(Line(row.heading, row.title, tuple(entries), (seconds, folds_text(row))))
        if printed:
            found = (*(_printed_entry(row, m, printed) for m in metrics), TableEntry(""))
            lines.append(Line(row.heading, PUBLISHED, found, ("", ""), published=True))
        measured = [
            row.mean.get(m.name) if part == "mean" else row.spread.get(m.name)
            for m in metrics
            for part in ("mean", "std")
        ]
        numbers = map(csv_number, (*measured, standing.average_rank, row.seconds))
        csv_line = [*row_words(row), _direction(metrics), *numbers, str(row.folds), str(row.failed)]
        csv_lines.append(csv_line + (_printed_numbers(row, metrics, printed) if published else []))
    return Table(
        (*(metric.name for metric in metrics), AVERAGE_RANK, "seconds", "folds"),
        lines,
        _metric_notes(rows, metrics, published),
        (
            "direction",
            *(f"{metric.name}_{part}" for metric in metrics for part in ("mean", "std")),
            *("average_rank", "seconds", "folds", "failed"),
            *(f"{metric.name}_{part}" for metric in metrics for part in _PRINTED if published),
        ),
        csv_lines,
    )


_PRINTED = ("published", "published_std", "difference")


def metric_entry(row: Row | None, metric: Metric, mark: str) -> TableEntry:
    """Mean ± deviation of one row; a dash where there is none."""
    if row is None or metric.name not in row.mean:
        return TableEntry(MISSING)
    spread = row.spread.get(metric.name)
    after = "" if spread is None else f" ± {spread:.{metric.digits}f}"
    return TableEntry(f"{row.mean[metric.name]:.{metric.digits}f}", after, mark)


def marked_rows(groups: Iterable[Sequence[Row]], metric: Metric) -> dict[int, str]:
    """The mark of every row within its group, by the identity of the row."""
    found: dict[int, str] = {}
    for own in groups:
        values = [row.mean.get(metric.name) for row in own]
        shown = marks(values, metric.greater_is_better, metric.digits)
        found.update(zip(map(id, own), shown, strict=True))
    return found


def _mark(name: str, standing: Standing) -> str:
    return BEST if name in standing.best else SECOND if name in standing.second else ""


def _printed_entry(row: Row, metric: Metric, printed: Mapping[str, Figure]) -> TableEntry:
    if metric.name not in printed:
        return TableEntry(MISSING)
    mean = printed[metric.name].mean
    here = row.mean.get(metric.name)
    return TableEntry(f"{mean:.3f}", "" if here is None else f" ({difference(here, mean)})")


def difference(here: float, printed: float) -> str:
    """Measured minus printed, both to the printed digits, so that a reader can check it."""
    return f"{round(here, 3) - printed + 0.0:+.3f}".replace("-0.000", "+0.000")


def _printed_numbers(
    row: Row, metrics: Sequence[Metric], printed: Mapping[str, Figure]
) -> list[str]:
    values: list[float | None] = []
    for metric in metrics:
        figure, here = printed.get(metric.name), row.mean.get(metric.name)
        gap = None if figure is None or here is None else here - figure.mean
        values += [figure.mean if figure else None, figure.std if figure else None, gap]
    return [csv_number(value) for value in values]


def _direction(metrics: Sequence[Metric]) -> str:
    lower = [metric.name for metric in metrics if not metric.greater_is_better]
    return "higher" + (f" ({', '.join(lower)}: lower)" if lower else "")


def _metric_notes(rows: Sequence[Row], metrics: Sequence[Metric], published: bool) -> list[str]:
    variant = rows[0].variant if rows else "field"
    within = "data set and condition" if any(row.condition for row in rows) else "data set"
    count = "six" if len(metrics) == len(SIX) else str(len(metrics))
    notes = [
        f"{variant} metrics, {_direction(metrics)} is better; {AVERAGE_RANK}: rank within the "
        f"{within}, averaged over the {count} metrics"
    ]
    if published:
        notes.append("published: printed in the SCSD paper (measured here minus printed)")
    return [*notes, *reconstruction_note(rows)]


def reconstruction_note(rows: Sequence[Row]) -> list[str]:
    """What the dagger means, where a row has one."""
    return [FOOTNOTE] if any(RECONSTRUCTION in row.title for row in rows) else []


def folds_text(row: Row) -> str:
    """How many folds a row is over, and of how many where some failed."""
    return f"{row.folds} of {row.folds + row.failed}" if row.failed else str(row.folds)


def row_words(row: Row) -> list[str]:
    """The first fields of a CSV line: which row it is about."""
    known = "yes" if read_metadata(row.method).is_reconstruction else "no"
    settings = ", ".join(filter(None, (row.condition, row.note)))
    return [row.dataset, row.method, row.profile, settings, known, row.variant]


# ---------------------------------------------------------------------- calibration


def has_calibration(rows: Sequence[Row]) -> bool:
    """Whether some row has a metric of the calibration table."""
    return bool(metrics_of(rows, "calibration"))


def calibration_table(rows: Sequence[Row]) -> Table:
    """Calibration error, macro AUC and F1, the best of each heading marked in its direction."""
    metrics = metrics_of(rows, "calibration") or [
        metric for metric in map(get_metric, _CALIBRATION) if metric.table == "calibration"
    ]
    marked = {m.name: marked_rows(by_heading(rows).values(), m) for m in metrics}
    lines, csv_lines = [], []
    for row in rows:
        entries = tuple(metric_entry(row, m, marked[m.name][id(row)]) for m in metrics)
        names = {metric.name for metric in metrics}
        folds = sum(bool(names & record.metrics.keys()) for record in row.records)
        total = row.folds + row.failed
        shown = str(total) if folds == total else f"{folds} of {total}"
        lines.append(Line(row.heading, row.title, entries, (shown,)))
        fields: list[str] = []
        for metric in metrics:
            numbers = row.mean.get(metric.name), row.spread.get(metric.name)
            fields += [*map(csv_number, numbers), metric.direction]
        csv_lines.append([*row_words(row), *fields, str(folds), str(row.folds), str(row.failed)])
    notes = [f"{metric.name}: {metric.title}; {metric.direction} is better" for metric in metrics]
    if any(" of " in line.tail[0] for line in lines):
        notes.append("folds: those whose records have these figures, of all")
    parts = ("mean", "std", "direction")
    return Table(
        (*(metric.name for metric in metrics), "folds"),
        lines,
        [*notes, *reconstruction_note(rows)],
        (*(f"{m.name}_{part}" for m in metrics for part in parts), *_CSV_FOLDS),
        csv_lines,
    )


_CALIBRATION = ("calibration error", "beyond chance", "macro AUC", "macro F1", "micro F1")
_CSV_FOLDS = ("folds_with_figures", "folds", "failed")


# ---------------------------------------------------------------------- cost


def cost_table(rows: Sequence[Row]) -> Table:
    """Seconds and memory of every row. A kind of memory that no record knows has no column."""
    costs = [cost_of(row) for row in rows]
    peaks = {
        HOST: any(cost.host is not None for cost in costs),
        GPU: any(cost.gpu is not None for cost in costs),
    }
    shown = [name for name, known in peaks.items() if known]
    lines, csv_lines = [], []
    for row, cost in zip(rows, costs, strict=True):
        entries = (_seconds_entry(cost), *(TableEntry(_peak(cost, name)) for name in shown))
        tail = (", ".join(cost.devices) or MISSING, folds_text(row))
        lines.append(Line(row.heading, row.title, entries, tail))
        of = "" if cost.host is None else "process" if cost.at_most else "task"
        values = [csv_number(cost.seconds), csv_number(cost.spread), csv_number(cost.host), of]
        values += [csv_number(cost.gpu), str(cost.memory_folds), "; ".join(cost.devices)]
        csv_lines.append([*row_words(row), *values, str(row.folds), str(row.failed)])
    numbers = ("seconds_mean", "seconds_std", "host_bytes", "host_of", "gpu_bytes")
    return Table(
        ("seconds a fold", *shown, "device", "folds"),
        lines,
        _cost_notes(rows, costs, shown),
        (*numbers, "memory_folds", "device", "folds", "failed"),
        csv_lines,
    )


def _seconds_entry(cost: Cost) -> TableEntry:
    if cost.seconds is None:
        return TableEntry(MISSING)
    digits = seconds_digits(cost.seconds)
    after = "" if cost.spread is None else f" ± {cost.spread:.{digits}f}"
    return TableEntry(f"{cost.seconds:.{digits}f}", after)


def _peak(cost: Cost, name: str) -> str:
    size = cost.host if name == HOST else cost.gpu
    if size is None:
        return MISSING
    return (AT_MOST if name == HOST and cost.at_most else "") + memory_text(size)


def _cost_notes(rows: Sequence[Row], costs: Sequence[Cost], shown: Sequence[str]) -> list[str]:
    notes = ["seconds of fit and prediction, loading of data excluded"]
    if shown:
        notes.append(
            "memory: largest peak of any fold, of the process: data, libraries and what earlier "
            "tasks left behind count"
        )
    else:
        notes.append("no record says how much memory it needed")
    if any(0 < cost.memory_folds < row.folds for row, cost in zip(rows, costs, strict=True)):
        notes.append("memory is known for some of the folds only")
    if any(cost.at_most for cost in costs):
        notes.append(
            f"{AT_MOST.strip()}: peak since the process began: an earlier task may have needed it"
        )
    if len({device for cost in costs for device in cost.devices}) > 1:
        notes.append("times of different devices say nothing about the methods")
    return [*notes, *reconstruction_note(rows)]


# ---------------------------------------------------------------------- labels


def gains_table(gains: Sequence[LabelGains]) -> Table:
    """On how many labels a row is better, and its mean gain on rare and frequent ones.

    The CSV has one line per row and label.
    """
    reference = " or ".join(dict.fromkeys(own.reference for own in gains)) or MISSING
    notes = [
        f"gain: AP of a label minus that of {reference}, mean over folds with the same test rows",
        f"rare: fewer than {RARE} positives among the test rows; in brackets how many labels",
        *reconstruction_note([own.row for own in gains]),
    ]
    columns = ("direction", "reference", "label", "positives", "AP", "reference_AP", "gain")
    return Table(
        ("better on", "worse on", "mean gain", "rare labels", "frequent labels", "folds"),
        [_gain_line(own) for own in gains],
        notes,
        (*columns, "folds"),
        [line for own in gains for line in _label_lines(own)],
    )


def _gain_line(own: LabelGains) -> Line:
    better, worse, total = own.counts()
    entries = [f"{better} of {total}", str(worse), gain_text(own.mean()[0])]
    for rare in (True, False):
        mean, count = own.mean(rare)
        entries.append(f"{gain_text(mean)} ({count})" if count else MISSING)
    found = tuple(TableEntry(text) for text in entries)
    return Line(own.row.heading, own.row.title, found, (str(own.common_folds),))


def _label_lines(own: LabelGains) -> list[list[str]]:
    words = [*row_words(own.row), "higher", own.reference]
    columns = (own.positives, own.ap, own.reference_ap, own.gains)
    lines = []
    for label, folds in enumerate(own.folds):
        numbers = [float(column[label]) for column in columns]
        shown = [csv_number(None if number != number else number) for number in numbers]
        lines.append([*words, str(label), *shown, str(folds)])
    return lines
