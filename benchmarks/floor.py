"""The least a training step at Corel5k shapes can cost, from arithmetic and memory traffic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data import COREL5K, make_model
from viewgap.methods.profiled import DataSize
from viewgap.methods.scsd.settings import SCSDSettings
from viewgap.training.cross_fit import Parts

OBSERVED = 0.5  # of the views and of the labels


class Rates(NamedTuple):
    """What a machine can do: multiply (operations/s) and move memory (bytes/s)."""

    operations: float
    bytes: float


# bfloat16 products by the data sheet and copies as measured; on the CPU both as measured.
RATES = {
    "NVIDIA H200": Rates(989e12, 4.25e12),
    "2 cores, AMD EPYC (avx512_bf16)": Rates(400e9, 35e9),
}


class Work(NamedTuple):
    """Operations and bytes of one step."""

    operations: float
    bytes: float

    def seconds(self, rates: Rates) -> float:
        """Both one after the other: the update must wait for the norm of all gradients."""
        return self.operations / rates.operations + self.bytes / rates.bytes


def settings_of(name: str) -> SCSDSettings:
    """What a model resolves to at Corel5k shapes."""
    cells = int(COREL5K.n * COREL5K.labels * OBSERVED)
    size = DataSize(COREL5K.n, cells)
    settings: SCSDSettings = make_model(name, "cpu")._resolve(COREL5K.labels, size)
    return settings


class Weights(NamedTuple):
    """How many weights one network has in its encoders, decoders and classifiers."""

    encoders: int
    decoders: int
    classifiers: int


def weights(settings: SCSDSettings) -> Weights:
    """Those of one network at Corel5k shapes."""
    size = settings.embedding
    layers = (*settings.hidden, size)
    encoders = sum(a * b for d in COREL5K.dims for a, b in pairwise((d, *layers)))
    linear = settings.decoder == "linear"
    decoders = sum(size * d for d in COREL5K.dims) if linear else encoders
    return Weights(encoders, decoders, len(COREL5K.dims) * size * COREL5K.labels)


def rows_per_step(settings: SCSDSettings) -> float:
    """Rows that one network has in a step; cross-fitted ones have about as many as asked for."""
    if not settings.cross_fit:
        return settings.batch_size
    parts = Parts(np.arange(COREL5K.n) % settings.n_networks, settings.n_networks)
    batches = [len(rows) for own in parts.batches(settings.batch_size, None) for rows in own]
    return sum(batches) / len(batches)


def shares(settings: SCSDSettings) -> tuple[float, float]:
    """Of all rows of views and of all pairs of views, those that have to be computed.

    Observed rows that view dropout leaves, and pairs of one of them and an observed target, or one
    such pair for every observed target. Where the statistics count missing rows too, these are all
    equal, so that one of them stands for all; a row whose target is missing still counts in the
    decoder.
    """
    if settings.norm_rows == "all":
        return OBSERVED, OBSERVED
    m, shown = len(COREL5K.dims), OBSERVED * (1 - settings.view_dropout)
    if settings.pairs == "sampled":
        return shown, OBSERVED / m
    return shown, ((m - 1) * shown * OBSERVED + shown) / m


def work(settings: SCSDSettings, rows: float, pairs: float) -> Work:
    """A step of all networks, given the shares of rows and pairs that are computed."""
    m, own = len(COREL5K.dims), weights(settings)
    # Forward, gradient of the weights, gradient of the inputs: two operations per weight each.
    each = 6 * rows_per_step(settings) * settings.n_networks
    operations = each * (rows * (own.encoders + own.classifiers) + pairs * m * own.decoders)
    # Weights: read forward and backward. Gradients: written, read for their norm. AdamW: reads
    # weight, gradient and two moments, writes three. Averaged weights: read and written.
    passes = 2 + 2 + 7 + (2 if settings.ema_decay > 0 else 0)
    return Work(operations, 4.0 * passes * settings.n_networks * sum(own))


def as_markdown(entries: Sequence[dict[str, Any]]) -> str:
    """Floor, measured, gap, for every kept step of a model as it is now."""
    lines = ["| figure | machine | floor | measured | gap |", "|---|---|---:|---:|---:|"]
    for entry in entries:
        name = entry["name"].removeprefix("scsd_step_")
        is_step = name != entry["name"]
        if not is_step or "note" in entry or entry["machine"] not in RATES:
            continue
        settings = settings_of(name)
        floor = 1e3 * work(settings, *shares(settings)).seconds(RATES[entry["machine"]])
        measured = entry["value"]
        lines.append(
            f"| {entry['name']} | {entry['machine']} | {floor:.3g} ms | {measured:.4g} ms "
            f"| {measured / floor:.1f} times |"
        )
    return "\n".join(lines)
