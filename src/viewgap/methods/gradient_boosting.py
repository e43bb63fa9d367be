"""Gradient boosting, one model per view and label, cross-fitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from viewgap.constraints import Doc, Integer, Real
from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods._boosters import BinnedView, Booster, constant, joined
from viewgap.methods._estimate import EstimatedFit
from viewgap.methods._trees import Splits, Trees
from viewgap.methods._view_models import Copy, Inputs, Probabilities, ViewModel, ViewwiseClassifier
from viewgap.parameters import NonNegative, Seed
from viewgap.search import IntegerRange, Range
from viewgap.state import State

_FEWEST_COLUMNS = 10  # for a tree of a view: a share of few columns leaves none to interact
_MOST_LOG_ODDS = 1e6  # of a leaf in a model file; sums of them are finite


class GradientBoosting(EstimatedFit, ViewwiseClassifier):
    r"""Gradient-boosted trees per view and label, cross-fitted and pooled; fitted by LightGBM.

    The log-odds of label j in view v are a sum of small trees, each fitted to the gradient of the
    log loss on the rows that have the view and of which the label is observed:

    .. math:: p_{vj}(x) = \sigma\left(\sum_t f_{vjt}(x)\right) .

    Rows are dealt to `n_parts` parts, and every view has boosters for each part, fitted on the rows
    outside of it; the weights of the views, the calibration and the thresholds are fitted on the
    predictions of the rows inside. New samples get the mean of the boosters of each view, pooled by
    their log-odds over the views they have. Where a label has one value only among the rows of a
    booster, its smoothed frequency is the answer.

    The time of a fit grows with labels x views. After `fit` the trees are plain arrays: prediction
    and model files need no LightGBM.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.GradientBoosting(n_estimators=10, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary = "gradient-boosted trees per view and label, cross-fitted and pooled"
    reference = (
        "Ke et al., LightGBM: a highly efficient gradient boosting decision tree, NeurIPS 2017"
    )

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

    def __init__(
        self,
        *,
        n_estimators: int = 150,
        learning_rate: float = 0.05,
        num_leaves: int = 15,
        min_child_samples: int = 5,
        colsample_bytree: float = 0.3,
        subsample: float = 0.8,
        reg_lambda: float = 1.0,
        n_parts: int = 5,
        random_state: Seed = None,
        n_jobs: int | None = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

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
        return min(1.0, max(self.colsample_bytree, _FEWEST_COLUMNS / columns))

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
            "verbosity": -1,
        }

    def _restore_view(self, state: State, columns: int) -> ViewModel:
        bounds = (-_MOST_LOG_ODDS, _MOST_LOG_ODDS)
        trees = Trees.from_state(state, None, columns, np.float32, bounds)
        labels = len(self.label_names_)
        if not trees.splits.roots.size or len(trees.splits.roots) % labels:
            raise ValueError(f"the trees are not those of {labels} labels")
        return _Boosters(trees, labels)

    def _seconds(self, views: ViewSet, labels: Labels) -> float:
        share = labels.observed.mean() if labels.observed.size else 0.0
        per_tree = 0.0
        for dim, rows in zip(views.dims, views.observed.sum(axis=0) * share, strict=True):
            used = self._share_of_columns(dim) * dim
            leaves = min(self.num_leaves, 1 + rows / 40)
            per_tree += 2e-4 + used * (1.3e-8 * leaves * min(rows, 255) + 6e-9 * rows)
        return self.n_parts * labels.n_labels * self.n_estimators * per_tree


class _Boosters:
    """The boosters of one view: copy by copy, label by label."""

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
