"""Prediction: one row at a time, and many."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import torch

import viewgap
from benchmarks import scsd_reference
from benchmarks._step import few_steps
from benchmarks.data import (
    COREL5K,
    TINY,
    Shape,
    dense_tensors,
    make_model,
    random_data,
    synthetic_data,
)
from benchmarks.machine import reference_precision, seconds_per_call, wait_for
from benchmarks.record import Context, Figure, Measured

BATCH = 128
# `profile="paper"` answers batch by batch, as released: nothing here is about it.
NAMES = ("default", "bare_network")


@lru_cache(maxsize=2)
def small_model(context: Context, name: str) -> viewgap.SCSD:
    views, Y = synthetic_data(600, 3)
    return make_model(name, context.device, max_epochs=2).fit(views, Y)


def naive_model(model: viewgap.SCSD) -> scsd_reference.Model:
    """The reference with the weights of a fitted model."""
    weights = {k: v.detach().clone() for k, v in model.network_.state_dict().items()}
    labels = len(model.label_names_)
    return scsd_reference.from_weights(model.view_dims_, labels, model.settings_, weights).eval()


def naive_rows_per_second(model: viewgap.SCSD, views: viewgap.ViewSet, device: str) -> float:
    """The naive forward pass, dense rows, one batch at a time; without scaling or checks."""
    network = naive_model(model)
    tensors, observed = dense_tensors(views, device)

    def predict() -> None:
        for start in range(0, len(views), BATCH):
            rows = slice(start, start + BATCH)
            network.predict([x[rows] for x in tensors], observed[rows]).cpu()

    with torch.inference_mode(), reference_precision(device):
        return len(views) / seconds_per_call(predict, device, rounds=3, warm_up=1)


def p99_milliseconds(call: Callable[[int], object], calls: int, device: str) -> float:
    times = []
    for number in range(calls + 20):
        start = time.perf_counter()
        call(number)
        wait_for(device)
        times.append(time.perf_counter() - start)
    return 1e3 * float(np.quantile(times[20:], 0.99))


def measure_one_row(context: Context, name: str) -> Measured:
    """The slowest but one in a hundred of 300 single rows; each as a dict of fresh arrays."""
    model, calls = small_model(context, name), 30 if context.quick else 300
    views, _ = synthetic_data(600, 3)
    table = {view: views.rows(view) for view in views.names}
    for v, view in enumerate(views.names):
        table[view][~views.observed[:, v]] = np.nan
    rows = [{view: x[i : i + 1] for view, x in table.items()} for i in range(600)]
    value = p99_milliseconds(lambda i: model.predict_proba(rows[i % 600]), calls, context.device)
    network = naive_model(model)
    tensors, observed = dense_tensors(views, context.device)

    def naive(i: int) -> None:
        network.predict([x[i % 600 : i % 600 + 1] for x in tensors], observed[i % 600][None])

    with torch.inference_mode(), reference_precision(context.device):
        return Measured(value, p99_milliseconds(naive, calls, context.device))


def measure_small(context: Context, name: str) -> Measured:
    model = small_model(context, name)
    views, _ = synthetic_data(500 if context.quick else 20_000, 3)
    seconds = seconds_per_call(
        lambda: model.predict_proba(views), context.device, rounds=3, warm_up=1
    )
    return Measured(len(views) / seconds, naive_rows_per_second(model, views, context.device))


def measure_shape(context: Context, name: str, shape: Shape, rows: int) -> Measured:
    """One epoch gives the weights the shapes of a long fit, and that is all that counts.

    All rows of the data set are fitted, since the size of the default model follows from them.
    """
    shape = TINY if context.quick else shape
    views, _ = random_data(replace(shape, n=shape.n if context.quick else rows))
    X, Y = random_data(shape, seed=5)
    model = make_model(name, context.device, shape, max_epochs=1)
    with nullcontext() if context.device == "cuda" else few_steps(2):
        model.fit(X, Y)
    seconds = seconds_per_call(
        lambda: model.predict_proba(views), context.device, rounds=3, warm_up=1
    )
    naive = naive_rows_per_second(model, views[: 4 * BATCH], context.device)
    return Measured(len(views) / seconds, naive)


def measure_six_views(context: Context, name: str) -> Measured:
    """The columns of MultiDigits."""
    return measure_shape(context, name, Shape(2000, (256, 128, 120, 94, 295, 45), 10), 20_000)


def measure_two_views(context: Context, name: str) -> Measured:
    """The columns of the data set "emotions"."""
    return measure_shape(context, name, Shape(593, (64, 8), 6), 40_000)


def measure_corel5k(context: Context, name: str) -> Measured:
    return measure_shape(context, name, COREL5K, 3500 if context.device == "cuda" else 1750)


RATES = {
    "small": (measure_small, 50_000.0),
    "six_views": (measure_six_views, 50_000.0),
    "two_views": (measure_two_views, 50_000.0),
    "corel5k": (measure_corel5k, 2000.0),
}
FIGURES = [
    *(
        Figure(
            f"predict_one_row_p99_{name}",
            "ms",
            partial(measure_one_row, name=name),
            {"cpu": 5.0, "cuda": 5.0},
        )
        for name in NAMES
    ),
    *(
        Figure(
            f"predict_rows_per_second_{shape}_{name}",
            "rows/s",
            partial(measure, name=name),
            {"cpu": goal, "cuda": goal},
        )
        for name in NAMES
        for shape, (measure, goal) in RATES.items()
    ),
]
