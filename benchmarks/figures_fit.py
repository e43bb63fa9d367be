"""Whole fits of `SCSD()` on data with few labels, as a user starts them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import viewgap
from benchmarks._step import LibraryStep
from benchmarks.data import Shape, learnable_counts, learnable_data, make_model, synthetic_data
from benchmarks.figures_step import naive_seconds
from benchmarks.record import Context, Figure, Measured

SMALL_FITS = tuple((n, m) for n in (500, 1000, 3000) for m in (2, 8))


class Like(NamedTuple):
    """Data of the shape of a real data set, and how many seconds its fit may take on a CPU."""

    shape: Shape
    make: Callable[[Shape], Any]
    goal: float


LIKE = {
    "emotions": Like(Shape(415, (8, 64), 6), learnable_data, 8.0),
    "3sources": Like(Shape(292, (3400,) * 3, 6), learnable_counts, 15.0),
    "multidigits": Like(Shape(3500, (256, 128, 120, 94, 295, 45), 10), learnable_data, 30.0),
    "multiomics": Like(Shape(500, (20_000, 20_000, 200), 10), learnable_data, 60.0),
}


def timed_fit(context: Context, views: viewgap.ViewSet, Y: Any) -> tuple[float, viewgap.SCSD]:
    """Seconds of a fit, and the fitted model."""
    model = make_model("default", context.device, max_epochs=2 if context.quick else None)
    start = time.perf_counter()
    model.fit(views, Y)
    return time.perf_counter() - start, model


def measure_small_fit(context: Context, n: int, n_views: int) -> Measured:
    """Beside as many naive steps as the fit took."""
    views, Y = synthetic_data(n // 10 if context.quick else n, n_views)
    seconds, model = timed_fit(context, views, Y)
    step = LibraryStep(make_model("default", context.device), views, Y)
    step()  # starts the codebooks
    steps = model.n_epochs_ * step.per_epoch
    return Measured(seconds, steps * naive_seconds(step, views, Y, context))


def measure_like(context: Context, name: str) -> Measured:
    """Seconds alone: what they are to be compared with is the patience of a user."""
    like = LIKE[name]
    shape = like.shape
    if context.quick:
        shape = replace(shape, n=60, dims=tuple(min(d, 20) for d in shape.dims))
    return Measured(timed_fit(context, *like.make(shape))[0])


FIGURES = [
    *(
        Figure(
            f"fit_small_{n}_samples_{m}_views",
            "s",
            partial(measure_small_fit, n=n, n_views=m),
            {"cpu": 10.0, "cuda": 10.0},
        )
        for n, m in SMALL_FITS
    ),
    *(
        Figure(f"fit_like_{name}", "s", partial(measure_like, name=name), {"cpu": like.goal})
        for name, like in LIKE.items()
    ),
]
