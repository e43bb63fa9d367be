"""One training step of SCSD, and what a whole epoch of them takes."""

from __future__ import annotations

import math
import statistics
import time
from functools import lru_cache, partial

import numpy as np

import viewgap
from benchmarks._step import LibraryStep, epoch_ends, library_step
from benchmarks.data import ONE_NETWORK, Shape, corel5k, naive_training, random_data, synthetic_data
from benchmarks.machine import reference_precision, seconds_per_call
from benchmarks.record import Context, Figure, Measured

PROFILES = ("paper", "default")
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
def step_seconds(context: Context, shape: Shape, profile: str) -> tuple[float, float]:
    """Library and reference, measured one right after the other."""
    views, Y = random_data(shape)
    step = library_step(views, Y, profile, context.device, **shape.params(profile))
    return library_seconds(step, context), naive_seconds(step, views, Y, context)


def measure_step(context: Context, profile: str) -> Measured:
    library, naive = step_seconds(context, corel5k(context), profile)
    return Measured(1e3 * library, 1e3 * naive)


def measure_epoch(context: Context, profile: str, validate: bool) -> Measured:
    """Seconds between the ends of two epochs of a real fit; the first epoch only warms up."""
    shape = corel5k(context)
    views, Y = random_data(shape)
    held = Shape(VALIDATION_ROWS * shape.n // 3500, shape.dims, shape.labels)
    validation = random_data(held, seed=7) if validate else None
    epochs = 12 if context.device == "cuda" else 2
    model = viewgap.SCSD(
        profile=profile,
        device=context.device,
        random_state=0,
        max_epochs=epochs,
        validation_fraction=0.0,
        **shape.params(profile),
    )
    with epoch_ends() as ends:
        model.fit(views, Y, validation=validation)
    naive = step_seconds(context, shape, profile)[1]
    steps = math.ceil(shape.n / model.settings_.batch_size)
    return Measured(statistics.median(np.diff(ends)), steps * naive)


def measure_small_fit(context: Context, n: int, n_views: int) -> Measured:
    """A whole fit as a user starts it, early stopping included."""
    n = n // 10 if context.quick else n
    views, Y = synthetic_data(n, n_views)
    epochs = 2 if context.quick else None
    model = viewgap.SCSD(device=context.device, random_state=0, max_epochs=epochs)
    start = time.perf_counter()
    model.fit(views, Y)
    seconds = time.perf_counter() - start
    trained = n - math.ceil(n * model.validation_fraction)
    steps = model.n_epochs_ * math.ceil(trained / model.settings_.batch_size)
    steps *= model.settings_.members
    step = library_step(views, Y, "default", context.device, **ONE_NETWORK)
    step()  # starts the codebook
    return Measured(seconds, steps * naive_seconds(step, views, Y, context))


FIGURES = [
    *(
        Figure(
            f"scsd_step_{profile}",
            "ms",
            partial(measure_step, profile=profile),
            {"cuda": 2.0, "cpu": 400.0},
            {"cpu": 5.0},
        )
        for profile in PROFILES
    ),
    *(
        Figure(
            f"scsd_epoch{'_with_validation' * validate}_{profile}",
            "s",
            partial(measure_epoch, profile=profile, validate=validate),
            {"cuda": 0.12 if validate else 0.08},
            # On two cores a paper epoch is the dense step 28 times over: nothing new to see.
            devices=("cpu", "cuda") if profile == "default" else ("cuda",),
        )
        for profile in PROFILES
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
