"""Rows that networks are not trained on: which they are, and their score.

They are the rows of `validation=`, a share held out of the training rows, or, where the networks of
a committee leave out one part of the training rows each, all of these.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from viewgap.data.labels import Labels, SparseLabels
from viewgap.data.preprocessing import Preparation
from viewgap.data.splits import cross_fit_parts
from viewgap.data.viewset import ViewSet
from viewgap.errors import ViewgapWarning, parameter, remedy
from viewgap.methods.estimator.inputs import Validation
from viewgap.training.batches.index import BatchIndex
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.committee import Committee
from viewgap.training.cross_fit import Parts
from viewgap.training.divergence import divergence
from viewgap.training.fit_state import FitState
from viewgap.training.network import DeepNetwork
from viewgap.training.scores import choose_block_score, choose_score
from viewgap.training.settings import DeepSettings
from viewgap.training.steps.replay import Replay

FEWEST_ROWS_TO_HOLD_OUT = 20
_MORE = "More labelled samples"
Indices = Sequence[BatchIndex[Tensor]]


@dataclass(frozen=True)
class HeldOutRows:
    """`validation`: rows that no network is trained on. `parts`: rows that one network is not."""

    validation: Validation | None = None
    parts: Parts | None = None

    def __bool__(self) -> bool:
        return self.parts is not None or bool(self.validation and len(self.validation[0]))


# ---------------------------------------------------------------------- which rows they are


def leave_out_parts(views: ViewSet, labels: Labels, n_parts: int, seed: int) -> Parts:
    """Deal the labelled rows, the first ones of `views`, to `n_parts` networks."""
    n = len(labels)
    number = cross_fit_parts(views[:n], labels, n_parts, np.random.default_rng(seed))
    return Parts.of_rows(number, n_parts, views.observed)


def hold_out(
    views: ViewSet, n_labelled: int, share: float, seed: int, max_epochs: int
) -> NDArray[np.intp] | None:
    """Numbers of the labelled rows to set aside; None where all are needed for training."""
    count = math.ceil(n_labelled * share)
    if count == 0:
        return None
    if n_labelled < FEWEST_ROWS_TO_HOLD_OUT:
        reason = f"{n_labelled} labelled rows are fewer than {FEWEST_ROWS_TO_HOLD_OUT}"
        _warn_nothing_held_out(reason, max_epochs)
        return None
    held = np.sort(np.random.default_rng(seed).permutation(n_labelled)[:count])
    kept = np.setdiff1d(np.arange(len(views)), held)
    absent = ~views.observed[kept].any(axis=0)
    if absent.any():
        name = views.names[int(np.flatnonzero(absent)[0])]
        _warn_nothing_held_out(
            f"view {name!r} is observed in the rows to be held out only", max_epochs
        )
        return None
    return held


def _warn_nothing_held_out(reason: str, max_epochs: int) -> None:
    warnings.warn(
        f"early stopping is off: no rows are held out for validation, because {reason}; training "
        f"goes on for all {max_epochs} epochs. {remedy('Rows given as validation=(X, Y)', _MORE)} "
        "would tell when to stop",
        ViewgapWarning,
        stacklevel=6,
    )


# ---------------------------------------------------------------------- their score


def make_scorer(
    state: FitState,
    source: BatchSource,
    held_out: HeldOutRows,
    labels: Labels,
    settings: DeepSettings,
    preparation: Preparation,
) -> Callable[[], float] | None:
    """The score of the network as it is now on all held-out rows; None if they decide nothing.

    See `training.scores`. `source` and `labels`: the training rows.
    """
    if not held_out:
        return None
    known = join_labels(list(_labels_in_order(held_out, labels)))
    predict = _predictor(state, source, held_out, settings, preparation)

    def checked(answers: Tensor) -> NDArray[np.floating]:
        probabilities: NDArray[np.floating] = answers.cpu().numpy()
        if not np.isfinite(probabilities).all():
            raise divergence(state.epoch, "some probabilities are not finite")
        return probabilities

    if isinstance(known, SparseLabels):
        of_blocks = choose_block_score(known, settings.score_weights)
        if of_blocks is not None:
            return lambda: of_blocks(map(checked, predict()))
    else:
        measure = choose_score(known, settings.score_weights)
        if measure is not None:
            together = partial(_together, predict)
            replay = Replay(together, source.replay_device, state.generators)
            return lambda: measure(checked(replay()))
    _warn_no_score(settings.max_epochs)
    return None


def _together(predict: Callable[[], Iterator[Tensor]]) -> Tensor:
    return torch.cat(list(predict()))


def join_labels(parts: Sequence[Labels]) -> Labels:
    """The labels of several groups of rows, one after the other."""
    return parts[0].followed_by(parts[1:])


def _labels_in_order(held_out: HeldOutRows, labels: Labels) -> Iterator[Labels]:
    if held_out.parts is not None:
        for part in range(held_out.parts.count):
            yield labels[held_out.parts.left_out(part)]
    if held_out.validation is not None:
        yield held_out.validation[1]


def _predictor(
    state: FitState,
    source: BatchSource,
    held_out: HeldOutRows,
    settings: DeepSettings,
    preparation: Preparation,
) -> Callable[[], Iterator[Tensor]]:
    """What the networks say of the held-out rows, in the order of `_labels_in_order`."""
    network, layout = state.evaluated(), Layout(state.network.layout.rows)
    answers: list[Callable[[], Iterator[Tensor]]] = []
    if held_out.parts is not None and isinstance(network, Committee):
        for part in range(held_out.parts.count):
            rows = torch.from_numpy(held_out.parts.left_out(part))
            if len(rows):
                indices = source.batch_indices(rows.split(settings.batch_size), layout)
                answers.append(partial(_answers_by, network, part, source, indices))
    if held_out.validation is not None:
        held = BatchSource(*held_out.validation, preparation, source.runtime)
        answers.append(partial(_answers, network, held, settings.batch_size, layout))
    return lambda: (own for answer in answers for own in answer())


def _answers_by(
    network: Committee, part: int, source: BatchSource, indices: Indices
) -> Iterator[Tensor]:
    for batch in source.assembled(indices):
        yield network.predict_batch_by(part, batch)


def _answers(
    network: DeepNetwork, held: BatchSource, size: int, layout: Layout
) -> Iterator[Tensor]:
    for batch in held.in_order(size, layout):
        yield network.predict_batch(batch)


def _warn_no_score(max_epochs: int) -> None:
    warnings.warn(
        "early stopping is off: no label is observed with both values, 0 and 1, in the validation "
        f"rows, so that they have no score; training goes on for all {max_epochs} epochs. Pass "
        f"validation rows with both, or set {parameter('max_epochs')}",
        ViewgapWarning,
        stacklevel=6,
    )
