"""Preparation and standardisation of the columns of every view, from observed values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing.features import (
    KINDS,
    PARTS,
    SAMPLE_ROWS,
    Features,
    Plain,
    choose,
    restore,
)
from viewgap.data.preprocessing.moments import Moments, Statistics, centre_and_factor, prepared
from viewgap.data.preprocessing.one_pass import fit_in_one_pass
from viewgap.data.rows.values import (
    Rows,
    Stored,
    is_on_disk,
    is_sparse,
    row_chunks,
    row_numbers,
    split_sparse,
    without_missing_values,
)
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError, ViewError, parameter


@dataclass(frozen=True, eq=False)
class Standardiser:
    """Mean and 1 / standard deviation of every column of every view.

    `mean` and `scale` hold one float32 array (d,) per view; `(x - mean) * scale` has mean 0 and
    population standard deviation 1 over the values it was fitted on. A constant column gets scale
    1 and becomes exactly 0. A view without any row in the fit is left as it is. `features` tells
    how each view is prepared first; x is then what was prepared.

    A missing value (NaN) takes no part in the fit and becomes 0, the mean. A column without any
    value in the fit has scale 0: whatever it holds becomes 0.
    """

    names: tuple[str, ...]
    mean: list[NDArray[np.float32]]
    scale: list[NDArray[np.float32]]
    features: list[Features]

    @classmethod
    def fit(cls, views: ViewSet, rows: Any = None, features: str = "plain") -> Standardiser:
        """Fit on the observed values of some rows of `views`.

        Parameters
        ----------
        views : ViewSet
            The views; values under the mask are never read.
        rows : slice, array of int or array of bool, optional
            The rows to fit on; all of them if None.
        features : {"plain", "auto"}, default="plain"
            `"auto"` first prepares every view as its values suggest: histograms and term counts as
            directions (`data.features.Counts`), all else by rank (`Ranks`).

        A dense view on disk of more than 20,000 rows is read once: quantiles then come from a
        sketch (`data.quantile_sketch`), in memory from 20,000 evenly spaced rows.

        Returns
        -------
        Standardiser
        """
        if features not in ("plain", "auto"):
            raise SettingError(f"features must be 'plain' or 'auto', found {features!r}")
        wanted = row_numbers(slice(None) if rows is None else rows, len(views))
        mean, scale, prepared = [], [], []
        for j, name in enumerate(views.names):
            stored, positions = views.locate(name, wanted[views.observed[wanted, j]])
            gaps = views.may_miss_values(name)
            if is_on_disk(stored) and not is_sparse(stored) and len(positions) > SAMPLE_ROWS:
                chosen, centre, factor = fit_in_one_pass(stored, positions, features, gaps)
            else:
                chosen = choose(stored, positions, gaps) if features == "auto" else Plain()
                centre, factor = _mean_and_scale(stored, positions, chosen, gaps)
            mean.append(centre)
            scale.append(factor)
            prepared.append(chosen)
        return cls(views.names, mean, scale, prepared)

    def apply(
        self,
        name_index: int | str,
        block: NDArray[Any],
        observed_rows: NDArray[np.bool_],
        gaps: bool = True,
    ) -> NDArray[Any]:
        """Standardised copy (b, d) of a block of rows of one view; zero where not observed.

        `name_index` is the view's position or name, `observed_rows` (b,) tells which rows of the
        block hold values; the others are not read. float64 stays float64, all else is float32.
        `gaps`: False if no value of an observed row can be missing (NaN).
        """
        j = self.names.index(name_index) if isinstance(name_index, str) else name_index
        if block.shape[1] != len(self.mean[j]):
            raise ViewError(
                f"view {self.names[j]!r}: {block.shape[1]} columns, the scaling was fitted on "
                f"{len(self.mean[j])}"
            )
        dtype = np.float64 if block.dtype == np.float64 else np.float32
        values = block[observed_rows].astype(dtype, copy=False)
        result = np.zeros(block.shape, dtype=dtype)
        result[observed_rows] = self.write(j, values, np.empty_like(values), gaps)
        return result

    def write(
        self, view: int, values: NDArray[Any], out: NDArray[Any], gaps: bool = True
    ) -> NDArray[Any]:
        """Write observed rows of one view (b, d), prepared and standardised, to `out`; return it.

        The one place where it is done: every row for itself, and the same bits for every reader.
        Both arrays have one dtype, float32 or float64. `gaps` as in `apply`.
        """
        values, missing = without_missing_values(values) if gaps else (values, None)
        np.subtract(self.features[view].apply(values, out), self.mean[view], out=out)
        out *= self.scale[view]
        if missing is not None:
            out[missing] = 0.0
        return out

    def invert(self, view: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return standardised rows of one view (b, d) in the units of the data."""
        scale = self.scale[view]
        never = scale == 0  # a column without any value in the fit
        if never.any():
            scale = np.where(never, np.float32(1), scale)
        return self.features[view].invert(values / scale + self.mean[view])

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as named arrays, for a model file."""
        arrays: dict[str, NDArray[Any]] = {}
        for j, (mean, scale) in enumerate(zip(self.mean, self.scale, strict=True)):
            arrays[f"mean_{j}"] = mean
            arrays[f"scale_{j}"] = scale
        kinds = [features.kind for features in self.features]
        if set(kinds) <= {Plain.kind}:
            return arrays  # as before there were others
        arrays["kinds"] = np.array([KINDS.index(kind) for kind in kinds], dtype=np.int64)
        for j, features in enumerate(self.features):
            arrays |= {f"{part}_{j}": array for part, array in features.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], names: tuple[str, ...] | None = None
    ) -> Standardiser:
        """Restore what `to_arrays` gave. `names` are the names of the views, view0, ... if None.

        ValueError if the arrays do not fit each other.
        """
        count = sum(key.startswith("mean_") for key in arrays)
        kinds = _kinds(arrays, count)
        parts = [("mean", "scale", *PARTS[kind]) for kind in kinds]
        expected = {f"{part}_{j}" for j in range(count) for part in parts[j]}
        if set(arrays) - {"kinds"} != expected:
            raise ValueError(
                f"the arrays of a scaling are {sorted(expected)}, not {sorted(arrays)}"
            )
        mean = [np.asarray(arrays[f"mean_{j}"], dtype=np.float32) for j in range(count)]
        scale = [np.asarray(arrays[f"scale_{j}"], dtype=np.float32) for j in range(count)]
        if any(a.ndim != 1 or a.shape != b.shape for a, b in zip(mean, scale, strict=True)):
            raise ValueError("mean and scale of a view must have one number per column")
        features = [
            restore(kind, {part: arrays[f"{part}_{j}"] for part in PARTS[kind]}, len(mean[j]))
            for j, kind in enumerate(kinds)
        ]
        if names is None:
            names = tuple(f"view{j}" for j in range(count))
        return cls(tuple(names), mean, scale, features)

    @property
    def dims(self) -> tuple[int, ...]:
        """Number of columns of every view."""
        return tuple(len(mean) for mean in self.mean)


@dataclass(frozen=True, eq=False)
class Unscaled:
    """Rows as they are, where a method does no standardisation; the interface of `Standardiser`.

    A missing value becomes the `mean` of its column, one array (d,) per view. None: the means were
    not stored (models saved by versions that refused missing values), and a NaN is refused.
    """

    mean: list[NDArray[Any]] | None = None

    def write(
        self, view: int, values: NDArray[Any], out: NDArray[Any], gaps: bool = True
    ) -> NDArray[Any]:
        """Write observed rows of one view (b, d) to `out`, missing values filled; return it.

        `out` may be `values`. `gaps`: False if no value can be missing.
        """
        if out is not values:
            out[:] = values
        missing = np.isnan(out) if gaps else None
        if missing is None or not missing.any():
            return out
        if self.mean is None:
            raise ViewError(
                "single values are missing (NaN), and this model was saved by a version of "
                "viewgap that kept no column means to fill them with; fit it again, or pass "
                f"{parameter('nan', 'missing_view')} to treat the view as missing there"
            )
        np.copyto(out, self.mean[view].astype(out.dtype), where=missing)
        return out


Preparation = Standardiser | Unscaled


def _kinds(arrays: Mapping[str, NDArray[Any]], count: int) -> list[str]:
    """Return the kind of features of every view; older files do not mention plain ones."""
    if "kinds" not in arrays:
        return [Plain.kind] * count
    numbers = arrays["kinds"]
    if numbers.shape != (count,) or not np.isin(numbers, np.arange(len(KINDS))).all():
        raise ValueError(f"expected a valid kind of features for each of {count} views")
    return [KINDS[int(number)] for number in numbers]


def _mean_and_scale(
    stored: Stored, positions: Rows, features: Features, gaps: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and scale of every column; `gaps`: look for missing values, and leave them out."""
    width = stored.shape[1]
    if not len(positions):
        return np.zeros(width, dtype=np.float32), np.ones(width, dtype=np.float32)
    moments = _sparse_moments if is_sparse(stored) else _dense_moments
    return centre_and_factor(*moments(stored, positions, features, gaps))


def _dense_moments(stored: Stored, positions: Rows, features: Features, gaps: bool) -> Statistics:
    """Moments of rows of a dense view, chunk by chunk."""
    moments = Moments(stored.shape[1])
    for part in row_chunks(len(positions), stored.shape[1] * 8):
        block, missing = np.asarray(stored[positions[part]]), None
        if gaps:
            block, missing = without_missing_values(block)
        moments.add(prepared(block, features), missing)
    return moments.statistics()


def _sparse_moments(stored: Stored, positions: Rows, features: Features, gaps: bool) -> Statistics:
    """The same of a CSR array; zeros are counted, never stored."""
    selected, n = stored[positions], np.full(stored.shape[1], float(len(positions)))
    rows = columns = np.empty(0, dtype=np.intp)
    if gaps:
        selected, rows, columns = split_sparse(selected)
        n = np.maximum(n - np.bincount(columns, minlength=len(n)), 1.0)
    prepared, of_zero = features.apply_sparse(selected)
    mean, variance = _stored_moments(prepared, n)
    first = prepared[[0]].toarray()[0].astype(np.float64)
    for column in np.unique(columns[rows == 0]):
        gone = set(rows[columns == column].tolist())
        there = next((row for row in range(len(positions)) if row not in gone), None)
        first[column] = np.nan if there is None else prepared[there, column]
    return mean + of_zero, variance, first + of_zero


def _stored_moments(selected: Stored, n: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance of columns of which `n` values count, all but the stored ones zeros."""
    width = selected.shape[1]
    parts = list(row_chunks(len(selected.data), 8))
    count, total = np.zeros(width), np.zeros(width)
    for part in parts:
        columns = selected.indices[part]
        count += np.bincount(columns, minlength=width)
        total += np.bincount(columns, weights=selected.data[part], minlength=width)
    mean = total / n
    squares = (n - count) * np.square(mean)
    for part in parts:
        columns = selected.indices[part]
        difference = selected.data[part].astype(np.float64) - mean[columns]
        squares += np.bincount(columns, weights=np.square(difference), minlength=width)
    return mean, squares / n
