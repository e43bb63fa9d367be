"""Columns of one view repeated in another, and columns that copy a label; linear in the widths.

Columns are compared on up to `MOST_ROWS` samples that have both views. Each becomes a vector of
mean 0 and length 1; random projections of these, rounded to a grid, put copies into one cell of at
least one of several tables. Only columns of one cell are compared, a few each: no column is ever
compared with all others. Scaled, shifted, mirrored and slightly noisy copies are found alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import counted, first_few
from viewgap.inspection.columns import column_names, sample_rows
from viewgap.inspection.findings import Finding, named

if TYPE_CHECKING:
    import pandas as pd

Numbers = NDArray[np.float32]
Rows = NDArray[np.intp]

CORRELATION = 0.999
"""Absolute correlation from which a column counts as a copy."""
RANK_CORRELATION = 0.98
"""And absolute correlation of the (dense) ranks, which noise changes more."""
MOST_ROWS, FEWEST_ROWS = 1024, 12
WHOLE_VIEW = 0.9
"""Share of the columns of a view that are copies from which the view itself counts as one."""
_FEWEST_OTHER_VALUES = 5
_TABLES, _PROJECTIONS, _CELL, _PER_CELL = 4, 8, 0.5, 4
_PAIRS_AT_ONCE = 2**13
_PER_LABEL, _CORRELATIONS_AT_ONCE = 8, 2**20


@dataclass(frozen=True)
class Copy:
    """Column `column` of `view` is column `other_column` of `other_view`, on `rows` samples."""

    view: str
    column: str
    other_view: str
    other_column: str
    correlation: float
    rows: int


@dataclass(frozen=True)
class LabelCopy:
    """A column that correlates with a label as a copy of it does."""

    view: str
    column: str
    label: str
    correlation: float
    rows: int


def copies_across_views(views: ViewSet) -> list[Copy]:
    """Every column of a later view that an earlier one has too, with its best partner."""
    found: list[Copy] = []
    for j, view in enumerate(views.names):
        for i in range(j):
            found += _copies_of_pair(views, view, views.names[i])
    return found


def _copies_of_pair(views: ViewSet, view: str, other: str) -> list[Copy]:
    a, b = views.names.index(view), views.names.index(other)
    shared = np.flatnonzero(views.observed[:, a] & views.observed[:, b])
    rows = sample_rows(shared, max(views.dims[a], views.dims[b]), MOST_ROWS)
    if len(rows) < FEWEST_ROWS:
        return []
    (units, kept), (others, others_kept) = (_units(views, name, rows) for name in (view, other))
    names, other_names = column_names(views, view), column_names(views, other)
    return [
        Copy(view, names[kept[k]], other, other_names[others_kept[partner]], rho, len(rows))
        for k, (partner, rho) in sorted(best_partners(units, others).items())
    ]


def _units(views: ViewSet, name: str, rows: Rows) -> tuple[Numbers, Rows]:
    """Columns (k, r) as vectors of mean 0 and length 1, and which columns they are.

    Left out are those that are constant here, or but for a few values: these agree by chance.
    """
    values = views.rows(name, rows).T.copy()
    missing = np.isnan(values)
    largest = np.nan_to_num(np.abs(values)).max(axis=1, keepdims=True)
    values /= np.maximum(largest, np.float32(1e-30))  # sums stay in range
    if missing.any():
        means = np.nanmean(np.where(missing.all(axis=1)[:, None], 0, values), axis=1)
        values = np.where(missing, means[:, None].astype(np.float32), values)
    values -= values.mean(axis=1, keepdims=True)
    values /= np.maximum(np.abs(values).max(axis=1, keepdims=True), np.float32(1e-30))
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values))
    kept = np.flatnonzero((lengths > 0) & _spread(values))
    return values[kept] / lengths[kept, None], kept


def _spread(values: Numbers) -> NDArray[np.bool_]:
    """Whether five or more values (k, r) differ from the most frequent one, here the median."""
    middle = np.median(values, axis=1)[:, None]
    differs = np.abs(values - middle) > 1e-6
    result: NDArray[np.bool_] = differs.sum(axis=1) >= _FEWEST_OTHER_VALUES
    return result


def best_partners(units: Numbers, others: Numbers) -> dict[int, tuple[int, float]]:
    """For rows of `units` with a copy among the rows of `others`: the best one, and how good."""
    best: dict[int, tuple[int, float]] = {}
    if not len(units) or not len(others):
        return best
    rng = np.random.Generator(np.random.Philox(4))
    for _ in range(_TABLES):
        directions = rng.standard_normal((units.shape[1], _PROJECTIONS)).astype(np.float32)
        offset = rng.random(_PROJECTIONS)
        cells = (_cells(columns, directions, offset) for columns in (units, others))
        own, partner = _cell_mates(*cells)
        for start in range(0, len(own), _PAIRS_AT_ONCE):
            part = slice(start, start + _PAIRS_AT_ONCE)
            rho = np.abs(np.einsum("ij,ij->i", units[own[part]], others[partner[part]]))
            for k in np.flatnonzero(rho >= CORRELATION):
                mine, theirs = int(own[start + k]), int(partner[start + k])
                if mine not in best or rho[k] > best[mine][1]:
                    best[mine] = (theirs, min(1.0, float(rho[k])))
    return {k: found for k, found in best.items() if _same_order(units[k], others[found[0]])}


def _same_order(first: Numbers, second: Numbers) -> bool:
    """Whether two columns order the samples alike, too: one outlier can correlate all by itself."""
    ranks = [np.unique(column, return_inverse=True)[1].reshape(-1) for column in (first, second)]
    centred = [own - own.mean() for own in ranks]
    lengths = [float(np.sqrt(own @ own)) for own in centred]
    return abs(float(centred[0] @ centred[1])) >= RANK_CORRELATION * lengths[0] * lengths[1]


def _cells(units: Numbers, directions: Numbers, offset: NDArray[np.float64]) -> NDArray[np.int64]:
    """The cell of every vector as one number; mirrored vectors share a cell."""
    projected = (units @ directions).astype(np.float64)
    projected *= np.where(projected[:, :1] < 0, -1.0, 1.0)
    grid = np.floor(projected / _CELL + offset).astype(np.int64) + 64
    result: NDArray[np.int64] = grid @ (128 ** np.arange(_PROJECTIONS, dtype=np.int64))
    return result


def _cell_mates(own: NDArray[np.int64], other: NDArray[np.int64]) -> tuple[Rows, Rows]:
    """Pairs of entries in the same cell: with each of `own`, the first few of `other`."""
    order = np.argsort(other, kind="stable")
    start = np.searchsorted(other[order], own, side="left")
    stop = np.searchsorted(other[order], own, side="right")
    mine, theirs = [], []
    for step in range(_PER_CELL):
        there = np.flatnonzero(start + step < stop)
        mine.append(there)
        theirs.append(order[start[there] + step])
    return np.concatenate(mine), np.concatenate(theirs)


def label_copies(views: ViewSet, labels: Labels) -> list[LabelCopy]:
    """Columns that equal a label, up to scale, on the samples where it is known."""
    found = []
    for j, view in enumerate(views.names):
        rows = _rows_for_labels(views.observed[:, j], labels, views.dims[j])
        if len(rows) < FEWEST_ROWS:
            continue
        values, names = views.rows(view, rows), column_names(views, view)
        step = max(1, _CORRELATIONS_AT_ONCE // labels.n_labels)
        for start in range(0, views.dims[j], step):
            block = np.nan_to_num(values[:, start : start + step].astype(np.float64))
            rho = np.abs(_label_correlations(block, labels[rows]))
            for label, column in np.argwhere(rho >= CORRELATION):
                place = (view, names[start + column], labels.names[label])
                found.append(LabelCopy(*place, min(1.0, float(rho[label, column])), len(rows)))
    return found


def _rows_for_labels(present: NDArray[np.bool_], labels: Labels, width: int) -> Rows:
    """Evenly spaced rows, and some positives and negatives of every label."""
    rows = sample_rows(np.flatnonzero(present & labels.observed.any(axis=1)), width, MOST_ROWS)
    chosen = [rows]
    for j in range(labels.n_labels):
        known = present & labels.observed[:, j]
        positive = labels.values[:, j] > 0
        chosen += [
            np.flatnonzero(known & positive)[:_PER_LABEL],
            np.flatnonzero(known & ~positive)[:_PER_LABEL],
        ]
    more = np.unique(np.concatenate(chosen[1:]))
    return np.union1d(rows, more[: max(MOST_ROWS, len(rows))])


def _label_correlations(values: NDArray[np.float64], labels: Labels) -> NDArray[np.float64]:
    """Correlations (c, d) of labels, where they are known, with columns; 0 where undefined."""
    values = values - values.mean(axis=0)
    values /= np.maximum(np.abs(values).max(axis=0), 1e-300)  # squares stay in range
    known = labels.observed.astype(np.float64)
    truth = labels.values.astype(np.float64)
    count = np.maximum(known.sum(axis=0), 1.0)[:, None]
    positive = truth.sum(axis=0)[:, None]
    mean = known.T @ values / count
    variance = known.T @ np.square(values) / count - np.square(mean)
    covariance = truth.T @ values / count - mean * positive / count
    of_label = positive / count * (1.0 - positive / count)
    enough = (np.minimum(positive, count - positive) >= _FEWEST_OTHER_VALUES) & (variance > 1e-12)
    result = np.zeros(variance.shape)
    deviations = np.sqrt(np.maximum(variance * of_label, 1e-300))
    np.divide(covariance, deviations, out=result, where=enough)
    return result


def copy_table(copies: list[Copy]) -> pd.DataFrame:
    """One line per column that another view has too."""
    import pandas as pd

    names = list(Copy.__dataclass_fields__)
    return pd.DataFrame([tuple(vars(own).values()) for own in copies], columns=names)


def copy_findings(views: ViewSet, copies: list[Copy]) -> Iterator[Finding]:
    """Views that repeat another one, whole or in part."""
    pairs: dict[tuple[str, str], list[Copy]] = {}
    for own in copies:
        pairs.setdefault((own.view, own.other_view), []).append(own)
    width = dict(zip(views.names, views.dims, strict=True))
    for (view, other), found in pairs.items():
        shown = first_few((f"{own.column} = {own.other_column}" for own in found), 3)
        columns = named(own.column for own in found)
        whole = len(found) >= WHOLE_VIEW * width[view]
        text = (
            f"view {view!r} repeats view {other!r}: {len(found):,} of its {width[view]:,} columns"
            if whole
            else f"view {view!r}: {counted(len(found), 'column')} that view {other!r} has too"
        )
        yield Finding(
            "warning",
            "copied_view" if whole else "copied_columns",
            f"{text} (up to scale, |correlation| at least {CORRELATION:g}: {shown})",
            "keep them in one view: the same evidence counts twice, and a view is not missing "
            "where the other has its values",
            view=view,
            columns=columns,
        )


def label_copy_findings(copies: list[LabelCopy]) -> Iterator[Finding]:
    """Columns that give a label away."""
    for view in dict.fromkeys(own.view for own in copies):
        found = [own for own in copies if own.view == view]
        shown = first_few((f"{own.column} = {own.label}" for own in found), 3)
        yield Finding(
            "warning",
            "column_copies_label",
            f"view {view!r}: {counted(len(found), 'column')} equal a label ({shown})",
            "a model would read the answer: leave the column out, unless it is known before the "
            "label is",
            view=view,
            columns=named(own.column for own in found),
            labels=named(dict.fromkeys(own.label for own in found)),
        )
