"""Linear regression of every view on whichever other views a sample has, and what it errs by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.preprocessing.features import Plain
from viewgap.data.rows.values import row_chunks
from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd.view_moments import (
    PENALTIES,
    Moments,
    ScoreTable,
    draw_held_out,
    held_out_errors,
    solve,
)
from viewgap.methods.scsd.view_scores import RANK, ViewBasis, checked_array, rowwise_product
from viewgap.training.prediction import one_thread

Matrix = NDArray[np.float32]
Mask = NDArray[np.bool_]

_MOST_ROWS = 5_000  # moments of more rows would hardly differ
_MOST_BYTES = 256 << 20  # of the widest view as it is read
# Components of a summary times the square of the number of views: with more views there are more
# sets of source views, for each of which the scores of all of them enter an equation.
_MOST_WORK = RANK * 6**2
_FEWEST_SCORES = 4  # of a summary, however many views and however few rows there are
_ROWS_PER_SCORE = 4


@dataclass(frozen=True, eq=False)
class ViewRegression:
    """Predicts the standardised columns of a missing view from the other views of a sample.

    Every view is reduced to scores (`view_scores`). With the covariance C of the scores of all
    views, the prediction of view t from a set o of other views is

    $$\\hat t = C_{to} (C_{oo} + \\lambda_t I)^{-1} z_o$$

    A ridge regression for every set o, learned from all rows that have two views. The penalty of
    every view is chosen by cross-validation. A view whose `error` is 1 is not predicted: it gets
    the means of its columns.

    Shape: `covariance` (s, s), `cross` (s, q), scores of all views side by side; `penalty` (m,);
    `error` (m,): squared error in cross-validation relative to that of the column means, at most 1.
    """

    scaler: Standardiser
    bases: Sequence[ViewBasis]
    covariance: Matrix
    cross: Matrix
    penalty: NDArray[np.float64]
    error: NDArray[np.float64]

    @classmethod
    def fit(
        cls, views: ViewSet, preparation: Standardiser | None, device: torch.device | str = "cpu"
    ) -> Self:
        """Learn from the rows of `views`; values under the mask are never read.

        `preparation` is how the network reads the views, used as a second summary where it is not
        plain. Principal components are computed on `device`.
        """
        n_rows = min(_MOST_ROWS, _MOST_BYTES // (4 * max(views.dims)))
        if len(views) > n_rows:
            views = views[np.linspace(0, len(views) - 1, n_rows).astype(np.intp)]
        scaler = Standardiser.fit(views)
        folds = draw_held_out(np.array(views.observed))
        bases, tables = _summarise(views, scaler, preparation, device, folds)
        judged = [held_out_errors(table, held) for table, held in zip(tables, folds, strict=False)]
        n_views = views.n_views
        errors = sum((errors for errors, _ in judged), np.zeros((n_views, len(PENALTIES))))
        of_mean = sum((of_mean for _, of_mean in judged), np.zeros(n_views))
        best = errors.argmin(axis=1)
        lowest = np.minimum(errors.min(axis=1), of_mean)
        error = np.divide(lowest, of_mean, out=np.ones(n_views), where=of_mean > 0)
        covariance, cross = Moments.of(tables[-1]).means(tables[-1])
        return cls(
            scaler,
            bases,
            covariance.astype(np.float32),
            cross.astype(np.float32),
            np.array(PENALTIES)[best],
            error,
        )

    # ------------------------------------------------------------------ prediction

    def scores(self, views: ViewSet, preparation: Standardiser | None) -> Matrix:
        """Return the scores (n, s) of all views, zero where a view is missing."""
        result = np.zeros((len(views), len(self.covariance)), dtype=np.float32)
        plain = PreparedRows(views, self.scaler)
        network = PreparedRows(views, preparation)
        with one_thread():
            for view, (basis, columns) in enumerate(zip(self.bases, self._columns, strict=True)):
                rows = np.flatnonzero(views.observed[:, view])
                for part in row_chunks(len(rows), 8 * views.dims[view]):
                    second = basis.prepared.shape[1] > 0
                    prepared = network.read(view, rows[part]) if second else None
                    own = basis.scores(plain.read(view, rows[part]), prepared)
                    result[rows[part], columns] = own
        return result

    def predict(self, view: int, scores: Matrix, observed: Mask) -> tuple[Matrix, Mask]:
        """Predict the standardised columns of a view, every row for itself.

        What the rows hold of the view is not used: `scores` (n, s) is what `scores` gave, and
        `observed` (n, m) tells which views the rows have. Returns values (n, d), zero, the mean,
        where nothing was learned, and where something was (n,): from at least one of the views that
        the row has.
        """
        basis = self.bases[view]
        targets = np.zeros((len(scores), basis.n_targets), dtype=np.float32)
        learned = np.zeros(len(scores), dtype=np.bool_)
        patterns, pattern = np.unique(observed, axis=0, return_inverse=True)
        with one_thread():
            for number, sources in enumerate(patterns):
                rows = np.flatnonzero(pattern.ravel() == number)
                columns, weight = self._weights(view, sources)
                if len(columns):
                    targets[rows] = rowwise_product(scores[np.ix_(rows, columns)], weight)
                    learned[rows] = True
            return basis.columns(targets), learned

    def column_scale(self, view: int) -> NDArray[np.float64]:
        """What standardised columns (d,) are divided by, to have the units of the data."""
        scale = self.scaler.scale[view].astype(np.float64)
        return np.where(scale > 0, scale, 1.0)  # 0: a column without any value in the fit

    def _weights(self, view: int, sources: Mask) -> tuple[NDArray[np.intp], torch.Tensor]:
        """Columns of the scores of these views, and what they are multiplied with.

        None of either, where nothing was learned.
        """
        predicted = self._predicted[view]
        parts = [
            np.arange(columns.start, columns.stop)
            for source, columns in enumerate(self._columns)
            if sources[source] and source != view and self.cross[columns, predicted].any()
        ]
        if not parts or self.error[view] >= 1:
            return np.empty(0, dtype=np.intp), torch.empty(0, 0)
        columns = np.concatenate(parts)
        within = self.covariance[np.ix_(columns, columns)].astype(np.float64)
        right = self.cross[columns, predicted].astype(np.float64)
        weight = solve(within, float(self.penalty[view]), right)
        return columns, torch.tensor(weight, dtype=torch.float32)

    @property
    def _columns(self) -> list[slice]:
        """Where the scores of every view are."""
        return _slices([basis.n_scores for basis in self.bases])

    @property
    def _predicted(self) -> list[slice]:
        """Where the predicted scores of every view are."""
        return _slices([basis.n_targets for basis in self.bases])

    # ------------------------------------------------------------------ saving and loading

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as named arrays, for a model file."""
        arrays: dict[str, NDArray[Any]] = {
            "covariance": self.covariance,
            "cross": self.cross,
            "penalty": self.penalty,
            "error": self.error,
        }
        arrays |= {f"scaler/{name}": array for name, array in self.scaler.to_arrays().items()}
        for view, basis in enumerate(self.bases):
            arrays |= {f"{view}/{name}": array for name, array in basis.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        names: Sequence[str],
        dims: Sequence[int],
        preparation: Standardiser | None,
    ) -> Self:
        """Restore what `to_arrays` gave; ValueError if it does not fit views of these columns."""
        scaler = Standardiser.from_arrays(_part(arrays, "scaler/"), tuple(names))
        if scaler.dims != tuple(dims):
            raise ValueError("the scaling of the imputation does not fit the columns of the views")
        bases = [
            ViewBasis.from_arrays(_part(arrays, f"{j}/"), d, _is_prepared(preparation, j))
            for j, d in enumerate(dims)
        ]
        s, q = (sum(own) for own in zip(*((b.n_scores, b.n_targets) for b in bases), strict=True))
        covariance = checked_array(arrays, "covariance", 2)
        cross = checked_array(arrays, "cross", 2)
        if covariance.shape != (s, s) or cross.shape != (s, q):
            raise ValueError(f"expected moments of {s} scores and {q} predicted ones")
        penalty, error = (np.asarray(arrays.get(name)) for name in ("penalty", "error"))
        for own in (penalty, error):
            if own.dtype != np.float64 or own.shape != (len(dims),) or not np.isfinite(own).all():
                raise ValueError("penalty and error must be float64, one number per view")
        if (penalty < PENALTIES[0]).any() or (error < 0).any() or (error > 1).any():
            raise ValueError("the penalties are too small, or the errors are not in [0, 1]")
        return cls(scaler, bases, covariance, cross, penalty, error)


def _summarise(
    views: ViewSet,
    scaler: Standardiser,
    preparation: Standardiser | None,
    device: torch.device | str,
    folds: Sequence[Mask],
) -> tuple[list[ViewBasis], list[ScoreTable]]:
    """The basis of every view, and the scores of all rows: with the bases of the rows that a fold
    does not hold out, for every fold, and last with those of all rows.

    One view is read at a time.
    """
    observed = np.array(views.observed)
    most = min(RANK, _MOST_WORK // views.n_views**2)
    splits = [*folds, np.zeros(len(views), dtype=np.bool_)]
    scores: list[list[tuple[NDArray[Any], NDArray[Any]]]] = [[] for _ in splits]
    bases, squares = [], []
    for view in range(views.n_views):
        rows = np.flatnonzero(observed[:, view])
        x = torch.from_numpy(PreparedRows(views, scaler).read(view, rows)).to(device)
        rank = max(_FEWEST_SCORES, min(most, len(rows) // _ROWS_PER_SCORE))
        squares.append(x.square().sum(dim=1).cpu().numpy())
        prepared = None
        if _is_prepared(preparation, view):
            own = PreparedRows(views, preparation).read(view, rows)
            prepared = torch.from_numpy(own).to(device)
        for held, found in zip(splits, scores, strict=True):
            kept = torch.from_numpy(~held[rows]).to(device)
            second = None if prepared is None else prepared[kept]
            basis = ViewBasis.fit(x[kept], second, rank)
            sources, targets = basis.project(x, prepared)
            found.append((sources.cpu().numpy(), targets.cpu().numpy()))
        bases.append(basis.cpu())
    tables = [
        ScoreTable.join(observed, [own for own, _ in found], [own for _, own in found], squares)
        for found in scores
    ]
    return bases, tables


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = np.cumsum([0, *sizes]).tolist()
    return [slice(start, end) for start, end in pairwise(ends)]


def _is_prepared(preparation: Standardiser | None, view: int) -> bool:
    """Whether the network reads a view otherwise than standardised."""
    return preparation is not None and not isinstance(preparation.features[view], Plain)
