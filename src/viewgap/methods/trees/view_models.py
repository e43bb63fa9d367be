"""Models of single views, cross-fitted and pooled: what the tree methods share.

The rows are dealt to K parts. For every view and part a copy of the view's model is fitted on the
rows that have the view and lie outside of the part, and predicts those inside. From these
out-of-fold predictions of all rows the pooling of the views and the thresholds are fitted. A new
sample is predicted by the mean of the copies of each view it has, pooled by their log-odds.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol

import joblib
import numpy as np
import torch
from numpy.typing import NDArray

from viewgap.constraints import AnyOf, Doc, Integer, OrNone
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.splits import cross_fit_parts
from viewgap.data.viewset import ViewSet
from viewgap.methods.base import MultiViewClassifier, PredictsViews, Validation
from viewgap.methods.fitting.held_out import join_labels
from viewgap.methods.fitting.pooling import fit_pooling, pooled, pooling_from_state, view_weights
from viewgap.methods.fitting.random_state import as_generator
from viewgap.methods.linalg.blocks import in_parts, restore_scaler, save_scaler
from viewgap.metrics import expected_f1_thresholds
from viewgap.nn.pooling import LabelCounts, LogOddsPooling
from viewgap.state import State

Inputs = NDArray[np.float32]
Probabilities = NDArray[np.float64]

_JOBS = OrNone(AnyOf(Integer(1, 10_000), Integer(None, -1)))
_PARTS = Integer(2, 1000)


class ViewModel(Protocol):
    """The copies of the model of one view."""

    @property
    def n_copies(self) -> int:
        """Number of copies."""

    def predict(self, copy: int, inputs: Inputs) -> Probabilities:
        """Probabilities (n, c) of prepared rows (n, d), every row for itself."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything as named arrays, for a model file."""


class Copy(NamedTuple):
    """What one copy is fitted on: the numbers of its rows, a prior for the labels, and a seed."""

    rows: NDArray[np.intp]
    prior: NDArray[np.float64]
    seed: int


class CrossFitted(MultiViewClassifier):
    """Base of the methods with cross-fitted models of some columns each.

    A method implements `_fit_view` and `_restore_view`, and tells which columns they are.
    """

    n_parts: Annotated[
        int,
        _PARTS,
        Doc(
            "Parts of the cross-fit, and copies of every view's model; of fewer rows, every row is "
            "a part."
        ),
    ]
    n_jobs: Annotated[
        int | None,
        _JOBS,
        Doc("Threads of the fit, all processors if None; no bit of the model depends on it."),
    ]

    predicts_out_of_fold: ClassVar[bool] = True

    thresholds_: Annotated[NDArray[np.float64], Doc("Threshold of every label in `predict`.")]
    out_of_fold_proba_: Annotated[
        NDArray[np.float64],
        Doc(
            "Probabilities (n_samples, n_labels) of the training rows, by copies that were "
            "not fitted on them; the label frequency where no copy could tell, NaN for a label "
            "never observed. Not kept in a model file."
        ),
    ]

    # ------------------------------------------------------------------ what a method implements

    @abstractmethod
    def _fit_view(self, inputs: Inputs, labels: Labels, copies: Sequence[Copy]) -> ViewModel:
        """Fit the copies of one view's model.

        Shape: inputs (n, d), the prepared rows that have the view; labels (n, c) of these rows.
        """

    @abstractmethod
    def _restore_view(self, state: State, columns: int) -> ViewModel:
        """Restore what `ViewModel.to_arrays` gave; ValueError for anything else."""

    @abstractmethod
    def _columns_of_models(self) -> tuple[int, ...]:
        """How many columns every model has."""

    @abstractmethod
    def _rows_of_models(self, views: ViewSet) -> NDArray[np.bool_]:
        """Which rows every model has, (n, models)."""

    @abstractmethod
    def _inputs(self, views: ViewSet, model: int, rows: NDArray[np.intp]) -> Inputs:
        """Prepared rows of the columns of a model."""

    @property
    def _threads(self) -> int:
        return int(joblib.effective_n_jobs(-1 if self.n_jobs is None else self.n_jobs))

    # ------------------------------------------------------------------ fitting

    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        rng = as_generator(self.random_state)
        self._scaler = Standardiser.fit(views)
        parts = cross_fit_parts(views, labels, self.n_parts, rng)
        priors = [_prior(labels[parts != part]) for part in range(parts.max() + 1)]
        own_rows = self._rows_of_models(views)
        seeds = rng.integers(2**31, size=(own_rows.shape[1], len(priors)))
        self._view_models: list[ViewModel] = []
        predictions = np.full((own_rows.shape[1], *labels.shape), np.nan)
        for view, own_seeds in enumerate(seeds.tolist()):
            rows = np.flatnonzero(own_rows[:, view])
            inputs = self._inputs(views, view, rows)
            copies = _copies(parts[rows], priors, own_seeds)
            model = self._fit_view(inputs, labels[rows], list(copies.values()))
            for copy, part in enumerate(copies):
                held = np.flatnonzero(parts[rows] == part)
                if len(priors) > 1 and held.size:
                    predictions[view, rows[held]] = model.predict(copy, inputs[held])
            self._view_models.append(model)
        self._pool(predictions, labels, validation)

    def _pool(
        self, predictions: Probabilities, labels: Labels, validation: Validation | None
    ) -> None:
        """Fit the pooling and the thresholds on predictions (m, n, c), NaN where there is none."""
        self._pooling = LogOddsPooling(len(predictions), labels.n_labels)
        observed = ~np.isnan(predictions[:, :, 0]).T
        told = observed.any(axis=1)
        held, held_labels = predictions[:, told], labels[told]
        if validation is not None and len(validation[0]):
            held = np.concatenate([held, self._predict_each(validation[0])], axis=1)
            held_labels = join_labels([held_labels, validation[1]])
        if held.shape[1]:
            fit_pooling(self._pooling, held, held_labels, labels)
            thresholds = expected_f1_thresholds(pooled(self._pooling, held))
            self._pooling.threshold.copy_(torch.from_numpy(thresholds))
        self._summarise()
        own = np.tile(self.label_frequency_, (len(labels), 1))
        own[told] = self._with_single_values(pooled(self._pooling, predictions[:, told]))
        own[:, np.isnan(self.label_frequency_)] = np.nan
        self.out_of_fold_proba_ = own

    def _summarise(self) -> None:
        self.thresholds_ = self._pooling.threshold.numpy().astype(np.float64)

    # ------------------------------------------------------------------ prediction

    def _predict_each(self, views: ViewSet) -> Probabilities:
        """Mean of the copies of every model, (m, n, c); NaN where its columns are missing."""
        every = range(len(self._view_models))
        return np.stack([self._mean_of_copies(views, model) for model in every])

    def _mean_of_copies(self, views: ViewSet, view: int) -> Probabilities:
        """Mean of the copies of one model, (n, c); NaN where its columns are missing."""
        result = np.full((len(views), len(self.label_names_)), np.nan)
        rows = np.flatnonzero(self._rows_of_models(views)[:, view])
        inputs, model = self._inputs(views, view, rows), self._view_models[view]
        total = np.zeros((len(rows), result.shape[1]))
        for copy in range(model.n_copies):
            total += model.predict(copy, inputs)
        result[rows] = total / model.n_copies
        return result

    def _predict_proba(self, views: ViewSet) -> Probabilities:
        return in_parts(views, self._predict_part)

    def _predict_part(self, views: ViewSet) -> Probabilities:
        return self._with_single_values(pooled(self._pooling, self._predict_each(views)))

    def _with_single_values(self, probabilities: Probabilities) -> Probabilities:
        """Labels that were observed with one value only keep it."""
        single = (self.label_frequency_ == 0) | (self.label_frequency_ == 1)
        return np.where(single, self.label_frequency_, probabilities)

    # ------------------------------------------------------------------ saving and loading

    def _get_state(self) -> State:
        arrays: dict[str, NDArray[Any]] = save_scaler(self._scaler)
        arrays |= {f"pooling.{name}": v.numpy() for name, v in self._pooling.state_dict().items()}
        for view, model in enumerate(self._view_models):
            arrays |= {f"{view}.{name}": array for name, array in model.to_arrays().items()}
        return State(arrays)

    def _set_state(self, state: State) -> None:
        self._scaler = restore_scaler(state, self.view_dims_, self.view_names_)
        widths = self._columns_of_models()
        shape = (len(widths), len(self.label_names_))
        self._pooling = pooling_from_state(State(state.part("pooling.")), *shape)
        self._view_models = [
            self._restore_view(State(state.part(f"{view}.")), columns)
            for view, columns in enumerate(widths)
        ]
        self._summarise()


class ViewwiseClassifier(PredictsViews, CrossFitted):
    """Base of the methods with a cross-fitted model per view (see the module)."""

    view_weights_: Annotated[dict[str, float], Doc("Share of every view in the pooled evidence.")]

    def _columns_of_models(self) -> tuple[int, ...]:
        return tuple(self.view_dims_)

    def _rows_of_models(self, views: ViewSet) -> NDArray[np.bool_]:
        return views.observed

    def _inputs(self, views: ViewSet, model: int, rows: NDArray[np.intp]) -> Inputs:
        return PreparedRows(views, self._scaler).read(model, rows)

    def _summarise(self) -> None:
        super()._summarise()
        self.view_weights_ = view_weights(self._pooling, self.view_names_)

    def _predict_each_view(self, views: ViewSet) -> Probabilities:
        return self._predict_each(views)

    def _view_scores(self, views: ViewSet, view: int) -> Probabilities:
        return self._mean_of_copies(views, view)

    def _from_view_scores(
        self, scores: Iterable[Probabilities], observed: NDArray[np.bool_]
    ) -> Probabilities:
        """Probabilities (n, c) from the means of every view, NaN where `observed` is False."""
        return self._with_single_values(pooled(self._pooling, np.stack(list(scores))))


def _copies(
    parts: NDArray[np.intp], priors: Sequence[NDArray[np.float64]], seeds: Sequence[int]
) -> dict[int, Copy]:
    """Return what the copies are fitted on, by part; a view within one part has no copy for it.

    A single part, of a single row, has a copy that is fitted on it.
    """
    copies = {}
    for part, (prior, seed) in enumerate(zip(priors, seeds, strict=True)):
        rows = np.flatnonzero(parts != part) if len(priors) > 1 else np.arange(len(parts))
        if rows.size:
            copies[part] = Copy(rows, prior, seed)
    return copies


def _prior(labels: Labels) -> NDArray[np.float64]:
    """Smoothed frequencies (c,), never 0 or 1."""
    counts = LabelCounts.of(
        torch.from_numpy(np.array(labels.values)), torch.from_numpy(np.array(labels.observed))
    )
    return counts.frequency().numpy()
