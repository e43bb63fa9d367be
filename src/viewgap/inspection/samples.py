"""Samples: without views or labels, the same ones twice, filled-in rows, ids and their order."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.rows.summary_rows import named_like_summary
from viewgap.data.viewset import ViewSet
from viewgap.errors import counted, first_few, parameter
from viewgap.inspection.columns import Columns
from viewgap.inspection.findings import Finding, named
from viewgap.inspection.hashing import combined, groups_of_equal

if TYPE_CHECKING:
    import pandas as pd

Groups = list[NDArray[np.intp]]

SMALLEST_FILLED_GROUP = 5
_MOSTLY_DISTINCT = 0.9
_FEWEST_DISTINCT = 10
_COARSE_WIDTH = 50
_MOST_IDS = 100_000  # more do not make a habit clearer
SORTED_Z = -6.0
"""Standard deviations of Wald and Wolfowitz' test of runs below which rows count as sorted."""


def duplicate_groups(views: ViewSet, summaries: Sequence[Columns]) -> Groups:
    """Samples with the same views and the same values in all of them, a group each.

    Views of a few whole numbers, such as indicators, agree by chance: samples that have no other
    view are left out.
    """
    if not len(views):
        return []
    marks = [(views.observed[:, j].astype(np.uint64)) for j in range(views.n_views)]
    hashes = combined([*marks, *(columns.row_hash for columns in summaries)])
    first = groups_of_equal(hashes)
    telling = [not _is_coarse(columns) for columns in summaries]
    return _groups(np.where(views.observed[:, telling].any(axis=1), first, -1))


def _is_coarse(columns: Columns) -> bool:
    held = ~columns.empty
    return len(columns.names) <= _COARSE_WIDTH and bool(columns.whole[held].all())


def _groups(first: NDArray[np.intp]) -> Groups:
    """Rows with the same first one, of groups of two and more; -1 belongs to none."""
    rows = np.flatnonzero(first >= 0)
    leaders, counts = np.unique(first[rows], return_counts=True)
    repeated = rows[np.isin(first[rows], leaders[counts > 1])]
    repeated = repeated[np.argsort(first[repeated], kind="stable")]
    return np.split(repeated, np.flatnonzero(np.diff(first[repeated])) + 1) if len(repeated) else []


def duplicate_table(views: ViewSet, groups: Groups) -> pd.DataFrame:
    """One line per sample that occurs more than once."""
    import pandas as pd

    lines = [(k, str(views.sample_ids[row])) for k, rows in enumerate(groups, 1) for row in rows]
    return pd.DataFrame(lines, columns=["group", "sample"])


def sample_table(views: ViewSet, labels: Labels | None, groups: Groups) -> pd.DataFrame:
    """How many samples there are, of which sort."""
    import pandas as pd

    counts = {
        "samples": len(views),
        "with every view": int(views.observed.all(axis=1).sum()),
        "without any view": int((~views.has_view).sum()),
        "occurring more than once": sum(map(len, groups)),
    }
    if labels is not None:
        known = labels.observed.any(axis=1)
        counts["with every label known"] = int(labels.observed.all(axis=1).sum())
        counts["without any known label"] = int((~known).sum())
        counts["without a positive label"] = int((known & ~labels.values.any(axis=1)).sum())
    return pd.DataFrame({"what": list(counts), "samples": list(counts.values())})


def sample_findings(
    views: ViewSet, labels: Labels | None, summaries: Sequence[Columns], groups: Groups
) -> Iterator[Finding]:
    """What is suspicious about samples, their ids and their order."""
    yield from _empty_rows(views)
    yield from _duplicates(views, labels, groups)
    for columns in summaries:
        yield from _filled_rows(views, columns)
    yield from _ids(views)
    yield from _order(views, labels)


def _empty_rows(views: ViewSet) -> Iterator[Finding]:
    empty = np.flatnonzero(~views.has_view)
    if len(empty):
        ids = views.sample_ids[empty]
        yield Finding(
            "error",
            "samples_without_view",
            f"{counted(len(empty), 'sample')} of {len(views):,} without any view "
            f"(ids: {first_few(ids)})",
            f"remove them, or use {parameter('on_empty', 'prior')} to leave them out of the fit "
            "and answer with the label frequencies",
            ids=named(ids),
        )


def _duplicates(views: ViewSet, labels: Labels | None, groups: Groups) -> Iterator[Finding]:
    if not groups:
        return
    rows = np.concatenate(groups)
    ids = views.sample_ids[rows]
    differ = [] if labels is None else [own for own in groups if _disagree(labels, own)]
    text = (
        f"{counted(len(rows), 'sample')} in {counted(len(groups), 'group')} have the same values "
        f"in the same views (ids: {first_few(views.sample_ids[groups[0]])})"
    )
    if differ:
        text += f"; in {counted(len(differ), 'group')} known labels contradict each other"
    yield Finding(
        "warning",
        "duplicated_samples",
        text,
        "keep one of each; else a copy in training and one in test make scores too good",
        ids=named(ids),
    )


def _disagree(labels: Labels, rows: NDArray[np.intp]) -> bool:
    values, known = labels.values[rows] > 0, labels.observed[rows]
    return bool(((values & known).any(axis=0) & (~values & known).any(axis=0)).any())


def _filled_rows(views: ViewSet, columns: Columns) -> Iterator[Finding]:
    """Equal rows in a view whose other rows all differ: missing ones that somebody filled."""
    rows = np.flatnonzero(views.observed[:, views.names.index(columns.view)])
    if len(rows) < SMALLEST_FILLED_GROUP:
        return
    hashes, counts = np.unique(columns.row_hash[rows], return_counts=True)
    largest = int(counts.max())
    second = int(np.partition(counts, -2)[-2]) if len(counts) > 1 else 0
    others, distinct = len(rows) - largest, len(hashes) - 1
    stands_out = largest >= max(SMALLEST_FILLED_GROUP, 5 * (second - 1))
    if not stands_out or distinct < max(_FEWEST_DISTINCT, _MOSTLY_DISTINCT * others):
        return
    same = rows[columns.row_hash[rows] == hashes[counts.argmax()]]
    first = views.rows(columns.view, same[:1], dtype=np.float64)[0]
    what = "all zeros" if not first.any() else "the same values"
    yield Finding(
        "warning",
        "filled_rows",
        f"view {columns.view!r}: {largest:,} samples have {what} in all columns, while the others "
        f"differ (ids: {first_few(views.sample_ids[same])})",
        "if the view is missing there and was filled in, put NaN (or leave the rows out of its "
        "table): a missing view is then not read as a measurement",
        view=columns.view,
        ids=named(views.sample_ids[same]),
    )


# ---------------------------------------------------------------------- ids and order


def _ids(views: ViewSet) -> Iterator[Finding]:
    if not views.has_ids:
        yield Finding(
            "note",
            "no_ids",
            "the data has no sample ids: rows are matched by their position",
            "make sure that row i is the same sample in every view and in the labels",
        )
        return
    summaries = named_like_summary(views.sample_ids[:_MOST_IDS].tolist())
    if summaries:
        yield Finding(
            "warning",
            "summary_rows",
            f"{counted(len(summaries), 'sample')} named like a row that sums up the others: "
            f"{first_few(summaries)}",
            "delete such rows in the tables, they are no samples; if they are samples, give them "
            "other ids, so that nobody wonders",
            ids=named(summaries),
        )
    spellings: dict[str, list[Any]] = {}
    for item in views.sample_ids[:_MOST_IDS]:
        spellings.setdefault(_plain_id(item), []).append(item)
    alike = [items for items in spellings.values() if len(items) > 1]
    if alike:
        shown = "; ".join(" and ".join(repr(str(item)) for item in items) for items in alike[:3])
        yield Finding(
            "warning",
            "ids_alike",
            f"{counted(len(alike), 'group')} of ids differ only in case, blanks, separators or "
            f"leading zeros: {shown}",
            "if they are the same sample, write the id in one way in every table: its views are "
            "taken for those of two samples now",
            ids=named(item for items in alike for item in items),
        )


def _plain_id(item: Any) -> str:
    """An id without case, separators and leading zeros of numbers."""
    parts = re.findall(r"[^\W\d_]+|\d+", str(item).casefold())
    return "|".join(part.lstrip("0") or "0" if part[0].isdigit() else part for part in parts)


def _order(views: ViewSet, labels: Labels | None) -> Iterator[Finding]:
    """Rows sorted by a label or by what is missing."""
    if not views.row_order_known:
        yield Finding(
            "note",
            "row_order_unknown",
            "the views are tables that differ in their samples or order: rows follow the ids in "
            "the order of their first appearance",
            "give labels with ids, too; labels without ids are refused",
        )
    sorted_by = [] if labels is None else _sorted_labels(labels)
    if sorted_by:
        yield Finding(
            "note",
            "sorted_by_label",
            f"the rows are sorted by {counted(len(sorted_by), 'label')} "
            f"({first_few(sorted_by)}): equal values follow each other far more often than by "
            "chance",
            "viewgap shuffles before it splits; in splits of your own use shuffle=True, and see "
            "whether neighbouring rows belong together (one patient, one recording): then split "
            "by group",
            labels=named(sorted_by),
        )


def _sorted_labels(labels: Labels) -> list[str]:
    """Labels whose known values have far fewer runs than a random order has."""
    found = []
    for j, name in enumerate(labels.names):
        values = labels.values[labels.observed[:, j], j].astype(np.bool_)
        n, ones = len(values), int(values.sum())
        if min(ones, n - ones) < 2:
            continue
        runs = 1 + int((values[1:] != values[:-1]).sum())
        pairs = 2.0 * ones * (n - ones)
        variance = pairs * (pairs - n) / (float(n) ** 2 * (n - 1))
        if variance > 0 and (runs - (pairs / n + 1)) / variance**0.5 < SORTED_Z:
            found.append(name)
    return found
