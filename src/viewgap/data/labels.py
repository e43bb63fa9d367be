"""Labels: a checked label matrix, and which of its entries were observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.errors import LabelError


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels (n, c) of n samples.

    `values` is 1 where a label is known to be there, 0 elsewhere; `observed` is True where it
    is known at all. Both are read-only. Use `as_labels` to make one from user input.
    """

    values: NDArray[np.uint8]
    observed: NDArray[np.bool_]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        shape = self.values.shape
        if len(shape) != 2 or self.observed.shape != shape or len(self.names) != shape[1]:
            raise LabelError(
                f"values {shape}, observed {self.observed.shape} and {len(self.names)} names "
                "do not fit together; expected (n, c), (n, c) and c"
            )
        values = self.values.astype(np.uint8) * self.observed
        observed = self.observed.astype(np.bool_)
        for part in (values, observed):
            part.flags.writeable = False
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "observed", observed)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Labels:
        """Return the labels of some rows: slice, integers, booleans, or one integer (one row)."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]  # scikit-learn indexes rows as Y[rows, ...]
        if isinstance(rows, int | np.integer):
            rows = [rows]
        elif isinstance(rows, list | tuple) and not rows:
            rows = slice(0, 0)
        return Labels(self.values[rows], self.observed[rows], self.names)

    @property
    def n_labels(self) -> int:
        """Number of labels c."""
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int]:
        """(number of samples, number of labels)."""
        return len(self), self.n_labels

    def as_float(self) -> NDArray[np.float64]:
        """(n, c) with NaN where a label was not observed."""
        result = self.values.astype(np.float64)
        result[~self.observed] = np.nan
        return result

    def with_unobserved_rows(self, count: int) -> Labels:
        """Return these labels followed by `count` samples about which nothing is known."""
        nothing = np.zeros((count, self.n_labels), dtype=np.bool_)
        values = np.vstack([self.values, nothing.astype(np.uint8)])
        return Labels(values, np.vstack([self.observed, nothing]), self.names)

    def frequency(self) -> NDArray[np.float64]:
        """(c,) share of the observed samples that have the label; NaN if never observed."""
        count = self.observed.sum(axis=0)
        positive = self.values.sum(axis=0, dtype=np.int64)
        result = np.full(self.n_labels, np.nan)
        np.divide(positive, count, out=result, where=count > 0)
        return result
