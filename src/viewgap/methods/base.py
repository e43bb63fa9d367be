"""The contract of every method: what `fit` and `predict_proba` check, promise and remember.

A method is one file beside this one that defines one subclass of `MultiViewClassifier` and
implements `_fit`, `_predict_proba`, `_get_state` and `_set_state`. Input checks, matching of views
by name, samples without any view, labels never observed and scoring are done here, once.
"""

from __future__ import annotations

import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError as SklearnNotFittedError

from viewgap.checkpoints import CheckpointFolder
from viewgap.constraints import Doc
from viewgap.data.labels import Labels, SparseLabels
from viewgap.data.preprocessing import ColumnRanges, Unscaled
from viewgap.data.rows.values import row_chunks
from viewgap.data.validation import as_labels, is_one_array, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import (
    SettingError,
    ViewError,
    ViewgapError,
    ViewgapWarning,
    first_few,
    typed_memory_errors,
)
from viewgap.interruption import OutOfTimeError, raise_if_requested
from viewgap.methods.estimator.inputs import FitInputs, named_columns, warn_without_negatives
from viewgap.methods.estimator.inputs import Validation as Validation
from viewgap.methods.estimator.numeric_checks import (
    check_state,
    refuse_answers,
    some_columns,
    warn_of_far_values,
)
from viewgap.methods.estimator.one_label import as_column, find_classes, is_one_label
from viewgap.methods.estimator.training_summary import TrainingSummary
from viewgap.methods.fitting.checkpoint import check_request, checkpointing
from viewgap.methods.fitting.processes import fit_together
from viewgap.methods.fitting.tasks import CallbackSupport, fit_as_task
from viewgap.metrics import MetricStream, Prediction, average_precision
from viewgap.state import State

Array = NDArray[Any]

_LESS_TO_FIT = "fit fewer samples or columns, or use a machine with more memory"
_LESS_TO_PREDICT = "predict fewer samples at a time, or use a machine with more memory"


class NotFittedError(ViewgapError, SklearnNotFittedError):  # type: ignore[misc]
    """The estimator was used before `fit`."""


class MultiViewClassifier(
    CallbackSupport,
    ClassifierMixin,  # type: ignore[misc]
    FitInputs,
    ABC,
):
    """Base of all methods. The constructor only stores; fitted attributes end in `_`.

    A parameter or fitted attribute whose annotation has a `Doc` is described in the docstring of
    every method.
    """

    summary: ClassVar[str]
    """The idea in one line."""
    reference: ClassVar[str] = ""
    certainty: ClassVar[str] = ""
    """What the method was written from: `"released code"`, or `"reconstruction (...)"` where parts
    of the published method had to be inferred; empty for the baselines, which have one form."""
    keeps_checkpoints: ClassVar[bool] = False
    """Whether `fit` takes `checkpoint_dir`."""
    rounds_by_batch: ClassVar[bool] = False
    """Whether the last bits of an answer can depend on the samples beside it, by how products of
    matrices are rounded."""
    reads_values: ClassVar[bool] = True
    """Whether answers depend on the values of the views at all."""

    view_names_: Annotated[tuple[str, ...], Doc("Names of the views, in the order of the fit.")]
    view_dims_: Annotated[tuple[int, ...], Doc("Number of columns of each view.")]
    n_features_in_: Annotated[int, Doc("Number of columns of all views together.")]
    feature_names_in_: Annotated[
        dict[str, tuple[str, ...]], Doc("Column names of the views that have any.")
    ]
    label_names_: Annotated[tuple[str, ...], Doc("Names of the labels.")]
    classes_: Annotated[
        NDArray[Any], Doc("Indices of the labels; for a 1-D y its two values, in their order.")
    ]
    one_label_: Annotated[bool, Doc("Whether y was 1-D.")] = False
    label_frequency_: Annotated[
        NDArray[np.float64],
        Doc("Share of ones among the observed values of each label; NaN for one never observed."),
    ]
    n_samples_fit_: Annotated[int, Doc("Number of samples learned from: those with a view.")]
    interrupted_: Annotated[
        bool, Doc("Whether a signal ended the fit early, with the best weights until then.")
    ] = False
    n_missing_cells_: Annotated[dict[str, int], Doc("Number of single missing values by view.")]
    column_ranges_: ColumnRanges | None = None
    training_summary_: Annotated[
        TrainingSummary | None,
        Doc("Counts of the training data, patterns of views and out-of-fold scores."),
    ] = None
    thresholds_: Any = 0.5

    # Set for members of an ensemble: what only imputation needs is then not fitted.
    _only_predicts = False
    # Where a fit is kept while it runs, and the seed it was begun with.
    _checkpoint: CheckpointFolder | None = None
    _entropy: Any = None
    _resume_words: Any = None  # of a command line that goes on with an interrupted fit
    # Whether every fit leaves `out_of_fold_proba_`, at no cost of another fit.
    predicts_out_of_fold: ClassVar[bool] = False
    # Whether a fit is a sequence of epochs, each a task of scikit-learn's callbacks.
    _fits_in_epochs = False
    # Whether processes share the batches or the members of a fit, instead of each fitting all.
    _shares_fit = False
    # time.monotonic() after which a fit is given up, and when it last looked at the clock.
    _deadline: float | None = None
    _last_look: float | None = None

    # ------------------------------------------------------------------ what a method implements

    @abstractmethod
    def _fit(self, views: ViewSet, labels: Labels, validation: Validation | None) -> None:
        """Learn from checked data: every row has a view, every view has a row."""

    @abstractmethod
    def _predict_proba(self, views: ViewSet) -> Array:
        """Probabilities (n, c) for checked data: every row has at least one view."""

    @abstractmethod
    def _get_state(self) -> State:
        """Everything `_predict_proba` needs besides the parameters and the fitted names."""

    @abstractmethod
    def _set_state(self, state: State) -> None:
        """Restore what `_get_state` returned."""

    # ------------------------------------------------------------------ what a user calls

    def fit(
        self,
        X: Any,
        y: Any = None,
        validation: tuple[Any, Any] | None = None,
        X_unlabeled: Any = None,
        *,
        Y: Any = None,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        resume: bool = False,
        **fit_params: Any,
    ) -> Self:
        """Fit on views X and labels y.

        Parameters
        ----------
        X : ViewSet, dict, list, array or DataFrame
            The views, see `ViewSet`; one 2-D array or DataFrame with the parameter `views`.
        y : array or DataFrame of shape (n_samples, n_labels), or 1-D
            0, 1, and NaN where a label was not observed. A 1-D y is one label of two classes,
            numbers or text.
        validation : tuple (X, y), optional
            Rows that no weight is trained on, but that are learned from. Networks choose the epoch
            whose weights they keep by them, late-fusion ridge its penalties; the default profile
            of SCSD also learns from them how far to trust each view, how to calibrate
            probabilities, and the thresholds of `predict`; so do the cross-fitted tree methods,
            besides their out-of-fold rows. A score on these rows is therefore no
            estimate for new samples. Without it, the same comes from rows that are held out of X
            (`validation_fraction` of the networks). Other methods do not use it.
        X_unlabeled : like X, optional
            Samples without any label that the semi-supervised methods learn from too. With the
            samples to be predicted, the method is used transductively.
        Y : like y
            The old name of y; works for one more release.
        checkpoint_dir : str or path, optional
            Folder in which the fit is kept while it runs, for networks (after their epochs) and the
            ensemble (after every member). A process that dies can then go on with `resume`. One
            that already holds a checkpoint is refused without it.
        resume : bool, default=False
            Go on from the checkpoint in `checkpoint_dir`; a fit on a CPU ends in the same bits as
            one that was never interrupted. Other data or parameters are refused. Where there is no
            checkpoint yet, the fit begins, with a warning.
        **fit_params
            There are none: `sample_weight` is refused with a SettingError, for no method weights
            samples.

        Returns
        -------
        self
        """
        self._refuse_keywords("fit", fit_params)
        self._check_parameters()
        checkpoint = check_request(self, checkpoint_dir, resume)
        y = self._target(y, Y)
        views = self._as_views(X, self.nan)
        one_label = is_one_label(y)
        classes = find_classes(y) if one_label else None
        labels = as_labels(y if classes is None else as_column(y, classes), views)
        views, labels = self._drop_rows_without_views(views, labels)
        self._check_views_can_be_learned(views)
        held_out = None
        if validation is not None:
            held_out = self._check_validation(validation, views, labels, classes)
        self.is_fitted_ = False  # if this fit fails, the old weights do not fit the new names
        self._remember(views, labels)
        self.one_label_ = one_label
        self.classes_ = np.arange(labels.n_labels) if classes is None else classes
        views, labels = self._append_unlabeled(views, labels, X_unlabeled)
        self._remember_columns(views)
        self.interrupted_ = False
        self._resume_words = None

        def fit_alone() -> None:
            self._fit(views, labels, held_out)

        with (
            typed_memory_errors(f"to fit on {len(views):,} samples", self._less_to_fit()),
            checkpointing(self, checkpoint, views, labels, held_out),
        ):
            fit_together(self, views, labels, held_out, lambda: fit_as_task(self, X, y, fit_alone))
        self._check_numbers()
        self._summarise_training(views, labels)
        self.is_fitted_ = True
        return self

    def _less_to_fit(self) -> str:
        """What needs less memory in a fit, for a message."""
        return _LESS_TO_FIT

    def predict_proba(self, X: Any) -> Any:
        """Probability of every label for every sample.

        Returns
        -------
        array or DataFrame of shape (n_samples, n_labels)
            A DataFrame (sample ids x label names) if X came as DataFrames. A label that was never
            observed in training has no evidence: its column is NaN. After a fit on a 1-D y, the
            two columns are the probabilities of `classes_`.
        """
        views = self._check_for_prediction(X)
        probabilities = self._checked_probabilities(views)
        if self.one_label_:
            both = np.hstack([1.0 - probabilities, probabilities])
            return self._with_ids(views, both, self.classes_)
        return self._with_ids(views, probabilities)

    def _checked_probabilities(self, views: ViewSet) -> NDArray[np.float64]:
        """Probabilities (n, c) of matched views, as an array."""
        present = views.has_view
        probabilities = np.tile(self.label_frequency_, (len(views), 1))
        if present.any():
            rows = views if present.all() else views[present]
            with typed_memory_errors(f"to predict {len(views):,} samples", _LESS_TO_PREDICT):
                answers = self._predict_proba(rows)
            self._check_finite(rows, answers[:, ~np.isnan(self.label_frequency_)])
            probabilities[present] = answers
        probabilities[:, np.isnan(self.label_frequency_)] = np.nan
        return probabilities

    def predict(self, X: Any) -> Any:
        """Labels: 1 where the probability is above the label's threshold.

        That is one half, unless the method has learned `thresholds_`.

        Returns
        -------
        array or DataFrame of shape (n_samples, n_labels)
            A DataFrame if X came as DataFrames. After a fit on a 1-D y, the more probable class of
            every sample, 1-D (a Series), as in scikit-learn.
        """
        views = self._check_for_prediction(X)
        probabilities = self._checked_probabilities(views)
        if not self.one_label_:
            decided: NDArray[np.bool_] = probabilities > self.thresholds_
            return self._with_ids(views, decided.astype(np.int64))
        classes = self.classes_[(probabilities[:, 0] > 0.5).astype(np.intp)]
        if not views.from_frames:
            return classes
        return self._with_ids(views, classes[:, None])[self.label_names_[0]]

    def score(self, X: Any, y: Any = None, *, Y: Any = None, **score_params: Any) -> float:
        """Average precision (`clean` variant) over the observed labels of y; higher is better.

        A DataFrame y is aligned by sample ids and label names. After a fit on a 1-D y, the share
        of samples whose class is predicted, as in scikit-learn. `Y` is the old name of y;
        `sample_weight` is refused, as by `fit`.
        """
        self._refuse_keywords("score", score_params)
        views = self._check_for_prediction(X)
        labels = self._match_labels(self._target(y, Y), views)
        if isinstance(labels, SparseLabels):
            return self._score_in_blocks(views, labels)
        probabilities = self._checked_probabilities(views)
        if not self.one_label_:
            return average_precision(labels.as_float(), probabilities, variant="clean")
        right = (probabilities > 0.5) == labels.values
        return float(right[labels.observed].mean())

    def _score_in_blocks(self, views: ViewSet, labels: SparseLabels) -> float:
        """`score` of labels that are too many to predict all rows at once."""
        stream = MetricStream(bins=0, names=("AP",))
        for part in row_chunks(len(views), 8 * labels.n_labels):
            truth = labels.rows_as_float(np.arange(part.start, part.stop))
            stream.add_rows(Prediction.of(truth, self._checked_probabilities(views[part])))
        return stream.rows["AP"]

    def _with_ids(self, views: ViewSet, values: Array, columns: Any = None) -> Any:
        """Return `values` (n, c), a column per label, as a DataFrame if X came as DataFrames."""
        if not views.from_frames:
            return values
        import pandas as pd

        columns = list(self.label_names_) if columns is None else columns
        frame = pd.DataFrame(values, index=views.frame_index(), columns=columns)
        if not views.row_order_known:
            # Metrics refuse labels without ids beside it: this order cannot be known.
            frame.attrs["viewgap_row_order"] = "union"
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.multi_label = True
        tags.input_tags.allow_nan = self.nan != "error"
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "is_fitted_", False)

    # ------------------------------------------------------------------ the checks, once

    def _check_numbers(self) -> None:
        """Refuse a fit that ended in numbers which are not finite."""
        check_state(type(self).__name__, self._get_state())

    def _check_machine(self) -> None:
        """Refuse what this machine does not have, like a device."""

    @property
    def _seed(self) -> Any:
        """`random_state`, or what was drawn from it when a fit that goes on was begun."""
        return self.random_state if self._entropy is None else self._entropy

    def _check_time(self) -> None:
        """OutOfTimeError where a piece of work as long as the last would end too late.

        Interrupted where a signal has asked to stop.
        """
        raise_if_requested()
        if self._deadline is None:
            return
        now = time.monotonic()
        last = 0.0 if self._last_look is None else now - self._last_look
        self._last_look = now
        if now + last > self._deadline:
            raise OutOfTimeError

    def _remember(self, views: ViewSet, labels: Labels) -> None:
        self.n_samples_fit_ = len(views)
        self.view_names_ = views.names
        self.view_dims_ = views.dims
        self.feature_names_in_ = named_columns(views)
        self.n_features_in_ = sum(views.dims)
        self.label_names_ = labels.names
        self.label_frequency_ = labels.frequency()
        never = np.flatnonzero(np.isnan(self.label_frequency_))
        if never.size:
            shown = first_few(labels.names[j] for j in never)
            labels_were = "label was" if never.size == 1 else "labels were"
            warnings.warn(
                f"{never.size} {labels_were} never observed in training ({shown}); "
                "predictions for them are NaN",
                ViewgapWarning,
                stacklevel=3,
            )
        warn_without_negatives(self.label_frequency_, stacklevel=3)

    def _remember_columns(self, views: ViewSet) -> None:
        """Keep what the columns of the fit held, to fill missing values and to tell far ones."""
        self.n_missing_cells_ = views.n_missing_values
        self.column_ranges_ = ColumnRanges.fit(views) if self.reads_values else None
        never = {} if self.column_ranges_ is None else self.column_ranges_.never
        for name, columns in never.items():
            warnings.warn(
                f"view {name!r}: {len(columns)} columns have no value in any training sample "
                f"({some_columns(views, name, columns)}); they are left out of account",
                ViewgapWarning,
                stacklevel=3,
            )

    def _summarise_training(self, views: ViewSet, labels: Labels) -> None:
        """Keep counts of the labelled rows, and how good their out-of-fold answers are."""
        labelled = slice(self.n_samples_fit_)
        out_of_fold = getattr(self, "out_of_fold_proba_", None)
        self.training_summary_ = TrainingSummary.of(views[labelled], labels[labelled], out_of_fold)

    def _check_finite(self, views: ViewSet, answers: Array) -> None:
        """Refuse answers (n, ...) that are not numbers: NaN is for labels never observed."""
        if not np.isfinite(answers).all():
            refuse_answers(type(self).__name__, views, answers, self.column_ranges_)

    def _unscaled(self) -> Unscaled:
        """Rows as they are, with missing values at the mean of their column."""
        ranges = self.column_ranges_
        return Unscaled(None if ranges is None else [columns.mean for columns in ranges.views])

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted yet; call fit(X, y) first")

    def _match(self, X: Any, nan: str) -> ViewSet:
        """Views of the model, in its order."""
        views = self._as_views(X, nan)
        width = sum(views.dims)
        if self.views is not None and is_one_array(X) and width != self.n_features_in_:
            raise ViewError(
                f"X has {width} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input"
            )
        return match_views(views, self.view_names_, self.view_dims_, self.feature_names_in_)

    def _match_labels(self, y: Any, views: ViewSet) -> Labels:
        """Labels of matched views, in the order of the model; a 1-D y has its classes."""
        if self.one_label_ and is_one_label(y):
            y = as_column(y, self.classes_)
        return as_labels(y, views, names=self.label_names_)

    def _check_for_prediction(self, X: Any) -> ViewSet:
        self._check_fitted()
        views = self._match(X, self.nan)
        present = views.has_view
        if not present.all():
            self._refuse_or_warn_empty(views, present, "answered with the label frequencies")
        warn_of_far_values(views, self.column_ranges_)
        return views


class PredictsViews(MultiViewClassifier):
    """Base of the methods that can be asked about every view alone."""

    def predict_views(self, X: Any) -> dict[str, Any]:
        """Predict the labels from every view alone.

        Parameters
        ----------
        X : ViewSet, dict, list, DataFrame or array
            The views, as in `fit`.

        Returns
        -------
        dict of str to array or DataFrame of shape (n, c)
            Probabilities by view, NaN where it is missing and for labels never observed; DataFrames
            for DataFrames.
        """
        views, found = self._check_for_prediction(X), {}
        for name, own in zip(views.names, self._predict_each_view(views), strict=True):
            own[:, np.isnan(self.label_frequency_)] = np.nan
            found[name] = self._with_ids(views, own)
        return found

    @abstractmethod
    def _predict_each_view(self, views: ViewSet) -> Iterable[Array]:
        """Probabilities (n, c) for every view of checked data; NaN where it is missing."""


def as_method(model: Any) -> MultiViewClassifier:
    """Return the model; SettingError for anything that is no method of viewgap."""
    if not isinstance(model, MultiViewClassifier):
        advice = "of a pipeline, pass the last step, and the views as the steps before change them"
        if isinstance(model, str | os.PathLike):
            advice = "load a saved one by viewgap.load_model(path)"
        raise SettingError(
            f"model must be a fitted method of viewgap; found {type(model).__name__}: {advice}"
        )
    return model


def fitted_model(model: Any) -> MultiViewClassifier:
    """Return the model; SettingError for anything else, NotFittedError before `fit`."""
    method = as_method(model)
    method._check_fitted()
    return method
