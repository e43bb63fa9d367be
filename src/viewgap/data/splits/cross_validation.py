"""K-fold cross-validation on data with gaps: folds that are alike, groups that stay together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from viewgap.data.labels import Labels
from viewgap.data.rows.alignment import is_frame
from viewgap.data.splits.missing import label_mask, view_mask_over_gaps
from viewgap.data.splits.splits import Fold, cross_fit_parts, rank_of_rarest, strata_of_rows
from viewgap.data.validation import as_labels
from viewgap.data.viewset import ViewSet
from viewgap.errors import InputError, SettingError, first_few

# Keeps the folds apart from other draws with the same seed.
_FOLDS = 11


def balanced_parts(
    views: ViewSet,
    labels: Any,
    n_parts: int,
    rng: np.random.Generator,
    groups: ArrayLike | None = None,
) -> NDArray[np.intp]:
    """Deal rows to parts that are alike in labels and missing views; groups are never split.

    Without groups, the parts of `cross_fit_parts`, whose sizes differ by one at most. With groups
    the largest are dealt first, of equal ones those of the rarest strata, each to the part that has
    the fewest rows like its rows; a part is filled beyond its share only by a group that fits
    nowhere. There are at most as many parts as rows or groups; `rng` decides between parts that are
    equally good. Returns the number (n,) of each row's part, from 0 on.
    """
    if n_parts < 2:
        raise SettingError(f"the number of folds must be 2 or more, found {n_parts!r}")
    unit = None if groups is None else group_numbers(groups, len(views))
    n_units, what = (
        (len(views), "samples") if unit is None else (int(unit.max(initial=-1)) + 1, "groups")
    )
    if n_parts > n_units:
        raise SettingError(
            f"{n_parts} folds need at least as many {what}, found {n_units}; ask for fewer folds"
        )
    if unit is None or n_units == len(views):
        return cross_fit_parts(views, labels, n_parts, rng)
    checked = labels if isinstance(labels, Labels) else as_labels(labels, views)
    return _Units.of(unit, views.observed, checked).deal(n_parts, rng)[unit]


def group_numbers(groups: ArrayLike, n: int) -> NDArray[np.intp]:
    """Number the groups of n rows from 0 on; a row without a group (NaN, None, blank) is refused.

    Examples
    --------
    >>> group_numbers(["b", "a", "b"], 3)
    array([1, 0, 1])
    """
    values = np.asarray(groups)
    if values.shape != (n,):
        raise InputError(
            f"groups must hold one value per sample, ({n},); found shape {values.shape}"
        )
    if values.dtype.kind == "O":
        blank = np.array([value is None or value != value for value in values], dtype=np.bool_)
        values = values.astype(str)
    else:
        blank = values != values
    blank |= values.astype(str) == ""
    if blank.any():
        raise InputError(
            f"{blank.sum()} samples have no group (first: rows {first_few(np.flatnonzero(blank))});"
            " give each of them one, a sample that belongs to no other a group of its own"
        )
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def matched_groups(groups: Any, views: ViewSet) -> NDArray[np.intp] | None:
    """Number of the group of every sample; a Series is put in the order of the samples."""
    if groups is None:
        return None
    if is_frame(groups) or hasattr(groups, "reindex"):
        own = groups.iloc[:, 0] if hasattr(groups, "columns") else groups
        lacking = [item for item in views.sample_ids.tolist() if item not in own.index]
        if lacking and views.has_ids:
            raise InputError(
                f"groups lack {len(lacking):,} samples of X (first: {first_few(lacking)}); give "
                "each of them one, a sample that belongs to no other a group of its own"
            )
        groups = own.reindex(views.sample_ids) if views.has_ids else own
    elif not views.row_order_known:
        raise InputError(
            "groups without ids, while the views are tables that differ in their samples or order; "
            "give groups as a Series by sample id"
        )
    return group_numbers(np.asarray(groups), len(views))


def cross_validation_fold(
    views: ViewSet,
    labels: Any,
    number: int,
    n_splits: int,
    *,
    groups: ArrayLike | None = None,
    view_rate: float = 0.0,
    label_rate: float = 0.0,
) -> Fold:
    """Return one fold of a (repeated) K-fold cross-validation of incomplete data.

    Fold `number` tests part `number % n_splits` of repetition `number // n_splits`, and trains on
    the other parts; there are no validation rows. Samples without any view or without any observed
    label belong to no part. Rows of the same group are on the same side. Rates above 0 hide views
    and training labels on top of the gaps.
    """
    values = as_labels(labels, views).as_float()
    rows = np.flatnonzero(views.has_view & ~np.isnan(values).all(axis=1))
    repeat, part = divmod(number, n_splits)
    rng = np.random.default_rng([_FOLDS, repeat])
    own = None if groups is None else np.asarray(groups)[rows]
    parts = balanced_parts(views[rows], values[rows], n_splits, rng, own)
    train, test = rows[parts != part], rows[parts == part]
    rng = np.random.default_rng([_FOLDS, repeat, part])
    kept = view_mask_over_gaps(views.observed, view_rate, rng)
    seen = label_mask(values, train, label_rate, rng)
    return Fold(train, np.empty(0, dtype=np.intp), test, kept, seen, number)


# ---------------------------------------------------------------------- groups


@dataclass(frozen=True)
class _Units:
    """Groups of rows: the strata of their rows, one after the other, and where they begin.

    A stratum that several rows of a group belong to stands there several times.
    """

    sizes: NDArray[np.intp]
    ends: NDArray[np.intp]
    strata: NDArray[np.intp]
    weight: NDArray[np.float64]
    rarest: NDArray[np.intp]

    @classmethod
    def of(cls, unit: NDArray[np.intp], observed: NDArray[np.bool_], labels: Labels) -> _Units:
        ends, strata, weight = strata_of_rows(observed, labels)
        owner = np.repeat(unit, np.diff(ends))
        sizes = np.bincount(unit)
        rarest = np.full(len(sizes), len(weight))
        np.minimum.at(rarest, unit, rank_of_rarest(ends, strata, weight))
        starts = np.append(0, np.cumsum(np.bincount(owner, minlength=len(sizes))))
        return cls(sizes, starts, strata[np.argsort(owner, kind="stable")], weight, rarest)

    def deal(self, n_parts: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return the part of each group."""
        share = -(-int(self.sizes.sum()) // n_parts)
        order = rng.permutation(len(self.sizes))
        order = order[np.lexsort((self.rarest[order], -self.sizes[order]))]
        draws = 1e-9 * rng.random((len(order), n_parts))  # decides ties only
        load, filled = np.zeros((len(self.weight), n_parts)), np.zeros(n_parts)
        parts = np.zeros(len(order), dtype=np.intp)
        for left, number in zip(range(len(order), 0, -1), order, strict=True):
            own, size = self.strata[self.ends[number] : self.ends[number + 1]], self.sizes[number]
            cost = load[own].sum(axis=0) + size * filled + draws[number]
            part = np.where(_allowed(filled, size, share, left), cost, np.inf).argmin()
            parts[number] = part
            filled[part] += size
            np.add.at(load, (own, part), self.weight[own])
        return parts


def _allowed(filled: NDArray[np.float64], size: int, share: int, left: int) -> NDArray[np.bool_]:
    """Which parts a group may go to: those with room, else the smallest; none stays empty."""
    empty = filled == 0
    if empty.sum() >= left:  # as many parts are empty as groups are left
        return np.asarray(empty)
    fits = filled + size <= share
    return np.asarray(fits if fits.any() else filled == filled.min())
