"""What stands in the sections of the report, as tables, words and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from viewgap.bench.analyse.statistics import Gap, RankTest, gaps_to, rank_tests
from viewgap.bench.analyse.summary import (
    MISSING,
    Key,
    Row,
    entries,
    flat_settings,
    grouped,
    one_variant,
    row_key,
)
from viewgap.bench.results.record import Record
from viewgap.bench.show.contents import main_metric, shown_metrics
from viewgap.bench.show.style import NAMES, SHARES, is_number, setting_text
from viewgap.errors import InputError
from viewgap.metrics import get_metric

LEVEL = 0.05
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class TestTable:
    """Ranks and gaps under one heading; `words` tell what was tested and what could not be."""

    heading: str
    lines: Sequence[Mapping[str, str]]
    words: Sequence[str]


# ---------------------------------------------------------------------- tests


def significance(records: Sequence[Record], reference: str | None = None) -> list[TestTable]:
    """Ranks over the data sets of every condition; ranks over folds and gaps of every heading."""
    metric = main_metric(name for record in records for name in record.metrics)
    over_sets = [test for test in rank_tests(records, metric)[0] if test.unit == "data sets"]
    tables = [
        TestTable(
            "All data sets" + (f", {test.scope}" if test.scope else ""),
            _test_lines(test, []),
            [_rank_words(test)],
        )
        for test in over_sets
    ]
    tests, reasons = rank_tests(records, metric, by_fold=True)
    by_scope = {test.scope: test for test in tests}
    gaps = grouped(gaps_to(records, reference, metric), lambda gap: gap.dataset)
    for heading in dict.fromkeys(entry.heading for entry in entries(records)):
        test, own = by_scope.get(heading), gaps.get(heading, [])
        reason = reasons.get(heading) or InputError(f"no record has {metric}")
        words = [_rank_words(test) if test else _no_ranks(reason), _gap_words(own)]
        tables.append(TestTable(heading, _test_lines(test, own), words))
    return tables


def _no_ranks(reason: InputError) -> str:
    """What is wrong, without the list of what was found, which may be as long as a grid."""
    return f"No test of the ranks: {str(reason).partition(';')[0]}."


def _rank_words(test: RankTest) -> str:
    return (
        f"Average rank by {test.metric} over the {test.over} that all methods have "
        f"({test.left_out} left out): Friedman χ² {test.statistic:.2f}, "
        f"p {p_text(test.p_value)}. Ranks closer than {test.critical_difference:.2f} cannot be "
        f"told apart (Nemenyi, {test.alpha:g})."
    )


def _gap_words(gaps: Sequence[Gap]) -> str:
    if not gaps:
        return "No paired tests: no two methods share a fold."
    return (
        f"Gap: {gaps[0].metric} of the method minus that of {gaps[0].reference} on the folds both "
        "have; p of the corrected resampled t-test, adjusted by Holm's correction within the "
        f"data set, judged at {LEVEL:g}."
    )


def _test_lines(test: RankTest | None, gaps: Sequence[Gap]) -> list[dict[str, str]]:
    ranks = dict(zip(test.methods, test.ranks, strict=True)) if test is not None else {}
    paired = {gap.method: gap for gap in gaps}
    names = {*ranks, *paired, *(gap.reference for gap in gaps)}
    size = {gap.method: gap.gap for gap in gaps}
    order = sorted(names, key=lambda name: (ranks.get(name, 0.0), -size.get(name, 0.0), name))
    return [_test_line(name, ranks.get(name), paired.get(name), bool(gaps)) for name in order]


def _test_line(name: str, rank: float | None, gap: Gap | None, paired: bool) -> dict[str, str]:
    line = {"method": name, "rank": MISSING if rank is None else f"{rank:.2f}"}
    if gap is None:
        blank = dict.fromkeys(("gap", "folds", "p", "adjusted"), MISSING)
        return {**line, **blank, "says": "reference" if paired else MISSING}
    return {
        **line,
        "gap": f"{gap.gap:+.3f}",
        "folds": str(gap.folds),
        "p": p_text(gap.p_value),
        "adjusted": p_text(gap.adjusted),
        "says": _verdict(gap),
    }


def _verdict(gap: Gap) -> str:
    if gap.adjusted is None:
        return "too few folds"
    if gap.adjusted >= LEVEL:
        return "not told apart"
    return "better" if (gap.gap > 0) == get_metric(gap.metric).greater_is_better else "worse"


def p_text(value: float | None) -> str:
    """A p-value as readers want it: three digits, or below a thousandth."""
    if value is None:
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


# ---------------------------------------------------------------------- tasks


@dataclass(frozen=True)
class TaskLine:
    """One task: names, numbers as text, and its error if it failed."""

    names: tuple[str, str]
    numbers: tuple[str, ...]
    tail: tuple[str, str]
    error: str = ""


def task_lines(
    records: Sequence[Record], failures: Sequence[Mapping[str, Any]], rows: Sequence[Row]
) -> dict[str, Any]:
    """Every task, failed ones with dashes, and the columns they stand in."""
    words = _titles(rows)
    names = [metric.name for metric in shown_metrics(rows)]
    lines = [_finished(record, words[row_key(vars(record))], names) for record in records]
    lines += [_failed(failure, words[row_key(failure)], len(names)) for failure in failures]
    numeric = ("fold", "seed", *names, "seconds", "epochs")
    columns = ("data set", "method", *numeric, "device", "task", *("error",) * bool(failures))
    return {"columns": columns, "lines": lines, "numeric": set(numeric)}


def failure_lines(
    failures: Sequence[Mapping[str, Any]], rows: Sequence[Row]
) -> list[dict[str, Any]]:
    """The failed tasks with their errors."""
    words = _titles(rows)
    return [
        {
            **dict(zip(("dataset", "title"), words[row_key(failure)], strict=True)),
            "fold": failure.get("fold", MISSING),
            "seed": failure.get("seed", MISSING),
            "error": failure.get("error", ""),
            "traceback": failure.get("traceback", ""),
        }
        for failure in failures
    ]


def _titles(rows: Sequence[Row]) -> dict[Key, tuple[str, str]]:
    """Heading and title of every row."""
    return {row_key(vars(row)): (row.heading, row.title) for row in rows}


def _finished(record: Record, titles: tuple[str, str], metrics: Sequence[str]) -> TaskLine:
    numbers = [str(record.fold), str(record.seed)]
    numbers += [
        f"{record.metrics[name]:.4f}" if name in record.metrics else MISSING for name in metrics
    ]
    numbers += [f"{record.seconds:.2f}", MISSING if record.epochs is None else str(record.epochs)]
    device = str(record.provenance.get("device", MISSING))
    return TaskLine(titles, tuple(numbers), (device, record.task))


def _failed(failure: Mapping[str, Any], titles: tuple[str, str], n_metrics: int) -> TaskLine:
    numbers = [str(failure.get(name, MISSING)) for name in ("fold", "seed")]
    numbers += [MISSING] * (n_metrics + 2)
    error = str(failure.get("error") or "failed")
    return TaskLine(titles, tuple(numbers), (MISSING, str(failure.get("task", ""))), error)


# ---------------------------------------------------------------------- provenance


def metadata(
    records: Sequence[Record], failures: Sequence[Mapping[str, Any]] = ()
) -> list[tuple[str, list[str]]]:
    """Where the results come from: (what, values), a value with its tasks where there are more."""
    tasks = [vars(record) for record in records] + list(failures)
    settings = [flat_settings(task["settings"]) for task in tasks]
    found = [
        ("metrics", [f"variant {one_variant(records)}"]),
        ("profiles", _tally(task["profile"] for task in tasks)),
        ("seeds", _tally(task.get("seed") for task in tasks)),
        ("folds", _folds(records)),
    ]
    found += [
        (
            NAMES[name],
            _tally(setting_text(name, own[name]) for own in settings if is_number(own.get(name))),
        )
        for name in SHARES
    ]
    found.append(("scaling fitted on", _tally(own.get("scale_on") for own in settings)))
    return [(name, values) for name, values in found + _origins(records) if values]


def _origins(records: Sequence[Record]) -> list[tuple[str, list[str]]]:
    origins = [record.provenance for record in records]
    versions = [origin.get("versions", {}) for origin in origins]
    packages = dict.fromkeys(name for own in versions for name in own)
    found = [(name, _tally(own.get(name, NOT_RECORDED) for own in versions)) for name in packages]
    checksums = {(r.dataset, str(r.provenance.get("data", NOT_RECORDED))) for r in records}
    return [
        *found,
        ("commit", _tally(origin.get("commit", NOT_RECORDED) for origin in origins)),
        ("devices", _tally(origin.get("device", NOT_RECORDED) for origin in origins)),
        ("machines", _tally(_machine(origin) for origin in origins)),
        ("data checksums", [f"{name}: {checksum}" for name, checksum in sorted(checksums)]),
    ]


def _machine(origin: Mapping[str, Any]) -> str:
    parts = [str(origin[name]) for name in ("cpu", "system") if origin.get(name)]
    parts[1:1] = [f"{origin['cores']} cores"] if origin.get("cores") else []
    return ", ".join(parts) or NOT_RECORDED


def _folds(records: Sequence[Record]) -> list[str]:
    found: dict[str, set[int]] = {}
    for record in records:
        found.setdefault(record.dataset, set()).add(record.fold)
    return [f"{name}: {', '.join(map(str, sorted(folds)))}" for name, folds in found.items()]


def _tally(values: Iterable[Any]) -> list[str]:
    """Different values as text; how many tasks have each where there is more than one."""
    counts = Counter(str(value) for value in values if value is not None)
    if len(counts) == 1:
        return list(counts)
    return [
        f"{value} ({count} task{'s' if count != 1 else ''})"
        for value, count in sorted(counts.items())
    ]
