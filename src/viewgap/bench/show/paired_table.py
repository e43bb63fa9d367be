"""The table of methods on the same folds: scores with intervals, differences to the best."""

from __future__ import annotations

from collections.abc import Sequence

from viewgap.bench.analyse.costs import seconds_digits
from viewgap.bench.analyse.paired import BEST as IS_BEST
from viewgap.bench.analyse.paired import LEVEL, MethodScore
from viewgap.bench.analyse.summary import FOOTNOTE, MISSING, RECONSTRUCTION
from viewgap.bench.show.report_sections import p_text
from viewgap.bench.show.tables import BEST, Line, Table, TableEntry, csv_number
from viewgap.metrics import get_metric

_NUMBERS = (
    *("score", "low", "high", "difference", "difference_low", "difference_high"),
    *("p_value", "adjusted", "seconds"),
)


def paired_table(scores: Sequence[MethodScore], metric: str, best: str) -> Table:
    """One line per method: score, difference to the best, p-value, verdict, seconds, folds."""
    kind = get_metric(metric)
    digits = kind.digits
    percent = f"{100 * LEVEL:g} %"
    lines = [_line(score, digits) for score in scores]
    folds = {score.folds for score in scores}
    notes = [
        f"{metric}: {kind.title}, clean variant, {kind.direction} is better; mean over folds and "
        f"its {percent} interval",
        f"difference: method minus {best} on the same folds; interval and p by the corrected "
        "resampled t-test; p is adjusted by Holm's correction, intervals are not",
        *(["folds differ: a score is over the folds of its method"] if len(folds) > 1 else []),
        *([FOOTNOTE] if any(RECONSTRUCTION in score.method for score in scores) else []),
    ]
    return Table(
        (metric, percent, "to the best", percent, "p", "verdict", "seconds a fold", "folds"),
        lines,
        notes,
        (*_NUMBERS, "verdict", "folds", "failed"),
        [
            [
                *("", score.method, "", "", "", "clean"),
                *(csv_number(getattr(score, name)) for name in _NUMBERS),
                *(score.verdict, str(score.folds), str(score.failed)),
            ]
            for score in scores
        ],
    )


def _line(score: MethodScore, digits: int) -> Line:
    is_best = score.verdict == IS_BEST
    number = TableEntry(_text(score.score, digits), mark=BEST if is_best else "")
    entries = [number, TableEntry(_span(score.low, score.high, digits))]
    if is_best:
        entries += [TableEntry(""), TableEntry("")]
    else:
        low, high = score.difference_low, score.difference_high
        entries += [TableEntry(_text(score.difference, digits, "+"))]
        entries += [TableEntry(_span(low, high, digits, "+"))]
    entries.append(TableEntry("" if is_best else p_text(score.adjusted)))
    seconds = MISSING
    if score.seconds is not None:
        seconds = f"{score.seconds:.{seconds_digits(score.seconds)}f}"
    total = score.folds + score.failed
    folds = f"{score.folds} of {total}" if score.failed else str(score.folds)
    return Line("", score.method, tuple(entries), (score.verdict, seconds, folds))


def _text(value: float | None, digits: int, sign: str = "") -> str:
    return MISSING if value is None else f"{value:{sign}.{digits}f}"


def _span(low: float | None, high: float | None, digits: int, sign: str = "") -> str:
    if low is None or high is None:
        return MISSING
    return f"{_text(low, digits, sign)} to {_text(high, digits, sign)}"
