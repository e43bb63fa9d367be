"""The metrics, against loops."""

from __future__ import annotations

import numpy as np

from benchmarks.metrics_speed import compare
from benchmarks.record import Context, Figure, Measured


def measure_metrics(context: Context) -> Measured:
    """All six metrics of 3,750 samples and 300 labels."""
    n, c = (60, 12) if context.quick else (3750, 300)
    rng = np.random.default_rng(0)
    loops, ours = compare((rng.random((n, c)) < 4.7 / c).astype(float), rng.random((n, c)))
    return Measured(ours, loops)


FIGURES = [Figure("metrics_3750x300", "s", measure_metrics, {"cpu": 0.15}, devices=("cpu",))]
