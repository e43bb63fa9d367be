"""A random forest per label on all views side by side, kept as plain arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from viewgap.constraints import AnyOf, Choice, Doc, Integer, OrNone, Real
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.methods.fitting.estimate import EstimatedFit
from viewgap.methods.fitting.random_state import as_generator
from viewgap.methods.linalg.blocks import in_parts, restore_scaler, save_scaler, side_by_side
from viewgap.methods.trees.arrays import Trees
from viewgap.parameters import Seed
from viewgap.search import IntegerRange, Options
from viewgap.state import State

# As in scikit-learn.
_LEAF = AnyOf(Integer(1), Real(0, 1, closed="neither"))
_FEATURES = OrNone(AnyOf(Choice("sqrt", "log2"), Integer(1), Real(0, 1, closed="right")))
_A_TREE, _A_VALUE = 1.5e-3, 1.2e-8  # seconds: a tree at the least, and a value that is sorted
_JOBS = OrNone(AnyOf(Integer(1, 10_000), Integer(None, -1)))


class RandomForest(EstimatedFit, MultiViewClassifier):
    """One forest of decision trees per label, on the rows where the label is observed.

    The input is every view, set to its training mean where it is missing, and one column per view
    that says whether it was observed. The probability of a label is the mean, over the trees, of
    its share among the training rows in the leaf. A label that was observed with one value only
    keeps that value. Views meet in every tree, so that a forest learns what only two of them
    together tell.

    After `fit` the trees are plain arrays, so that a model file needs no pickle.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.RandomForest(n_estimators=10, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary = "random forest per label on mean-imputed views with observed-indicators"
    reference = "Breiman, Random forests, Machine Learning 45(1), 2001"

    n_estimators: Annotated[int, Integer(1, 100_000), Doc("Trees per label.")]
    min_samples_leaf: Annotated[
        float,
        _LEAF,
        Doc("Fewest rows in a leaf, as in scikit-learn's forests."),
        IntegerRange(1, 20, log=True),
    ]
    max_features: Annotated[
        str | float | None,
        _FEATURES,
        Doc("Columns tried per split, as in scikit-learn's forests."),
        Options("sqrt", "log2", 0.1, 0.3),
    ]
    n_jobs: Annotated[int | None, _JOBS, Doc("Trees grown at the same time.")]

    out_of_fold_proba_: Annotated[
        NDArray[np.float64],
        Doc(
            "Probabilities (n_samples, n_labels) of the training rows, each by the trees whose "
            "bootstrap sample lacks the row (out of bag); the label frequency where there is no "
            "such tree, NaN for a label never observed. Not kept in a model file."
        ),
    ]

    predicts_out_of_fold: ClassVar[bool] = True

    def __init__(
        self,
        n_estimators: int = 100,
        min_samples_leaf: float = 5,
        max_features: str | float | None = "sqrt",
        random_state: Seed = None,
        n_jobs: int | None = None,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        self._scaler = Standardiser.fit(views)
        self.out_of_fold_proba_ = np.tile(self.label_frequency_, (len(views), 1))
        forests = self._grown(self._inputs(views), labels)
        self._trees = Trees.from_forests(forests, self.n_estimators)

    def _grown(
        self, inputs: NDArray[np.float32], labels: Labels
    ) -> Iterator[RandomForestClassifier]:
        """The forests, one after the other; what they say out of bag is kept."""
        seeds = as_generator(self.random_state).integers(2**31, size=labels.n_labels)
        for label in self._learned():
            self._check_time()
            rows = np.flatnonzero(labels.observed[:, label])
            forest = self._new_forest(int(seeds[label]))
            forest.fit(inputs[rows], labels.values[rows, label])
            self._keep_out_of_bag(forest, inputs, rows, label)
            yield forest

    def _keep_out_of_bag(
        self,
        forest: RandomForestClassifier,
        inputs: NDArray[np.float32],
        rows: NDArray[np.intp],
        label: np.intp,
    ) -> None:
        total, count = np.zeros(len(inputs)), np.zeros(len(inputs))
        for tree, drawn in zip(forest.estimators_, forest.estimators_samples_, strict=True):
            outside = np.ones(len(inputs), dtype=np.bool_)
            outside[rows[drawn]] = False
            if outside.any():
                total[outside] += tree.predict_proba(inputs[outside], check_input=False)[:, 1]
                count += outside
        told = count > 0
        self.out_of_fold_proba_[told, label] = total[told] / count[told]

    def _new_forest(self, seed: int) -> RandomForestClassifier:
        return RandomForestClassifier(
            n_estimators=self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_features=self.max_features,
            random_state=seed,
            n_jobs=self.n_jobs,
        )

    def _inputs(self, views: ViewSet) -> NDArray[np.float32]:
        return side_by_side(views, self._scaler)

    def _seconds(self, views: ViewSet, labels: Labels) -> float:
        tried = np.sqrt(sum(views.dims) + views.n_views)
        rows = labels.n_observed / max(1, labels.n_labels)
        per_tree = _A_TREE + _A_VALUE * rows * np.log2(2 + rows / 4) * tried
        return float(self.n_estimators * labels.n_labels * per_tree)

    def _learned(self) -> NDArray[np.intp]:
        """Labels with something to tell apart: observed with both values."""
        return np.flatnonzero((self.label_frequency_ > 0) & (self.label_frequency_ < 1))

    def _predict_proba(self, views: ViewSet) -> NDArray[np.float64]:
        return in_parts(views, self._predict_part)

    def _predict_part(self, views: ViewSet) -> NDArray[np.float64]:
        inputs = self._inputs(views)
        probabilities = np.tile(self.label_frequency_, (len(views), 1))
        for forest, label in enumerate(self._learned()):
            probabilities[:, label] = self._trees.values(forest, inputs).mean(axis=1)
        return probabilities

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = save_scaler(self._scaler)
        return State(arrays | self._trees.to_arrays())

    def _set_state(self, state: State) -> None:
        self._scaler = restore_scaler(state, self.view_dims_, self.view_names_)
        columns = self.n_features_in_ + len(self.view_dims_)
        self._trees = Trees.from_state(state, len(self._learned()), columns)
