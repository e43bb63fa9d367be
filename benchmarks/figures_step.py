"""One training step of SCSD, and what a whole epoch of them takes."""

from __future__ import annotations

import math
import statistics
import time
from functools import lru_cache, partial

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
    synthetic_data,
)
from benchmarks.machine import reference_precision, seconds_per_call
from benchmarks.record import Context, Figure, Measured

# Set for one network in batches of 128; the default trains three, in batches of 256.
STEP_TARGETS = {"paper": {"cuda": 2.0, "cpu": 400.0}, "bare_network": {"cuda": 2.0, "cpu": 400.0}}
EPOCH_TARGETS = {
    (name, validate): {"cuda": 0.12 if validate else 0.08}
    for name in STEP_TARGETS
    for validate in (False, True)
}
VALIDATION_ROWS = 750
SMALL_FITS = tuple((n, m) for n in (500, 1000, 3000) for m in (2, 8))


def library_seconds(step: LibraryStep, context: Context) -> float:
    # A fit takes thousands of steps; in its first ones products are compiled for their shapes.
    warm_up = 3 if context.quick or context.device == "cuda" else 30
    seconds = seconds_per_call(step, context.device, rounds=15, warm_up=warm_up)
    return seconds / step.per_call


def naive_seconds(step: LibraryStep, views: viewgap.ViewSet, Y: object, context: Context) -> float:
    """Seconds of the naive step with the weights and settings of `step`."""
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
def step_seconds(context: Context, shape: Shape, name: str) -> tuple[float, float]:
    """Library and reference, measured one right after the other."""
    views, Y = random_data(shape)
    step = LibraryStep(whole(name, context, shape), views, Y)
    return library_seconds(step, context), naive_seconds(step, views, Y, context)


def whole(name: str, context: Context, shape: Shape, **params: object) -> viewgap.SCSD:
    """The model, with no rows held out: all of them are trained on."""
    return make_model(name, context.device, shape, validation_fraction=0.0, **params)


def measure_step(context: Context, name: str) -> Measured:
    library, naive = step_seconds(context, corel5k(context), name)
    return Measured(1e3 * library, 1e3 * naive)


def measure_epoch(context: Context, name: str, validate: bool) -> Measured:
    """Seconds between the ends of two epochs of a real fit; the first epoch only warms up."""
    shape = corel5k(context)
    views, Y = random_data(shape)
    held = Shape(VALIDATION_ROWS * shape.n // 3500, shape.dims, shape.labels)
    validation = random_data(held, seed=7) if validate else None
    epochs = 12 if context.device == "cuda" else 2
    ends = EpochEnds()
    model = whole(name, context, shape, max_epochs=epochs, callbacks=[ends])
    model.fit(views, Y, validation=validation)
    naive = step_seconds(context, shape, name)[1]
    steps = math.ceil(shape.n / model.settings_.batch_size)
    return Measured(statistics.median(np.diff(ends.times)), steps * naive)


def measure_small_fit(context: Context, n: int, n_views: int) -> Measured:
    """A whole fit as a user starts it, early stopping included."""
    n = n // 10 if context.quick else n
    views, Y = synthetic_data(n, n_views)
    epochs = 2 if context.quick else None
    model = make_model("default", context.device, max_epochs=epochs)
    start = time.perf_counter()
    model.fit(views, Y)
    seconds = time.perf_counter() - start
    trained = n - math.ceil(n * model.validation_fraction)
    steps = model.n_epochs_ * math.ceil(trained / model.settings_.batch_size)
    step = LibraryStep(make_model("default", context.device), views, Y)
    step()  # starts the codebooks
    return Measured(seconds, steps * naive_seconds(step, views, Y, context))


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
    *(
        Figure(
            f"fit_small_{n}_samples_{m}_views",
            "s",
            partial(measure_small_fit, n=n, n_views=m),
            {"cpu": 10.0, "cuda": 10.0},
        )
        for n, m in SMALL_FITS
    ),
]
