"""The least a training step at Corel5k shapes can cost, from arithmetic and memory traffic."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from benchmarks.data import COREL5K

HIDDEN, EMBEDDING, BATCH = (2048, 1024, 512), 512, 128
OBSERVED, SHOWN = 0.5, 0.35  # of the views; shown: what view dropout (0.3) leaves of them


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


def parameters() -> tuple[int, int]:
    """Weights of all encoders (as many as of all decoders), and of all classifiers."""
    encoders = sum(a * b for d in COREL5K.dims for a, b in pairwise((d, *HIDDEN, EMBEDDING)))
    return encoders, len(COREL5K.dims) * EMBEDDING * COREL5K.labels


def work(profile: str) -> Work:
    """The step of a profile, with every row computed that can make a difference, once.

    `dense`: all rows and all pairs of views. `observed`: observed rows, pairs observed on both
    sides. `default`: the same after view dropout. `paper`: its statistics also count missing rows,
    but these are all equal, so that one of them stands for all; a row whose target is missing
    still counts in the decoder.
    """
    m = len(COREL5K.dims)
    rows, pairs = {
        "dense": (1.0, 1.0),
        "observed": (OBSERVED, ((m - 1) * OBSERVED**2 + OBSERVED) / m),
        "default": (SHOWN, ((m - 1) * SHOWN * OBSERVED + SHOWN) / m),
        "paper": (OBSERVED, OBSERVED),
    }[profile]
    encoders, classifiers = parameters()
    # Forward, gradient of the weights, gradient of the inputs: two operations per weight each.
    each = 6 * BATCH
    operations = each * (rows * (encoders + classifiers) + pairs * m * encoders)
    # Weights: read forward and backward. Gradients: written, read for their norm. AdamW: reads
    # weight, gradient and two moments, writes three. Averaged weights: read and written.
    passes = 2 + 2 + 7 + (2 if profile == "default" else 0)
    return Work(operations, 4.0 * passes * (2 * encoders + classifiers))


def as_markdown(entries: Sequence[dict[str, Any]]) -> str:
    """Floor, measured, gap, for every kept step."""
    lines = ["| figure | machine | floor | measured | gap |", "|---|---|---:|---:|---:|"]
    for entry in entries:
        profile = entry["name"].removeprefix("scsd_step_")
        if profile == entry["name"] or entry["machine"] not in RATES:
            continue
        floor = 1e3 * work(profile).seconds(RATES[entry["machine"]])
        measured = entry["value"]
        lines.append(
            f"| {entry['name']} | {entry['machine']} | {floor:.3g} ms | {measured:.4g} ms "
            f"| {measured / floor:.1f} times |"
        )
    return "\n".join(lines)
