"""Second moments of the scores of all views, from whichever rows have both of two views.

The moments of two views are means over the rows that have both, so that every row with at least
two views counts, and the best linear prediction of a view can be asked for any set of other views.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

# Added to the diagonal of the covariance of scores; the variances of a view add up to 1 or 2.
PENALTIES = (0.002, 0.005, 0.012, 0.03, 0.07, 0.17, 0.4, 1.0)
_MOST_FOLDS = 10
# With many views there are many sets of source views, and each costs a solution in every fold.
_FEWEST_FOLDS = {2: 10, 3: 10, 4: 5}
_ENOUGH_ROWS = 300  # to judge on
_MOST_PATTERNS = 64


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Scores of n rows, zero where a view is missing.

    Shape: observed (n, m); sources (n, s) and targets (n, q), those of the views side by side;
    `source_view` (s,) and `target_view` (q,): to which view a column belongs; `squares` (n, m):
    the squared length of the standardised row of every view, of which targets are a part.
    """

    observed: Mask
    sources: Matrix
    targets: Matrix
    source_view: Rows
    target_view: Rows
    squares: Matrix

    def __len__(self) -> int:
        return len(self.observed)

    @classmethod
    def join(
        cls,
        observed: Mask,
        sources: Sequence[NDArray[Any]],
        targets: Sequence[NDArray[Any]],
        squares: Sequence[NDArray[Any]],
    ) -> ScoreTable:
        """Of the scores and squares of the observed rows of every view."""
        return cls(
            observed,
            _side_by_side(observed, sources),
            _side_by_side(observed, targets),
            view_numbers(sources),
            view_numbers(targets),
            _side_by_side(observed, [own[:, None] for own in squares]),
        )

    def rows(self, wanted: Any) -> ScoreTable:
        """The table of some rows."""
        parts = (self.observed, self.sources, self.targets, self.squares)
        observed, sources, targets, squares = (part[wanted] for part in parts)
        return ScoreTable(observed, sources, targets, self.source_view, self.target_view, squares)


def view_numbers(parts: Sequence[NDArray[Any]]) -> Rows:
    """To which of the parts (n, ...) each column belongs when they stand side by side."""
    return np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])


def _side_by_side(observed: Mask, parts: Sequence[NDArray[Any]]) -> Matrix:
    result = np.zeros((len(observed), sum(part.shape[1] for part in parts)))
    start = 0
    for part, rows in zip(parts, observed.T, strict=True):
        result[rows, start : start + part.shape[1]] = part
        start += part.shape[1]
    return result


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows: `sources` (s, s), `cross` (s, q); rows with both views, `counts` (m, m)."""

    sources: Matrix
    cross: Matrix
    counts: Matrix

    @classmethod
    def of(cls, table: ScoreTable) -> Moments:
        """The sums of a table."""
        observed = table.observed.astype(np.float64)
        return cls(
            table.sources.T @ table.sources,
            table.sources.T @ table.targets,
            observed.T @ observed,
        )

    def means(self, table: ScoreTable) -> tuple[Matrix, Matrix]:
        """Covariance of the sources (s, s), and of sources and targets (s, q).

        Means over different rows need not be a covariance of anything: eigenvalues below 0 are set
        to 0.
        """
        source, target = table.source_view, table.target_view
        counts = np.maximum(self.counts, 1.0)
        covariance = self.sources / counts[np.ix_(source, source)]
        if (self.counts != self.counts[0, 0]).any():
            values, vectors = np.linalg.eigh(covariance)
            covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T
        return covariance, self.cross / counts[np.ix_(source, target)]


def solve(covariance: NDArray[Any], penalty: float, right: NDArray[Any]) -> NDArray[Any]:
    """Return (covariance + penalty I)⁻¹ right."""
    penalised = covariance + penalty * np.eye(len(covariance), dtype=covariance.dtype)
    factor = cho_factor(penalised, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factor, right, check_finite=False))


def draw_held_out(observed: Mask) -> list[Mask]:
    """Rows (n,) to leave out and judge on, for every fold: rows with at least two views.

    All of them are left out once; of many rows only so many folds are judged that it is enough.
    """
    rows = np.flatnonzero(observed.sum(axis=1) > 1)
    n, fewest = max(1, len(rows)), _FEWEST_FOLDS.get(observed.shape[1], 3)
    n_folds = min(max(n // _ENOUGH_ROWS, fewest), _MOST_FOLDS, n)
    fold = np.full(len(observed), -1)
    fold[rows] = np.random.default_rng(0).permutation(len(rows)) % n_folds
    n_judged = min(n_folds, len(rows), -(-_ENOUGH_ROWS * n_folds // n))
    return [fold == number for number in range(n_judged)]


def held_out_errors(table: ScoreTable, held: Mask) -> tuple[Matrix, Matrix]:
    """Squared errors (m, penalties) of the views of held-out rows, and of their means (m,).

    Each view of a row is predicted from the other ones of that row, with the moments of the rows
    that are not held out. Of many sets of other views the most frequent ones are judged.
    """
    n_views = table.observed.shape[1]
    errors, of_mean = np.zeros((n_views, len(PENALTIES))), np.zeros(n_views)
    means = Moments.of(table.rows(~held)).means(table)
    covariance, cross = (own.astype(np.float32) for own in means)  # half the time, no difference
    for sources, rows, views in _pairs_by_sources(table.observed, held):
        _add_errors(errors, of_mean, table, (covariance, cross), sources, rows, views)
    return errors, of_mean


def _pairs_by_sources(observed: Mask, held: Mask) -> Iterator[tuple[Mask, Rows, Rows]]:
    """Yield sets of source views (m,), with the rows and views of the pairs that have these left.

    A pair is a held-out row and one of its views; its sources are the other views of the row.
    """
    row, view = np.nonzero(observed & held[:, None])
    sources = observed[row]
    sources[np.arange(len(row)), view] = False
    patterns, pattern, count = np.unique(sources, axis=0, return_inverse=True, return_counts=True)
    for number in np.sort(np.argsort(-count, kind="stable")[:_MOST_PATTERNS]):
        own = pattern.ravel() == number
        yield patterns[number], row[own], view[own]


def _add_errors(
    errors: Matrix,
    of_mean: Matrix,
    table: ScoreTable,
    moments: tuple[NDArray[Any], NDArray[Any]],
    sources: Mask,
    rows: Rows,
    views: Rows,
) -> None:
    """Add the squared errors of these views of these rows, predicted from the source views.

    The targets are scores on orthonormal components of a row y, t = Vᵀy: the error of a prediction
    Vp is |y|² - 2 t·p + |p|².
    """
    covariance, cross = moments
    columns = np.flatnonzero(sources[table.source_view])
    within = covariance[np.ix_(columns, columns)]
    scores = table.sources[np.ix_(rows, columns)].T.astype(np.float32)
    squares = table.squares[rows, views]
    np.add.at(of_mean, views, squares)
    for number, penalty in enumerate(PENALTIES):
        np.add.at(errors[:, number], views, squares)
        solved = solve(within, penalty, scores)
        for view in np.unique(views):
            own, predicted = views == view, np.flatnonzero(table.target_view == view)
            found = solved[:, own].T @ cross[np.ix_(columns, predicted)]
            truth = table.targets[np.ix_(rows[own], predicted)]
            errors[view, number] += float(np.sum(found * (found - 2.0 * truth)))
