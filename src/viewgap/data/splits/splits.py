"""Rows dealt to parts: train, validation and test of one fold, and the parts of a cross-fit."""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.labels import Labels
from viewgap.data.rows.values import row_chunks, row_numbers
from viewgap.data.splits.missing import ceil, label_mask, view_mask_over_gaps
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewgapWarning, first_few

Part = tuple[ViewSet, NDArray[np.float64]]


class Split(NamedTuple):
    """Views and labels (NaN = not observed) of the three parts of a fold."""

    train: Part
    validation: Part
    test: Part


@dataclass(frozen=True, eq=False)
class Fold:
    """One train / validation / test split with its masks.

    `train`, `validation` and `test` are row numbers; `view_mask` (n, m) covers all rows;
    `label_mask` (n, c) is True for the labels that training may see, and False outside the
    training rows. `name` is the number in a fold file, or the seed.
    """

    train: NDArray[np.intp]
    validation: NDArray[np.intp]
    test: NDArray[np.intp]
    view_mask: NDArray[np.bool_]
    label_mask: NDArray[np.bool_]
    name: str | int = 0

    def split(self, views: ViewSet, labels: Any) -> Split:
        """Parts of complete data under this fold: views masked in all, labels in training only.

        No values are copied. Validation and test labels stay complete.
        """
        complete = as_labels(labels, views).as_float()
        if complete.shape != self.label_mask.shape:
            raise SettingError(
                f"this fold is for labels of shape {self.label_mask.shape}, found {complete.shape}"
            )
        # The parts hold labels without ids, in the order of the views.
        masked = views.with_observed(self.view_mask).with_fixed_row_order()
        observed = np.where(self.label_mask[self.train], complete[self.train], np.nan)
        return Split(
            (masked[self.train], observed),
            (masked[self.validation], complete[self.validation]),
            (masked[self.test], complete[self.test]),
        )


def split_sizes(n: int, train_share: float = 0.7) -> tuple[int, int, int]:
    """Sizes of train, validation and test: ceil(share n), ceil((1 - share) n / 2), the rest.

    At least one sample is left for the test part.
    """
    if not 0 < train_share < 1:
        raise SettingError(f"train_share must lie between 0 and 1, found {train_share!r}")
    train = ceil(n * train_share)
    validation = min(ceil(n * (1 - train_share) / 2), n - train - 1)
    test = n - train - validation
    if min(train, validation, test) < 1:
        raise SettingError(
            f"{n} samples are too few for three parts with train_share = {train_share:g}: they "
            f"would have {train}, {max(0, validation)} and {test} samples"
        )
    return train, validation, test


def make_fold(
    views: ViewSet,
    labels: Any,
    *,
    view_rate: float = 0.5,
    label_rate: float = 0.5,
    train_share: float = 0.7,
    seed: int = 0,
) -> Fold:
    """Draw one fold by the field's protocol: view mask, order of the samples, label mask.

    Views that are missing already stay missing, and a sample never loses its last view.

    Parameters
    ----------
    views : ViewSet
        The complete data.
    labels : array, DataFrame or Labels of shape (n, c)
        The complete labels.
    view_rate, label_rate : float, default=0.5
        Share of the samples that lose each view, and of the training labels that are taken away.
    train_share : float, default=0.7
        Share of the training rows; the rest is halved into validation and test rows.
    seed : int, default=0
        Seed of the draw, and the name of the fold.

    Returns
    -------
    Fold
    """
    rng = np.random.default_rng(seed)
    complete = as_labels(labels, views).as_float()
    views_kept = view_mask_over_gaps(views.observed, view_rate, rng)
    train, validation, test = cut(rng.permutation(len(views)), train_share)
    labels_kept = label_mask(complete, train, label_rate, rng)
    return Fold(train, validation, test, views_kept, labels_kept, seed)


def cut(
    order: NDArray[np.intp], train_share: float
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Cut an order of the samples into train, validation and test, one after the other."""
    train, validation, _ = split_sizes(len(order), train_share)
    return order[:train], order[train : train + validation], order[train + validation :]


def cross_fit_parts(
    views: ViewSet, labels: Any, n_parts: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Deal rows to parts that are alike in their labels and in the views that they miss.

    The parts of a cross-fit: a model is fitted on the rows outside of a part, and predicts the
    part. Sizes differ by one at most; of fewer rows than parts, every row is a part of its own.
    Rows are dealt one by one, those of the rarest strata first, each to the part that has the
    fewest rows like it so far (a row of a stratum counts by the inverse of its size); `rng` decides
    between parts that are equally good. A stratum is the rarer observed value of a label, the rarer
    state of a view (observed or missing), or a pattern of missing views. Returns the number (n,) of
    each row's part, from 0 on.
    """
    if n_parts < 2:
        raise SettingError(f"n_parts must be 2 or more, found {n_parts!r}")
    n = len(views)
    n_parts = min(n_parts, n)
    checked = labels if isinstance(labels, Labels) else as_labels(labels, views)
    ends, strata, weight = strata_of_rows(views.observed, checked)
    order = rng.permutation(n)
    order = order[np.argsort(rank_of_rarest(ends, strata, weight)[order], kind="stable")]
    draws = 1e-9 * rng.random((n, n_parts))  # far below the weight of a row: decides ties only
    load = np.zeros((len(weight), n_parts))
    size = np.zeros(n_parts)
    parts = np.zeros(n, dtype=np.intp)
    for row, draw in zip(order, draws, strict=True):
        own = strata[ends[row] : ends[row + 1]]
        cost = load[own].sum(axis=0) + size + draw
        larger = (size > n // n_parts).sum() >= n % n_parts  # all parts that may have one more
        cost[size >= n // n_parts + (not larger)] = np.inf
        part = cost.argmin()
        parts[row] = part
        size[part] += 1
        load[own, part] += weight[own]
    return parts


def strata_of_rows(
    observed: NDArray[np.bool_], labels: Labels
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """Strata of each row, one after the other, where they begin (n + 1,), and their weights.

    A stratum of r of the n rows has weight n / r. One that all rows or one row belong to is left
    out: nothing can be balanced.
    """
    n = len(observed)
    rarer_observed = 2 * observed.sum(axis=0) <= n
    _, pattern = np.unique(observed, axis=0, return_inverse=True)
    pattern = pattern.reshape(-1)
    members = [
        _rarer_values(labels),
        np.nonzero(observed == rarer_observed),
        (np.arange(n), pattern),
    ]
    firsts = np.cumsum([0, labels.n_labels, observed.shape[1], pattern.max(initial=-1) + 1])
    rows = np.concatenate([row for row, _ in members])
    strata = np.concatenate(
        [stratum + first for (_, stratum), first in zip(members, firsts[:-1], strict=True)]
    )
    counts = np.bincount(strata, minlength=firsts[-1])
    kept = (counts[strata] > 1) & (counts[strata] < n)
    by_row = np.argsort(rows[kept], kind="stable")
    ends = np.append(0, np.cumsum(np.bincount(rows[kept], minlength=n)))
    return ends, strata[kept][by_row], n / np.maximum(counts, 1)


def _rarer_values(labels: Labels) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Row and column of all entries with the rarer observed value of their label, row by row."""
    positives = labels.positive_counts()
    is_rarer = positives <= labels.observed_counts() - positives
    rows, columns = labels.positive_entries()
    kept = is_rarer[columns]
    other_rows, other_columns = labels.negative_entries(np.flatnonzero(~is_rarer))
    rows = np.concatenate([rows[kept], other_rows])
    columns = np.concatenate([columns[kept], other_columns])
    order = np.lexsort((columns, rows))
    return rows[order], columns[order]


def rank_of_rarest(
    ends: NDArray[np.intp], strata: NDArray[np.intp], weight: NDArray[np.float64]
) -> NDArray[np.intp]:
    """Return the place of each row's rarest stratum among all strata, from rare to frequent."""
    rank = np.empty(len(weight), dtype=np.intp)
    rank[np.argsort(-weight, kind="stable")] = np.arange(len(weight))
    result = np.full(len(ends) - 1, len(weight))  # rows without any come last
    np.minimum.at(result, np.repeat(np.arange(len(result)), np.diff(ends)), rank[strata])
    return result


def warn_shared_rows(views: ViewSet, train: ArrayLike, test: ArrayLike) -> int:
    """Warn about test samples that also occur in training, value by value; return how many.

    Two samples are the same if they have the same views with the same values (as float32).
    Call it on the views before a fold masks them. Samples without any view are left out.
    """
    training = set(_fingerprints(views, row_numbers(train, len(views))))
    rows = row_numbers(test, len(views))
    rows = rows[views.observed[rows].any(axis=1)]
    shared = [
        row for row, mark in zip(rows, _fingerprints(views, rows), strict=True) if mark in training
    ]
    if shared:
        warnings.warn(
            f"{len(shared)} test samples occur in the training rows with the same values "
            f"(ids: {first_few(views.sample_ids[shared])}); their scores say nothing about new "
            "samples",
            ViewgapWarning,
            stacklevel=2,
        )
    return len(shared)


def _fingerprints(views: ViewSet, rows: NDArray[np.intp]) -> list[bytes]:
    marks = []
    for part in row_chunks(len(rows), 4 * max(1, views.shape[1])):
        hashes = [
            hashlib.blake2b(seen.tobytes(), digest_size=16) for seen in views.observed[rows[part]]
        ]
        for name in views.names:
            # Adding zero makes -0.0 the same bytes as 0.0.
            for state, values in zip(hashes, views.rows(name, rows[part]) + 0.0, strict=True):
                state.update(values.tobytes())
        marks += [state.digest() for state in hashes]
    return marks
