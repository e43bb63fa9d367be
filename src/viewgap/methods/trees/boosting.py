"""Gradient boosting of LightGBM for cross-fitted models: one booster per label and copy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Doc, Integer, Real
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.fitting.estimate import EstimatedFit
from viewgap.methods.trees.arrays import Splits, Trees
from viewgap.methods.trees.boosters import BinnedView, Booster, constant, joined
from viewgap.methods.trees.view_models import Copy, CrossFitted, Inputs, Probabilities, ViewModel
from viewgap.parameters import NonNegative
from viewgap.search import IntegerRange, Range
from viewgap.state import State

_FEWEST_COLUMNS = 10  # for a tree of a view: a share of few columns leaves none to interact
_MOST_LOG_ODDS = 1e6  # of a leaf in a model file; sums of them are finite


class BoostedTrees(EstimatedFit, CrossFitted):
    """Parameters and fit of boosters; a method tells what its models have (see `CrossFitted`)."""

    _most_columns: ClassVar[float] = np.inf  # for a tree
    _most_bins: ClassVar[int] = 255  # of a column: LightGBM's default

    n_estimators: Annotated[
        int,
        Integer(1, 100_000),
        Doc("Trees per view, label and part."),
        IntegerRange(50, 400, log=True),
    ]
    learning_rate: Annotated[
        float,
        Real(0, 1, closed="right"),
        Doc("Factor of every tree's values."),
        Range(0.01, 0.2, log=True),
    ]
    num_leaves: Annotated[
        int, Integer(2, 10_000), Doc("Most leaves of a tree."), IntegerRange(4, 63, log=True)
    ]
    min_child_samples: Annotated[
        int, Integer(1), Doc("Fewest rows in a leaf."), IntegerRange(2, 50, log=True)
    ]
    colsample_bytree: Annotated[
        float,
        Real(0, 1, closed="right"),
        Doc(
            "Share of the view's columns that a tree may use, but never fewer than "
            f"{_FEWEST_COLUMNS} columns, as far as there are that many."
        ),
        Range(0.1, 1.0, log=True),
    ]
    subsample: Annotated[
        float,
        Real(0, 1, closed="right"),
        Doc("Share of the rows that a tree is fitted on."),
        Range(0.5, 1.0),
    ]
    reg_lambda: Annotated[
        NonNegative, Doc("L2 penalty of the leaves' values."), Range(0.01, 100, log=True)
    ]

    def _fit_view(self, inputs: Inputs, labels: Labels, copies: Sequence[Copy]) -> ViewModel:
        binned = BinnedView(inputs, self._lightgbm_params(inputs.shape[1]))
        tasks = [(copy, label) for copy in copies for label in range(labels.n_labels)]
        with ThreadPoolExecutor(self._threads) as pool:
            pending = [pool.submit(self._fit_booster, binned, labels, *task) for task in tasks]
            try:
                boosters = [future.result() for future in pending]
            finally:
                pool.shutdown(cancel_futures=True)
        trees, values = joined([booster.filled(self.n_estimators) for booster in boosters])
        splits = Splits.from_trees(trees, self.n_estimators)
        return _Boosters(Trees(splits, np.concatenate(values)), labels.n_labels)

    def _fit_booster(self, binned: BinnedView, labels: Labels, copy: Copy, label: int) -> Booster:
        self._check_time()
        rows = copy.rows[labels.observed[copy.rows, label]]
        values = labels.values[rows, label]
        if not values.any() or values.all():
            prior = copy.prior[label]
            return constant(float(np.log(prior / (1 - prior))))
        return binned.fit(rows, values, copy.seed, self.n_estimators)

    def _share_of_columns(self, columns: int) -> float:
        """Share of a view's columns for each tree: enough of them to interact in narrow views."""
        share = min(1.0, max(self.colsample_bytree, _FEWEST_COLUMNS / columns))
        return min(share, self._most_columns / columns)

    def _lightgbm_params(self, columns: int) -> dict[str, Any]:
        return {
            "objective": "binary",
            "learning_rate": float(self.learning_rate),
            "num_leaves": int(self.num_leaves),
            "min_data_in_leaf": int(self.min_child_samples),
            "feature_fraction": self._share_of_columns(columns),
            "bagging_fraction": float(self.subsample),
            "bagging_freq": 1,
            "lambda_l2": float(self.reg_lambda),
            "use_missing": False,  # rows have no missing values, and a zero is a number
            # The same bits on every run; boosters side by side are faster than threads in one.
            "num_threads": 1,
            "deterministic": True,
            "force_col_wise": True,
            "max_bin": self._most_bins,
            "verbosity": -1,
        }

    def _restore_view(self, state: State, columns: int) -> ViewModel:
        bounds = (-_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        trees = Trees.from_state(state, None, columns, np.float32, bounds)
        labels = len(self.label_names_)
        if not trees.splits.roots.size or len(trees.splits.roots) % labels:
            raise ValueError(f"the trees are not those of {labels} labels")
        return _Boosters(trees, labels)

    @abstractmethod
    def _shapes_of_models(self, views: ViewSet) -> list[tuple[int, float]]:
        """Columns and rows of every model."""

    def _seconds(self, views: ViewSet, labels: Labels) -> float:
        share = labels.observed.mean() if labels.observed.size else 0.0
        per_tree = 0.0
        for dim, all_rows in self._shapes_of_models(views):
            rows, used = all_rows * share, self._share_of_columns(dim) * dim
            leaves = min(self.num_leaves, 1 + rows / 40)
            per_tree += 2e-4 + used * (1.3e-8 * leaves * min(rows, self._most_bins) + 6e-9 * rows)
        return self.n_parts * labels.n_labels * self.n_estimators * per_tree


class _Boosters:
    """The boosters of one model: copy by copy, label by label."""

    def __init__(self, trees: Trees, n_labels: int) -> None:
        self._trees, self._n_labels = trees, n_labels

    @property
    def n_copies(self) -> int:
        """Number of boosters of each label."""
        return len(self._trees.splits.roots) // self._n_labels

    def predict(self, copy: int, inputs: Inputs) -> Probabilities:
        """Probabilities (n, c)."""
        first = copy * self._n_labels
        log_odds = np.stack(
            [
                self._trees.values(first + label, inputs).sum(axis=1, dtype=np.float64)
                for label in range(self._n_labels)
            ],
            axis=1,
        )
        with np.errstate(over="ignore"):  # exp of a large number is infinite: the answer is 0
            return np.asarray(1.0 / (1.0 + np.exp(-log_odds)))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, for a model file."""
        return self._trees.to_arrays()
