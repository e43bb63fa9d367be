"""Prediction in blocks of rows: as much memory as a block needs, however many samples there are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viewgap.data.labels import SparseLabels
from viewgap.data.renamed_views import renamed_view
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError, ViewgapWarning, first_few
from viewgap.methods.base import MultiViewClassifier
from viewgap.metrics import Evaluation, evaluate_blocks

BLOCK_BYTES = 64 * 2**20
"""About what the values and answers of a block take, as float64."""


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers for some samples.

    Attributes
    ----------
    ids : array of shape (n,)
        Ids of the samples.
    no_view : array of shape (n,)
        True for samples without any view, which are answered with the label frequencies.
    probabilities : array of shape (n, c)
        NaN for labels that were never observed in training.
    decisions : array of shape (n, c)
        0 and 1; after a fit on a 1-D y its values. Of no meaning for labels never observed.
    """

    ids: NDArray[Any]
    no_view: NDArray[np.bool_]
    probabilities: NDArray[np.float64]
    decisions: NDArray[Any]

    def __len__(self) -> int:
        return len(self.ids)


def without_unknown_views(model: MultiViewClassifier, views: ViewSet) -> ViewSet:
    """Leave out views that the model does not know, with a warning; refuse data without others.

    One that could be a view of the model under another name is refused, too.
    """
    extra = [name for name in views.names if name not in model.view_names_]
    if not extra:
        return views
    if len(extra) == views.n_views:
        raise ViewError(
            f"none of the views is one that the model was fitted on: found {first_few(extra)}; "
            f"it knows {first_few(model.view_names_)}: name the views (files) like these"
        )
    own = (model.view_names_, model.view_dims_, model.feature_names_in_)
    renamed = renamed_view(views, *own)
    if renamed is not None:
        question = renamed.question(f"view {renamed.given!r}")
        raise ViewError(f"{question}; {renamed.remedy}")
    warnings.warn(
        f"views that the model was not fitted on are left out: {first_few(extra)}",
        ViewgapWarning,
        stacklevel=3,
    )
    return views.select([name for name in views.names if name not in extra])


def predict_blocks(
    model: MultiViewClassifier, views: ViewSet, n_rows: int | None = None
) -> Iterator[Answers]:
    """Return the answers of a fitted model, block by block, in the order of the samples.

    All checks and warnings of `predict_proba` come once, with the call. A method whose
    answers depend on the samples beside each other (`prediction="batch"`) gets them in one piece.
    `n_rows`, if given, is the size of a block instead.
    """
    matched = model._check_for_prediction(without_unknown_views(model, views))
    if n_rows is None:
        n_rows = 2**62 if answers_by_batch(model) else rows_of_a_block(model)
    return _blocks(model, matched, n_rows)


def _blocks(model: MultiViewClassifier, views: ViewSet, n_rows: int) -> Iterator[Answers]:
    for start in range(0, len(views), n_rows):
        yield _answer(model, views[start : start + n_rows])


def evaluate_in_blocks(
    model: MultiViewClassifier,
    views: ViewSet,
    labels: SparseLabels,
    variant: str = "clean",
) -> Evaluation:
    """The metrics of a model, with the answers for a block of samples in memory at a time.

    `labels` are in the order of the model. The result is that of `evaluate_blocks`.
    """

    def blocks() -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        start = 0
        for answers in predict_blocks(model, views):
            rows = np.arange(start, start + len(answers))
            start += len(rows)
            yield labels.rows_as_float(rows), answers.probabilities

    if len(labels) != len(views):
        raise LabelError(
            f"expected one row of labels per sample: {len(views)}, found {len(labels)}"
        )
    return evaluate_blocks(blocks(), variant)


def answers_by_batch(model: MultiViewClassifier) -> bool:
    """Whether the answer for a sample depends on the samples beside it (`prediction="batch"`)."""
    members = getattr(model, "members_", {}).values()
    settings = [getattr(each, "settings_", None) for each in (model, *members)]
    return any(getattr(each, "prediction", "row") == "batch" for each in settings)


def rounds_by_batch(model: MultiViewClassifier) -> bool:
    """Whether the last bits of an answer can depend on the samples beside it."""
    members = getattr(model, "members_", {}).values()
    return any(each.rounds_by_batch for each in (model, *members))


def rows_of_a_block(model: MultiViewClassifier) -> int:
    """How many samples are predicted at a time, so that values and answers take little memory."""
    return max(256, BLOCK_BYTES // (8 * (model.n_features_in_ + len(model.label_names_))))


def _answer(model: MultiViewClassifier, views: ViewSet) -> Answers:
    probabilities = model._checked_probabilities(views)
    if model.one_label_:
        decisions = model.classes_[(probabilities > 0.5).astype(np.intp)]
    else:
        decisions = (probabilities > model.thresholds_).astype(np.int64)
    return Answers(views.sample_ids, ~views.has_view, probabilities, decisions)
