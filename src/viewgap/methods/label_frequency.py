"""The floor: every sample gets the label frequencies of the training set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import Labels
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier, Validation
from viewgap.state import State


class LabelFrequency(MultiViewClassifier):
    """Answer every question with how often the label was seen, whatever the views say.

    P(label j) = observed positives of j / observed values of j. A method that does not beat this
    one has not learned anything from the views.

    Examples
    --------
    >>> import numpy as np, viewgap
    >>> X = {"a": np.random.default_rng(0).normal(size=(40, 6)), "b": np.ones((40, 3))}
    >>> X["b"][:10] = np.nan
    >>> Y = (X["a"][:, :2] > 0).astype(float)
    >>> model = viewgap.LabelFrequency().fit(X, Y)
    >>> model.predict_proba(X).shape
    (40, 2)
    """

    summary = "label frequencies for everybody: the floor"
    reads_values = False

    def __init__(
        self,
        views: Mapping[str, Any] | None = None,
        nan: str = "mean",
        on_empty: str = "error",
    ) -> None:
        self._store_parameters(locals())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # by design: it does not look at the views
        return tags

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        """Nothing to do: the base remembers the frequencies for every method."""

    def _predict_proba(self, views: ViewSet) -> NDArray[np.float64]:
        return np.tile(self.label_frequency_, (len(views), 1))

    def _get_state(self) -> State:
        return State()

    def _set_state(self, state: State) -> None:
        if state.arrays or state.metadata:
            raise ValueError("LabelFrequency has no weights, but some were given")
