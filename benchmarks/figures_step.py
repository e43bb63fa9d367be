"""One training step of SCSD, and what an epoch of them takes."""

from __future__ import annotations

import statistics
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

import viewgap
from benchmarks._step import EpochEnds, LibraryStep
from benchmarks.data import (
    MODELS,
    Shape,
    corel5k,
    make_model,
    naive_training,
    random_data,
)
from benchmarks.machine import reference_precision, seconds_per_call
from benchmarks.record import Context, Figure, Measured

# Set for one network in batches of 128; the default trains five, in batches of 256.
STEP_TARGETS = {"paper": {"cuda": 2.0, "cpu": 400.0}, "bare_network": {"cuda": 2.0, "cpu": 400.0}}
EPOCH_TARGETS = {
    (name, validate): {"cuda": 0.12 if validate else 0.08}
    for name in STEP_TARGETS
    for validate in (False, True)
}
VALIDATION_ROWS = 750


class StepSeconds(NamedTuple):
    """What a step takes in the library and in the reference, and how many an epoch has."""

    library: float
    naive: float
    per_epoch: int


def library_seconds(step: LibraryStep, context: Context) -> float:
    # A fit takes thousands of steps; in its first ones products are compiled for their shapes.
    warm_up = 3 if context.quick or context.device == "cuda" else 30
    seconds = seconds_per_call(step, context.device, rounds=15, warm_up=warm_up)
    return seconds / step.per_call


def naive_seconds(step: LibraryStep, views: viewgap.ViewSet, Y: object, context: Context) -> float:
    """Seconds of the naive step with the weights and settings of `step`.

    It decodes every view from all visible ones, also where the library draws one of them; and its
    networks share a batch, as large as those that cross-fitted networks have each.
    """
    naive = naive_training(views, Y, step.settings, step.weights(), context.device)
    on_gpu = context.device == "cuda"
    with reference_precision(context.device):
        return seconds_per_call(
            naive.step,
            context.device,
            rounds=5 if on_gpu else 3,
            per_round=5 if on_gpu else 1,
            warm_up=3 if on_gpu else 1,
        )


@lru_cache
def step_seconds(context: Context, shape: Shape, name: str) -> StepSeconds:
    """Library and reference, measured one right after the other."""
    views, Y = random_data(shape)
    step = LibraryStep(whole(name, context, shape), views, Y)
    library = library_seconds(step, context)
    return StepSeconds(library, naive_seconds(step, views, Y, context), step.per_epoch)


def whole(name: str, context: Context, shape: Shape, **params: object) -> viewgap.SCSD:
    """The model, with no rows held out: all of them are trained on.

    Cross-fitting holds out nothing, and 0 would switch it off.
    """
    model = make_model(name, context.device, shape, **params)
    cross_fits = model._resolve(shape.labels).cross_fit
    return model if cross_fits else model.set_params(validation_fraction=0.0)


def measure_step(context: Context, name: str) -> Measured:
    step = step_seconds(context, corel5k(context), name)
    return Measured(1e3 * step.library, 1e3 * step.naive)


def measure_epoch(context: Context, name: str, validate: bool) -> Measured:
    """Seconds between the ends of two epochs of a real fit; the first epoch only warms up.

    Cross-fitted networks are scored on the rows that they leave out, in both figures.
    """
    shape = corel5k(context)
    views, Y = random_data(shape)
    held = Shape(VALIDATION_ROWS * shape.n // 3500, shape.dims, shape.labels)
    validation = random_data(held, seed=7) if validate else None
    epochs = 12 if context.device == "cuda" else 2
    ends = EpochEnds()
    model = whole(name, context, shape, max_epochs=epochs, callbacks=[ends])
    model.fit(views, Y, validation=validation)
    step = step_seconds(context, shape, name)
    return Measured(statistics.median(np.diff(ends.times)), step.per_epoch * step.naive)


FIGURES = [
    *(
        Figure(
            f"scsd_step_{name}",
            "ms",
            partial(measure_step, name=name),
            STEP_TARGETS.get(name, {}),
            {"cpu": 5.0},
        )
        for name in MODELS
    ),
    *(
        Figure(
            f"scsd_epoch{'_with_validation' * validate}_{name}",
            "s",
            partial(measure_epoch, name=name, validate=validate),
            EPOCH_TARGETS.get((name, validate), {}),
            # On two cores a paper epoch is the dense step 28 times over: nothing new to see.
            devices=("cuda",) if name == "paper" else ("cpu", "cuda"),
        )
        for name in MODELS
        for validate in (False, True)
    ),
]
