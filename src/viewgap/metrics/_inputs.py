"""Input validation of the metrics: labels and scores are aligned and checked here, once."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import InputError, LabelError, SettingError, ViewgapWarning, parameter

Variant = Literal["field", "clean"]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class LabelEntries:
    """Checked labels and scores of the entries that count.

    Shape: `truth` (n, c) is True at positives that count; `scores` (n, c) is -inf at entries that
    do not count, so that they sort behind every other; `valid` (n, c) is None when all count.
    `label_names` (c,) are the columns of a DataFrame, None where only arrays were given.
    """

    truth: Bools
    scores: Floats
    valid: Bools | None
    label_names: tuple[str, ...] | None = None

    @property
    def counts(self) -> Ints:
        """LabelEntries that count, per row (n,)."""
        if self.valid is None:
            return np.full(len(self.truth), self.truth.shape[1], dtype=np.int64)
        counts: Ints = self.valid.sum(axis=1, dtype=np.int64)
        return counts

    def transposed(self) -> LabelEntries:
        """The same entries with labels as rows."""
        valid = None if self.valid is None else np.ascontiguousarray(self.valid.T)
        return LabelEntries(
            np.ascontiguousarray(self.truth.T), np.ascontiguousarray(self.scores.T), valid
        )

    def without_empty_rows(self) -> LabelEntries:
        """Only the rows in which at least one entry counts."""
        left = self.counts > 0
        if left.all():
            return self
        valid = None if self.valid is None else self.valid[left]
        return replace(self, truth=self.truth[left], scores=self.scores[left], valid=valid)


@dataclass(frozen=True)
class _Names:
    """Sample ids and label names of the rows and columns, where a DataFrame brought them."""

    samples: Any = None  # pandas.Index
    labels: tuple[str, ...] | None = None

    def entry(self, row: int, column: int) -> str:
        """Where an entry is, in the words of the data."""
        sample = f"row {row}" if self.samples is None else f"sample {_shown(self.samples[row])}"
        label = f"column {column}" if self.labels is None else f"label {self.labels[column]!r}"
        return f"{sample}, {label}"


def check_entries(Y: Any, P: Any) -> LabelEntries:
    """Labels (n, c) in {0, 1, NaN} and finite or NaN scores (n, c), as `LabelEntries`.

    Two DataFrames are aligned: rows by index, columns by name, in the order of Y.
    """
    return _check(*_align(Y, P))


def check_scores(P: Any) -> LabelEntries:
    """Scores (n, c) without labels, as `LabelEntries` in which nothing is positive."""
    return _check(np.zeros(np.shape(P)), P, _names_of(P))


def _check(Y: Any, P: Any, names: _Names) -> LabelEntries:
    labels = _as_matrix(Y, "Y", LabelError)
    scores = _as_matrix(P, "P", InputError)
    if labels.shape != scores.shape:
        raise InputError(
            f"Y and P must have the same shape (samples, labels); found {labels.shape} and "
            f"{scores.shape}"
        )
    truth = labels == 1
    unobserved = _check_labels(labels, truth, names)
    no_evidence = _check_scores(scores, names)
    if unobserved is None and no_evidence is None:
        return LabelEntries(truth, scores, None, names.labels)
    valid = np.ones(truth.shape, dtype=bool)
    for part in (unobserved, no_evidence):
        if part is not None:
            valid &= ~part
    return LabelEntries(truth & valid, np.where(valid, scores, -np.inf), valid, names.labels)


def check_field_rows(entries: LabelEntries, variant: Variant, stacklevel: int = 3) -> None:
    """Warn, under `"field"`, about samples with labels of which none is positive."""
    warn_of_field_rows(variant, len(entries.truth), count_without_positives(entries), stacklevel)


def warn_of_field_rows(variant: str, n_samples: int, n_without: int, stacklevel: int) -> None:
    """The same, of counts."""
    if variant == "field" and n_without:
        best = 1 - n_without / n_samples
        warnings.warn(
            f"{n_without} of {n_samples} samples have no positive label. "
            f"{parameter('variant', 'field')} counts each of them as 0 in AP and 1-OE (perfect "
            f"scores would reach {best:.3f}) and as more than 1 in 1-Cov; "
            f"{parameter('variant', 'clean')} leaves them out",
            ViewgapWarning,
            stacklevel=stacklevel + 1,
        )


def count_without_positives(entries: LabelEntries) -> int:
    """Rows in which entries count but none of them is a positive."""
    without: Bools = (entries.counts > 0) & ~entries.truth.any(axis=1)
    return int(np.count_nonzero(without))


def refuse_scores(entries: LabelEntries) -> None:
    """Probabilities are wanted: scores outside [0, 1] are an `InputError`."""
    valid = entries.scores if entries.valid is None else entries.scores[entries.valid]
    if valid.size and (valid.min() < 0 or valid.max() > 1):
        raise InputError(
            "expected probabilities in [0, 1]; found scores from "
            f"{valid.min():g} to {valid.max():g}"
        )


def check_variant(variant: str) -> Variant:
    """`"field"` or `"clean"`; anything else is a `SettingError`."""
    if variant not in ("field", "clean"):
        raise SettingError(f"variant must be 'field' or 'clean', found {variant!r}")
    return cast(Variant, variant)


def check_threshold(threshold: Any, entries: LabelEntries) -> Floats:
    """One threshold for all labels, shape (), or one for each, shape (c,).

    A pandas Series is matched by name where the labels have names.
    """
    n_labels = entries.truth.shape[1]
    if (
        hasattr(threshold, "iloc")
        and hasattr(threshold, "index")
        and entries.label_names is not None
    ):
        names = _unique_names(threshold.index, "threshold")
        order = _match_labels(entries.label_names, names, ("the labels", "threshold"))
        threshold = threshold.to_numpy()[order]
    try:
        values = np.asarray(threshold, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(f"threshold must be a number, found {threshold!r}") from error
    if values.shape not in ((), (n_labels,)):
        raise SettingError(
            f"threshold must be one number or one per label ({n_labels}); found shape "
            f"{values.shape}"
        )
    if np.isnan(values).any():
        raise SettingError("threshold must be a number, found NaN")
    return values


def _as_matrix(values: Any, name: str, error_type: type[InputError]) -> Floats:
    if isinstance(values, np.ma.MaskedArray):
        raise error_type(
            f"{name} is a masked array, whose mask numpy functions may ignore; pass "
            f"{name}.astype(float).filled(numpy.nan)"
        )
    if hasattr(values, "toarray"):
        raise error_type(
            f"{name} is sparse; pass a dense array, for example {name}.toarray(), or blocks of "
            "rows to evaluate_blocks"
        )
    try:
        array = _frame_values(values) if is_frame(values) else np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers have no order")
        matrix = array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise error_type(f"{name} must be a numeric (n, c) array: {error}") from error
    if matrix.ndim != 2:
        raise error_type(
            f"{name} must be 2-D, (samples, labels); found {matrix.ndim}-D with shape "
            f"{matrix.shape}"
        )
    return matrix


def _check_labels(labels: Floats, truth: Bools, names: _Names) -> Bools | None:
    strange = ~(truth | (labels == 0))
    if not strange.any():
        return None
    unobserved = np.isnan(labels)
    strange &= ~unobserved
    if strange.any():
        row, column = np.argwhere(strange)[0]
        raise LabelError(
            f"Y must hold 0, 1 or NaN (not observed); found {labels[row, column]:g} in "
            f"{names.entry(row, column)} ({np.count_nonzero(strange)} such entries). For labels in "
            "{-1, 1} pass (Y > 0)"
        )
    return unobserved


def _check_scores(scores: Floats, names: _Names) -> Bools | None:
    finite = np.isfinite(scores)
    if finite.all():
        return None
    no_evidence = np.isnan(scores)
    infinite = ~(finite | no_evidence)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise InputError(
            f"P must hold finite scores, or NaN for a label without evidence; found "
            f"{scores[row, column]} in {names.entry(row, column)} "
            f"({np.count_nonzero(infinite)} such entries)"
        )
    return no_evidence


# ---------------------------------------------------------------------- DataFrames


def is_frame(values: Any) -> bool:
    """Whether `values` is a pandas DataFrame, told without importing pandas."""
    return hasattr(values, "iloc") and hasattr(values, "columns") and hasattr(values, "index")


def _align(Y: Any, P: Any) -> tuple[Any, Any, _Names]:
    """Bring P to the samples and labels of Y where both name them; a lone frame gives the names."""
    if is_frame(Y) and is_frame(P):
        for frame, name in ((Y, "Y"), (P, "P")):
            _refuse_repeated(frame.index, name)
        labels = _unique_names(Y.columns, "Y")
        columns = _match_labels(labels, _unique_names(P.columns, "P"), ("Y", "P"))
        rows = _match_samples(Y.index, P.index)
        return Y, P.iloc[rows, columns], _Names(Y.index, labels)
    for frame, name, other in ((Y, "Y", "P"), (P, "P", "Y")):
        if is_frame(frame):
            _refuse_union_order(frame, name, other)
            return Y, P, _names_of(frame)
    return Y, P, _Names()


def _names_of(values: Any) -> _Names:
    return _Names(values.index, tuple(map(str, values.columns))) if is_frame(values) else _Names()


def _refuse_union_order(frame: Any, name: str, other: str) -> None:
    if getattr(frame, "attrs", {}).get("viewgap_row_order") == "union":
        raise InputError(
            f"{other} has no sample ids, but the rows of {name} follow the union of the ids of "
            f"views that differ in their samples, so that the rows of {other} cannot be told; give "
            f"{other} as a DataFrame with the sample ids as its index"
        )


def _refuse_repeated(index: Any, name: str) -> None:
    if not index.is_unique:
        repeated = index[index.duplicated()].unique()
        raise InputError(
            f"the sample ids in the index of {name} must be unique; {len(repeated)} occur more "
            f"than once: {_listed(repeated)}. Make them unique, or give arrays whose rows are in "
            "the same order"
        )


def _match_samples(index: Any, other: Any) -> Any:
    """Rows of P for the samples of Y."""
    rows = other.get_indexer(index)
    only_here, only_there = index[rows < 0], other[index.get_indexer(other) < 0]
    if len(only_here) or len(only_there):
        raise InputError(
            f"Y and P must hold the same samples; {_only(only_here, 'Y')}, "
            f"{_only(only_there, 'P')}. Give both the same ids as index (keep common ones with "
            "Y.loc[ids] and P.loc[ids]), or give arrays whose rows are in the same order"
        )
    return rows


def _match_labels(names: Sequence[str], other: Sequence[str], sides: tuple[str, str]) -> list[int]:
    """Columns of the other side for these labels."""
    place = {name: j for j, name in enumerate(other)}
    only_here = [name for name in names if name not in place]
    only_there = sorted(set(other) - set(names))
    if only_here or only_there:
        raise InputError(
            f"{sides[0]} and {sides[1]} must hold the same labels; {_only(only_here, sides[0])}, "
            f"{_only(only_there, sides[1])}. Give both the same column names"
        )
    return [place[name] for name in names]


def _unique_names(columns: Any, name: str) -> tuple[str, ...]:
    """Label names as text, as every method of the library keeps them."""
    names = tuple(map(str, columns))
    if len(set(names)) < len(names):
        repeated = sorted({item for item in names if names.count(item) > 1})
        raise InputError(f"label names of {name} must be unique; found twice: {_listed(repeated)}")
    return names


def _frame_values(frame: Any) -> NDArray[Any]:
    """The values of a frame; pandas' own missing values become NaN."""
    if any(getattr(dtype, "kind", "") == "c" for dtype in frame.dtypes):
        raise TypeError("complex numbers have no order")
    values: NDArray[Any] = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _only(items: Sequence[Any], name: str) -> str:
    return f"{len(items)} only in {name}" + (f" ({_listed(items)})" if len(items) else "")


def _listed(items: Sequence[Any]) -> str:
    return ", ".join(map(_shown, items[:3])) + (", ..." if len(items) > 3 else "")


def _shown(item: Any) -> str:
    """An id as a user would write it, so that 1 and '1' differ."""
    return repr(item.item() if isinstance(item, np.generic) else item)
