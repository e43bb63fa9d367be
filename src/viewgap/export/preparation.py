"""Masks, missing cells, counts, ranks and scaling as nodes: `data/preprocessing` in a graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from viewgap.data.preprocessing import Preparation, Standardiser
from viewgap.data.preprocessing.features import Counts, Ranks
from viewgap.data.rows.values import LARGEST
from viewgap.errors import SettingError
from viewgap.export.graph import Graph

_SMALL = 1e-4  # log1p by its series below
_DEGREE = 24
_CENTRE = 0.425  # distance from one half, beyond which the quantile is computed from its logarithm


@dataclass(frozen=True)
class ViewInput:
    """Values of one view with zeros for what is missing.

    `values` (b, d) float32, `gaps` (b, d): cells that are missing in observed rows, `observed`
    (b,), `refused` (b,): rows that the library would refuse.
    """

    values: str
    gaps: str
    observed: str
    refused: str


def read_view(graph: Graph, values: str, mask: str, nan: str) -> ViewInput:
    """Apply the mask and the model's rule for NaN; a row of NaN alone is a missing view."""
    zero = graph.constant(0.0, np.float32)
    missing = graph.add("IsNaN", values)
    some = graph.any_of(missing)
    full = graph.add("Not", graph.any_of(graph.add("Not", missing)))
    observed = graph.add("And", mask, graph.add("Not", full))
    if nan == "missing_view":
        observed = graph.add("And", observed, graph.add("Not", some))
    there = graph.column(observed)
    gaps = graph.add("And", missing, there)
    usable = graph.add("And", there, graph.add("Not", missing))
    kept = graph.add("Where", usable, values, zero)
    limit = graph.constant(LARGEST, np.float32)
    refused = graph.any_of(graph.add("Greater", graph.add("Abs", kept), limit))
    if nan == "error":
        refused = graph.add("Or", refused, graph.add("And", observed, some))
    # What is refused answers NaN; nothing after this may overflow because of it.
    kept = graph.add("Where", graph.column(refused), zero, kept)
    return ViewInput(kept, gaps, observed, refused)


def prepare(
    graph: Graph, view: int, rows: ViewInput, preparation: Preparation, dtype: Any = np.float32
) -> str:
    """Prepared rows of one view (b, d), zero where the view is missing."""
    zero = graph.constant(0.0, dtype)
    if not isinstance(preparation, Standardiser):
        values = graph.cast(rows.values, dtype)
        if preparation.mean is None:
            raise SettingError(
                "this model was saved by a version of viewgap that kept no column means to fill "
                "missing values with; fit it again to export it"
            )
        return graph.add("Where", rows.gaps, graph.constant(preparation.mean[view], dtype), values)
    features = preparation.features[view]
    if isinstance(features, Counts):
        values = graph.cast(_counts(graph, rows.values), dtype)
    elif isinstance(features, Ranks):
        values = graph.cast(_ranks(graph, rows.values, features), dtype)
    else:
        values = graph.cast(rows.values, dtype)
    centred = graph.add("Sub", values, graph.constant(preparation.mean[view], dtype))
    scaled = graph.add("Mul", centred, graph.constant(preparation.scale[view], dtype))
    gone = graph.add("Or", rows.gaps, graph.add("Not", graph.column(rows.observed)))
    return graph.add("Where", gone, zero, scaled)


def _counts(graph: Graph, values: str) -> str:
    """log1p of what is above 0, divided by the length of the row, in float64."""
    x = graph.add("Max", graph.cast(values, np.float64), graph.constant(0.0, np.float64))
    logs = graph.add("Log", graph.add("Add", x, graph.constant(1.0, np.float64)))
    series = _polynomial(graph, x, [0.0, 1.0, -0.5, 1 / 3])
    small = graph.add("Less", x, graph.constant(_SMALL, np.float64))
    logs = graph.add("Where", small, series, logs)
    squares = graph.add(
        "ReduceSum", graph.add("Mul", logs, logs), graph.constant([1], np.int64), keepdims=1
    )
    length = graph.add("Sqrt", squares)
    empty = graph.add("Equal", squares, graph.constant(0.0, np.float64))
    length = graph.add("Where", empty, graph.constant(1.0, np.float64), length)
    return graph.add("Div", logs, length)


def _ranks(graph: Graph, x: str, ranks: Ranks) -> str:
    """Normal quantiles of values by the knots of their columns, in float64: `Ranks._quantiles`."""
    table = graph.constant(ranks._table, np.float32)
    shares = graph.constant(ranks._shares, np.float64)
    one = graph.constant(1, np.int64)
    start = graph.constant(np.arange(len(ranks.knots)) * ranks._stride, np.int64)
    position, step = (
        graph.add(
            "Add", graph.cast(graph.add("Mul", x, graph.constant(0.0, np.float32)), np.int64), start
        ),
        ranks._half,
    )
    while step:
        ahead = graph.add(
            "Gather", table, graph.add("Add", position, graph.constant(step, np.int64))
        )
        moves = graph.cast(graph.add("LessOrEqual", ahead, x), np.int64)
        position = graph.add(
            "Add", position, graph.add("Mul", moves, graph.constant(step, np.int64))
        )
        step >>= 1
    near = graph.add("Gather", table, position)
    below = graph.cast(near, np.float64)
    above = graph.cast(graph.add("Gather", table, graph.add("Add", position, one)), np.float64)
    gap = graph.add("Sub", above, below)
    zero, unit = graph.constant(0.0, np.float64), graph.constant(1.0, np.float64)
    gap = graph.add("Where", graph.add("Equal", gap, zero), unit, gap)
    fraction = graph.add("Div", graph.add("Sub", graph.cast(x, np.float64), below), gap)
    fraction = graph.add("Clip", fraction, zero, unit)
    knot = graph.add("Sub", position, start)
    low = graph.add("Gather", shares, knot)
    high = graph.add("Gather", shares, graph.add("Add", knot, one))
    share = graph.add("Add", low, graph.add("Mul", fraction, graph.add("Sub", high, low)))
    first = graph.add("Gather", graph.constant(ranks._first, np.int64), position)
    middle = graph.add("Add", low, graph.add("Gather", shares, first))
    middle = graph.add("Mul", middle, graph.constant(0.5, np.float64))
    share = graph.add("Where", graph.add("Equal", x, near), middle, share)
    share = graph.add(
        "Where", graph.constant(ranks._constant, np.bool_), graph.constant(0.5, np.float64), share
    )
    return _normal_quantile(graph, share, float(ranks._shares[0]))


def _normal_quantile(graph: Graph, share: str, lowest: float) -> str:
    """The inverse of the standard normal distribution function for shares from `lowest` up.

    ONNX has no such operator: polynomials that interpolate it at Chebyshev nodes, one around one
    half and one, in the root of the logarithm, for the tails. Their error is below 1e-9.
    """
    half = graph.constant(0.5, np.float64)
    away = graph.add("Sub", share, half)
    square = graph.add("Mul", away, away)
    centre = _interpolated(
        graph, square, (0.0, _CENTRE**2), lambda s: _ratio_to_quantile(np.sqrt(s))
    )
    centre = graph.add("Mul", centre, away)
    tail = graph.add("Sub", half, graph.add("Abs", away))
    edge = 0.5 - _CENTRE
    ends = (float(np.sqrt(-np.log(edge))), float(np.sqrt(-np.log(min(lowest, edge / 2)))))
    root = graph.add("Sqrt", graph.add("Neg", graph.add("Log", tail)))
    size = _interpolated(graph, root, ends, lambda r: -ndtri(np.exp(-np.square(r))))
    outer = graph.add("Mul", size, graph.add("Sign", away))
    is_tail = graph.add("Less", tail, graph.constant(edge, np.float64))
    return graph.add("Where", is_tail, outer, centre)


def _ratio_to_quantile(distance: Any) -> Any:
    safe = np.maximum(distance, 1e-9)
    return ndtri(0.5 + safe) / safe


def _interpolated(graph: Graph, x: str, ends: tuple[float, float], function: Any) -> str:
    """A function between two ends by its Chebyshev interpolation (Clenshaw's sum)."""
    low, high = ends
    found = np.polynomial.Chebyshev.interpolate(function, _DEGREE, domain=[low, high])
    scale, offset = 2 / (high - low), -(high + low) / (high - low)
    t = graph.add("Mul", x, graph.constant(scale, np.float64))
    t = graph.add("Add", t, graph.constant(offset, np.float64))
    twice = graph.add("Mul", t, graph.constant(2.0, np.float64))
    following, last = graph.constant(0.0, np.float64), graph.constant(0.0, np.float64)
    for coefficient in found.coef[:0:-1]:
        ahead = graph.add("Sub", graph.add("Mul", twice, following), last)
        last, following = (
            following,
            graph.add("Add", ahead, graph.constant(coefficient, np.float64)),
        )
    ahead = graph.add("Sub", graph.add("Mul", t, following), last)
    return graph.add("Add", ahead, graph.constant(found.coef[0], np.float64))


def _polynomial(graph: Graph, x: str, coefficients: list[float]) -> str:
    result = graph.constant(coefficients[-1], np.float64)
    for coefficient in coefficients[-2::-1]:
        result = graph.add(
            "Add", graph.add("Mul", result, x), graph.constant(coefficient, np.float64)
        )
    return result
