"""Non-negative blocks for iMvWL, and the codes of samples that were not in the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.preprocessing import Unscaled
from viewgap.data.rows.values import row_chunks, without_missing_values
from viewgap.data.viewset import ViewSet
from viewgap.methods.imvwl.solver import SMALLEST, ObservedView
from viewgap.methods.linalg.blocks import Matrix

Block = NDArray[np.float32]


@dataclass(frozen=True)
class NonNegativeScaling:
    """How the rows of a view become non-negative.

    Absolute values, every row divided by its sum; without `scale` that is all (published). With
    it, (d,): columns are multiplied by their scale before, negative values go to d columns of
    their own if `signed` and become 0 if not, and square roots are taken in the end.
    """

    scale: Block | None = None
    signed: bool = False

    @classmethod
    def fit(cls, block: Block) -> NonNegativeScaling:
        """Find the scale on the observed training rows (n, d): columns of mean square 1.

        The roots of rows with sum 1 have length 1: no unit of measurement, no number of columns
        and no few large counts make one row, column or view outweigh the others. Missing values
        (NaN) are left out.
        """
        squares, counts = np.zeros(block.shape[1]), np.float64(len(block))
        for part in row_chunks(len(block), 8 * block.shape[1]):
            there, missing = without_missing_values(block[part])
            squares += np.square(there, dtype=np.float64).sum(axis=0)
            if missing is not None:
                counts = counts - missing.sum(axis=0)
        root = np.sqrt(squares / np.maximum(counts, 1.0))
        used = root >= np.finfo(np.float32).tiny  # 1 / root of smaller ones is infinite in float32
        scale = np.divide(1.0, root, out=np.zeros_like(root), where=used)
        return cls(scale.astype(np.float32), bool((block < 0).any()))

    def width(self, dim: int) -> int:
        """Number of columns that `dim` columns become."""
        return 2 * dim if self.signed else dim

    def apply(self, block: Block) -> Block:
        """Return rows (n, d) as a non-negative array (n, width)."""
        if self.scale is None:
            return _rows_of_sum_one(block)
        scaled = block * self.scale
        parts = [scaled, -scaled] if self.signed else [scaled]
        whole = np.hstack([np.maximum(part, 0.0) for part in parts])
        return np.asarray(np.sqrt(_rows_of_sum_one(whole)))


def _rows_of_sum_one(block: Block) -> Block:
    result = np.abs(block)
    # Divided twice, so that the sum of very large values is no infinity.
    for reduce in (np.max, np.sum):
        total = reduce(result, axis=1, keepdims=True)
        np.divide(result, total, out=result, where=total > 0)
    return result


def observed_views(
    views: ViewSet, scalings: Sequence[NonNegativeScaling], raw: Unscaled
) -> list[ObservedView]:
    """Return the observed rows of every view, made non-negative; `raw` fills missing values."""
    result = []
    for index, (name, scaling) in enumerate(zip(views.names, scalings, strict=True)):
        rows = np.flatnonzero(views.observed[:, index])
        block = views.rows(name, rows)
        block = raw.write(index, block, block, views.may_miss_values(name))
        result.append(ObservedView.of(rows, scaling.apply(block)))
    return result


def find_codes(
    n: int, views: Sequence[ObservedView], bases: Sequence[Matrix], start: Matrix, steps: int
) -> Matrix:
    r"""Return codes :math:`v \ge 0` (n, k) that explain the observed views of each row.

    The V update without the label term, `steps` times from `start` (k,): every row by itself. In
    float64, so that a row's answer does not depend on the rounding of products with more rows.
    """
    codes = np.tile(start, (n, 1))
    upper = np.zeros_like(codes)
    for view, basis in zip(views, bases, strict=True):
        upper[view.rows] += view.block.astype(np.float64) @ basis
    grams = [basis.T @ basis for basis in bases]
    for _ in range(steps):
        lower = np.full_like(codes, SMALLEST)
        for view, gram in zip(views, grams, strict=True):
            lower[view.rows] += codes[view.rows] @ gram
        codes *= upper / lower
    return codes


def top_labels_above_half(scores: Matrix, count: int, answered: NDArray[Any]) -> Matrix:
    r"""Map the scores of each row into (0, 1), in their order, the best `count` above one half.

    :math:`\tfrac12 + \tfrac12 (s - t) / (1 + |s - t|)` with t half-way between the scores of rank
    `count` and `count` + 1 among the `answered` labels; scores tied there are not above one half.
    """
    ranked = -np.sort(-scores[:, answered], axis=1)
    if not ranked.shape[1]:
        return np.full_like(scores, 0.5)
    if count >= ranked.shape[1]:
        border = ranked[:, -1:] - 1.0
    else:
        border = 0.5 * (ranked[:, [count - 1]] + ranked[:, [count]])
    distance = scores - border
    return np.asarray(0.5 + 0.5 * distance / (1.0 + np.abs(distance)))
