"""Views as scores on their leading principal components: what views are predicted from, and as.

A view is summarised twice: by its standardised columns, which keep the units of the data; and by
its columns as the network reads them (ranks, directions of counts), which see what lies behind
outliers. Both are clipped. The first scores are also what is predicted of a missing view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RANK = 64  # components of a summary
CLIP = 5.0  # standard deviations: one outlier among the sources must not decide alone
LONGEST = 5.0  # summary of a row, where the mean square of the training rows is 1: nor must a row
_BLOCK = 32  # rows of every product
_OVERSAMPLING = 10
_POWER_ITERATIONS = 2
_NOISE = 1e-6  # share of the largest eigenvalue below which float32 holds rounding only

Matrix = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ViewBasis:
    """Principal components of one view with d columns.

    `clipped` (d, k) of the clipped standardised columns, orthonormal; `prepared` (d, p) of the
    clipped columns as the network reads them, p = 0 where these are the same. A row has k + p
    scores: less their mean `centre` (k + p,), times `factor` (k + p,), by which the two summaries
    of the training rows have a total variance of 1 each; a summary that is too long is shortened.
    """

    clipped: Tensor
    prepared: Tensor
    centre: Tensor
    factor: Tensor

    @property
    def n_scores(self) -> int:
        """Number of scores of a row."""
        return len(self.centre)

    @property
    def n_targets(self) -> int:
        """Number of scores that are predicted."""
        return self.clipped.shape[1]

    @classmethod
    def fit(cls, values: Tensor, prepared: Tensor | None, rank: int = RANK) -> ViewBasis:
        """Find the components of a view, on the device of its rows.

        `values` (n, d): standardised rows in the units of the data; `prepared` (n, d): as the
        network reads them, None if that is the same.
        """
        clipped = values.clamp(-CLIP, CLIP)
        components = leading_components(clipped, rank)
        parts = [clipped @ components]
        second = values.new_zeros(values.shape[1], 0)
        if prepared is not None:
            prepared = prepared.clamp(-CLIP, CLIP)
            second = leading_components(prepared, rank)
            parts.append(prepared @ second)
        centre = torch.cat([part.sum(dim=0) / max(1, len(part)) for part in parts])
        factor = torch.cat([_unit_factor(part) for part in parts])
        return cls(components, second, centre, factor)

    def project(self, values: Tensor, prepared: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the scores (n, k + p) of rows, and the scores to predict (n, k): not clipped."""
        parts = [values.clamp(-CLIP, CLIP) @ self.clipped]
        if prepared is not None:
            parts.append(prepared.clamp(-CLIP, CLIP) @ self.prepared)
        scores = (torch.cat(parts, dim=1) - self.centre) * self.factor
        return torch.from_numpy(self._bounded(scores.cpu().numpy())), values @ self.clipped

    def cpu(self) -> ViewBasis:
        """Return the same basis on the CPU."""
        parts = (self.clipped, self.prepared, self.centre, self.factor)
        return ViewBasis(*(part.cpu().contiguous() for part in parts))

    def scores(self, values: Matrix, prepared: Matrix | None) -> Matrix:
        """Return the scores (n, k + p) of rows on the CPU, every row for itself."""
        parts = [rowwise_product(np.clip(values, -CLIP, CLIP), self.clipped)]
        if prepared is not None:
            parts.append(rowwise_product(np.clip(prepared, -CLIP, CLIP), self.prepared))
        return self._bounded((np.hstack(parts) - self.centre.numpy()) * self.factor.numpy())

    def _bounded(self, scores: Matrix) -> Matrix:
        """Return the scores (n, k + p), with summaries of at most `LONGEST`."""
        for part in np.split(scores, [self.n_targets], axis=1):
            length = np.sqrt(np.square(part).sum(axis=1, keepdims=True))
            part *= LONGEST / np.maximum(length, LONGEST)
        return scores

    def columns(self, targets: Matrix) -> Matrix:
        """Return standardised columns (n, d) from predicted scores (n, k)."""
        return rowwise_product(targets, self.clipped.T.contiguous())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as named arrays, for a model file."""
        return {
            "clipped": self.clipped.numpy(),
            "prepared": self.prepared.numpy(),
            "centre": self.centre.numpy(),
            "factor": self.factor.numpy(),
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_columns: int, has_prepared: bool
    ) -> ViewBasis:
        """Restore what `to_arrays` gave; ValueError if it does not fit a view of these columns."""
        parts = [
            checked_array(arrays, name, dimensions)
            for name, dimensions in (("clipped", 2), ("prepared", 2), ("centre", 1), ("factor", 1))
        ]
        clipped, prepared, centre, factor = (torch.tensor(part) for part in parts)
        n_scores = clipped.shape[1] + prepared.shape[1]
        if len(clipped) != n_columns or len(prepared) != n_columns:
            raise ValueError(f"the components of a view must have {n_columns} rows")
        if len(centre) != n_scores or len(factor) != n_scores:
            raise ValueError(f"centre and factor must have {n_scores} numbers")
        if prepared.shape[1] and not has_prepared:
            raise ValueError("there are components of prepared columns, but nothing prepares them")
        return cls(clipped, prepared, centre, factor)


def checked_array(arrays: Mapping[str, NDArray[Any]], name: str, dimensions: int) -> Matrix:
    """Return an array of a model file; ValueError unless finite float32 of these dimensions."""
    array = arrays.get(name)
    if array is None or array.dtype != np.float32 or array.ndim != dimensions:
        raise ValueError(f"{name} must be a float32 array with {dimensions} dimensions")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array


def leading_components(x: Tensor, rank: int) -> Tensor:
    """Leading right singular vectors (d, r) of centred rows (n, d), r <= rank; no noise among them.

    Of large matrices by a randomised range finder with power iterations (Halko, Martinsson, Tropp:
    Finding structure with randomness, 2011).
    """
    n, d = x.shape
    if n < 2:
        return x.new_zeros(d, 0)
    x = x - x.mean(dim=0)
    if min(n, d) > 4 * (rank + _OVERSAMPLING):
        generator = torch.Generator().manual_seed(0)
        drawn = torch.randn(d, rank + _OVERSAMPLING, generator=generator, dtype=x.dtype)
        sample = x @ drawn.to(x.device)
        for _ in range(_POWER_ITERATIONS):
            sample = x @ (x.T @ torch.linalg.qr(sample).Q)
        x = torch.linalg.qr(sample).Q.T @ x  # few rows, the same leading vectors
    by_rows = len(x) < d
    gram = x @ x.T if by_rows else x.T @ x
    squares, vectors = torch.linalg.eigh(gram.double())
    squares, vectors = squares.flip(0)[:rank], vectors.flip(1)[:, :rank]
    kept = squares > _NOISE * squares[:1].clamp(min=torch.finfo(x.dtype).tiny)
    squares, vectors = squares[kept], vectors[:, kept]
    if by_rows:
        vectors = x.T.double() @ vectors / squares.sqrt()
    components: Tensor = vectors.to(x.dtype).contiguous()
    return components


def _unit_factor(scores: Tensor) -> Tensor:
    """The same factor for each of the columns (n, r), with which their variances add up to 1."""
    variance = (scores - scores.mean(dim=0)).square().sum() / max(1, len(scores))
    factor = torch.where(variance > 0, variance.rsqrt(), torch.zeros_like(variance))
    return factor.expand(scores.shape[1])


def rowwise_product(x: Matrix, weight: Tensor) -> Matrix:
    """x (n, p) times weight (p, q) in blocks of one shape: a row's bits depend on nothing else.

    All three sizes are filled up with zeros to multiples of a block: for narrow matrices there are
    kernels that add up the rows of a block in different orders.
    """
    (p, q), n = weight.shape, len(x)
    rows = torch.zeros(_filled(n), _filled(p))
    rows[:n, :p] = torch.from_numpy(x)
    filled = torch.zeros(_filled(p), _filled(q))
    filled[:p, :q] = weight
    result = torch.empty(len(rows), filled.shape[1])
    for start in range(0, len(rows), _BLOCK):
        block = slice(start, start + _BLOCK)
        torch.mm(rows[block], filled, out=result[block])
    return result[:n, :q].numpy()


def _filled(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK
