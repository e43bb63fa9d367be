"""Extremely randomised trees for all labels at once, one forest per view, cross-fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.utils.extmath import randomized_svd

from viewgap.constraints import AnyOf, Doc, Integer, Real
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.fitting.estimate import EstimatedFit
from viewgap.methods.trees.arrays import Nodes, Splits
from viewgap.methods.trees.view_models import (
    Copy,
    Inputs,
    Probabilities,
    ViewModel,
    ViewwiseClassifier,
)
from viewgap.parameters import Seed
from viewgap.search import IntegerRange, Range
from viewgap.state import State

_PSEUDO_COUNT = 0.3  # rows with the label's frequency that are added to every leaf
_MOST_COLUMNS = 300  # tried per split: more make wide views slow, and no forest better
_MOST_TARGETS = 64  # of more labels, trees are grown on this many principal components
_MOST_ENTRIES = 8_000_000  # leaves x labels whose values are computed at a time
_WORTH_THREADS = 0.05  # seconds of a forest from which on starting threads, 20 ms, is less

_LEAF = AnyOf(Integer(1), Real(0, 1, closed="neither"))


class ExtraTrees(EstimatedFit, ViewwiseClassifier):
    r"""Extremely randomised trees per view, for all labels at once, cross-fitted and pooled.

    Trees are grown on all labels together, with unobserved entries at the label's frequency; more
    than 64 labels are represented by their 64 principal components. The value of a leaf L for label
    j is then the share of the label among the observed entries of its training rows, drawn to the
    prior :math:`\pi_j`, its smoothed frequency, as by 0.3 rows:

    .. math::
        p_{Lj} = \frac{\sum_{i \in L, o_{ij}} y_{ij} + 0.3\, \pi_j}{\sum_{i \in L} o_{ij} + 0.3} .

    A view's probability is the mean over its trees. Rows are dealt to `n_parts` parts, and every
    view has a forest for each part, fitted on the rows outside of it; the weights of the views, the
    calibration and the thresholds are fitted on the predictions of the rows inside. New samples get
    the mean of the forests of each view, pooled by their log-odds over the views they have.

    The time of a fit grows little with the number of labels. A model keeps the training labels and
    the training rows of every leaf: with many labels, that is far less than the values of the
    leaves.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.ExtraTrees(n_estimators=10, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    >>> model.out_of_fold_proba_.shape
    (40, 2)
    """

    summary = "extremely randomised trees per view for all labels at once, cross-fitted and pooled"
    reference = (
        "Geurts, Ernst and Wehenkel, Extremely randomized trees, Machine Learning 63(1), 2006"
    )

    n_estimators: Annotated[int, Integer(1, 100_000), Doc("Trees per view and part.")]
    min_samples_leaf: Annotated[
        float,
        _LEAF,
        Doc("Fewest rows in a leaf, as in scikit-learn's forests."),
        IntegerRange(1, 20, log=True),
    ]
    max_features: Annotated[
        float,
        Real(0, 1, closed="right"),
        Doc(f"Share of the view's columns tried per split, but never more than {_MOST_COLUMNS}."),
        Range(0.05, 1.0, log=True),
    ]

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        min_samples_leaf: float = 3,
        max_features: float = 0.3,
        n_parts: int = 5,
        random_state: Seed = None,
        n_jobs: int | None = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    def _fit_view(self, inputs: Inputs, labels: Labels, copies: Sequence[Copy]) -> ViewModel:
        nodes: list[Nodes] = []
        leaves: list[NDArray[np.intp]] = []
        for copy in copies:
            self._check_time()
            own = inputs[copy.rows]
            forest = self._new_forest(copy.seed, own.shape, labels.n_labels)
            forest.fit(own, _targets(labels[copy.rows], copy))
            nodes += [Nodes.of_scikit_learn(tree.tree_) for tree in forest.estimators_]
            leaves += list(forest.apply(own).T)
        splits = Splits.from_trees(nodes, self.n_estimators)
        rows = [copy.rows for copy in copies for _ in range(self.n_estimators)]
        starts, members = _members(splits, rows, leaves)
        priors = np.stack([copy.prior for copy in copies])
        return _Forests(splits, starts, members, _codes(labels), priors)

    def _new_forest(self, seed: int, shape: tuple[int, int], labels: int) -> ExtraTreesRegressor:
        tried = max(1, min(_MOST_COLUMNS, round(self.max_features * shape[1])))
        worth_it = self.n_estimators * self._seconds_of_a_tree(*shape, labels) > _WORTH_THREADS
        return ExtraTreesRegressor(
            n_estimators=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_features=tried,
            random_state=seed,
            n_jobs=self._threads if worth_it else 1,
        )

    def _seconds_of_a_tree(self, rows: int, columns: int, labels: int) -> float:
        """About how long one takes; an estimate from the sizes alone."""
        tried = min(_MOST_COLUMNS, max(1.0, self.max_features * columns))
        per_column = 1.2e-8 + 2.5e-10 * min(_MOST_TARGETS, labels)
        return float(4e-4 + rows * np.log2(2 + rows / 4) * tried * per_column)

    def _restore_view(self, state: State, columns: int) -> ViewModel:
        return _Forests.from_state(state, columns, len(self.label_names_))

    def _seconds(self, views: ViewSet, labels: Labels) -> float:
        seconds = sum(
            self._seconds_of_a_tree(rows, dim, labels.n_labels)
            for dim, rows in zip(views.dims, views.observed.sum(axis=0), strict=True)
        )
        return self.n_estimators * self.n_parts * seconds


class _Forests:
    """The forests of one view: for every leaf, its training rows.

    `members[starts[i] : starts[i + 1]]` are the rows of node i, none for those that are no leaf.
    `codes` (n, c) are the labels of the rows: 0, 1, or 2 for not observed; `priors` (forests, c).
    """

    def __init__(
        self,
        splits: Splits,
        starts: NDArray[np.int64],
        members: NDArray[np.int32],
        codes: NDArray[np.uint8],
        priors: NDArray[np.float64],
    ) -> None:
        self._splits, self._starts, self._members = splits, starts, members
        self._codes, self._priors = codes, priors
        # Positive and observed entries side by side: one product counts both.
        self._entries = np.hstack([codes == 1, codes < 2]).astype(np.float32)

    @property
    def n_copies(self) -> int:
        """Number of forests."""
        return len(self._splits.roots)

    def predict(self, copy: int, inputs: Inputs) -> Probabilities:
        """Mean over the trees of the values of the leaves, (n, c)."""
        leaves = self._splits.leaves(copy, inputs)
        total = np.zeros((len(inputs), self._codes.shape[1]))
        for trees in self._groups(copy):
            used, position = np.unique(leaves[:, trees], return_inverse=True)
            values = self._values(used, self._priors[copy])
            ends = np.arange(len(inputs) + 1) * (trees.stop - trees.start)
            sums = csr_array(
                (np.ones(position.size), position.reshape(-1), ends), (len(inputs), len(used))
            )
            total += sums @ values
        return np.asarray(total / leaves.shape[1])

    def _values(self, nodes: NDArray[np.int32], prior: NDArray[np.float64]) -> Probabilities:
        """Values of leaves, (leaves, c), from the labels of their rows."""
        counts = self._starts[nodes + 1] - self._starts[nodes]
        ends = np.append(0, np.cumsum(counts))
        place = np.arange(ends[-1]) + np.repeat(self._starts[nodes] - ends[:-1], counts)
        rows = self._members[place]
        shape = (len(nodes), len(self._codes))
        product = csr_array((np.ones(len(rows), dtype=np.float32), rows, ends), shape)
        positive, observed = np.hsplit((product @ self._entries).astype(np.float64), 2)
        return (positive + _PSEUDO_COUNT * prior) / (observed + _PSEUDO_COUNT)

    def _groups(self, copy: int) -> Iterator[slice]:
        """Trees whose leaves are dealt with at a time; no matter how many samples there are."""
        n_trees = self._splits.roots.shape[1]
        nodes = self._splits.n_nodes / max(1, self._splits.roots.size)
        size = int(max(1, _MOST_ENTRIES // (nodes / 2 * self._codes.shape[1])))
        for start in range(0, n_trees, size):
            yield slice(start, min(start + size, n_trees))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, for a model file."""
        arrays = self._splits.to_arrays()
        arrays |= {"starts": self._starts, "members": self._members}
        arrays |= {"labels": self._codes, "priors": self._priors}
        return arrays

    @classmethod
    def from_state(cls, state: State, columns: int, n_labels: int) -> _Forests:
        """Restore what `to_arrays` gave; ValueError for anything that cannot be walked."""
        splits = Splits.from_state(state, None, columns)
        starts = state.array("starts", (splits.n_nodes + 1,), np.int64)
        members = state.array("members", (None,), np.int32)
        codes = state.array("labels", (None, n_labels), np.uint8)
        priors = state.array("priors", (len(splits.roots), n_labels), np.float64)
        if not splits.roots.size or starts[0] != 0 or starts[-1] != len(members):
            raise ValueError("the trees do not have the rows of their leaves")
        if (np.diff(starts) < 0).any() or ((members < 0) | (members >= len(codes))).any():
            raise ValueError("a leaf of a tree has rows that do not exist")
        if (codes > 2).any() or not ((priors >= 0) & (priors <= 1)).all():
            raise ValueError("the labels of the trees' rows are not 0, 1 or unobserved")
        return cls(splits, starts, members, codes, priors)


def _targets(labels: Labels, copy: Copy) -> NDArray[np.float64]:
    """What trees are grown on, (n, targets), or (n,) for one: labels or their components."""
    filled = np.where(labels.observed, labels.values, copy.prior)
    if labels.n_labels > _MOST_TARGETS:
        filled -= filled.mean(axis=0)
        most = min(_MOST_TARGETS, *filled.shape)
        _, _, components = randomized_svd(filled, most, random_state=copy.seed)
        filled = filled @ components.T
    return filled if filled.shape[1] > 1 else filled[:, 0]


def _codes(labels: Labels) -> NDArray[np.uint8]:
    return np.where(labels.observed, labels.values, 2).astype(np.uint8)


def _members(
    splits: Splits, rows: Sequence[NDArray[np.intp]], leaves: Sequence[NDArray[np.intp]]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Rows of every node, one after the other, and where those of each node begin.

    `rows` are the training rows of each tree, `leaves` the leaf of each, numbered within the tree.
    """
    counts = np.zeros(splits.n_nodes + 1, dtype=np.int64)
    members = []
    for root, own, leaf in zip(splits.roots.ravel(), rows, leaves, strict=True):
        members.append(own[np.argsort(leaf, kind="stable")].astype(np.int32))
        found = np.bincount(leaf)
        counts[root + 1 : root + 1 + len(found)] = found
    return np.cumsum(counts), np.concatenate(members)
