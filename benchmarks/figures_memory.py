"""How much memory a fit needs, and how time and memory grow with the data."""

from __future__ import annotations

import tempfile
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from benchmarks._probe import MANY_LABELS
from benchmarks.data import MIRFLICKR, TINY
from benchmarks.figures_step import step_seconds
from benchmarks.machine import GB, probe
from benchmarks.record import Context, Figure, Measured

GROWTH_ROWS = (2000, 8000, 32_000, 64_000)
NAMES = ("default", "bare_network")


def measure_host_corel5k(context: Context, name: str) -> Measured:
    return _above_baseline(probe(context, "fit_host", name))


def measure_host_mirflickr(context: Context, name: str) -> Measured:
    """Views in files of a temporary folder, read as memory maps."""
    shape = TINY if context.quick else MIRFLICKR
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for v, d in enumerate(shape.dims):
            view = rng.standard_normal((shape.n, d), dtype=np.float32)
            np.save(Path(folder) / f"view{v}.npy", view)
        (Path(folder) / "labels").write_text(str(shape.labels), encoding="ascii")
        return _above_baseline(probe(context, "fit_host", name, folder))


def _above_baseline(found: dict[str, int]) -> Measured:
    """Peak without interpreter and torch, and what the fit cannot do without."""
    return Measured(
        (found["peak"] - found["baseline"]) / GB, (found["state"] + found["views"]) / GB
    )


def measure_gpu(context: Context, name: str) -> Measured:
    found = probe(context, "fit_gpu", name)
    return Measured(found["peak"] / GB, found["naive"] / GB)


@lru_cache
def growth(context: Context) -> list[dict[str, float]]:
    return [probe(context, "growth", n) | {"n": n} for n in _growth_rows(context)]


def _growth_rows(context: Context) -> tuple[int, ...]:
    return (200, 800) if context.quick else GROWTH_ROWS


def measure_growth(context: Context, key: str) -> Measured:
    """Exponent e of key ~ n^e, by least squares in logarithms."""
    found = growth(context)
    logs = np.log([[fit["n"], max(fit[key], 1e-9)] for fit in found])
    return Measured(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]))


def measure_growth_time(context: Context) -> Measured:
    return measure_growth(context, "seconds")


def measure_growth_memory(context: Context) -> Measured:
    return measure_growth(context, "added")


def measure_many_labels_step(context: Context) -> Measured:
    shape = TINY if context.quick else MANY_LABELS
    step = step_seconds(context, shape, "bare_network")
    return Measured(1e3 * step.library, 1e3 * step.naive)


def measure_many_labels_memory(context: Context) -> Measured:
    library, naive = (probe(context, "many_labels", who)["added"] for who in ("library", "naive"))
    return Measured(library / GB, naive / GB)


FIGURES = [
    *(
        Figure(
            f"fit_peak_host_memory_corel5k_{name}",
            "GB",
            partial(measure_host_corel5k, name=name),
            target_ratio={"cpu": 1.3},
            devices=("cpu",),
        )
        for name in NAMES
    ),
    *(
        Figure(
            f"fit_peak_host_memory_mirflickr_{name}",
            "GB",
            partial(measure_host_mirflickr, name=name),
            {"cpu": 8.0} if name == "bare_network" else {},
            devices=("cpu",),
        )
        for name in NAMES
    ),
    *(
        Figure(
            f"fit_peak_gpu_memory_{name}",
            "GB",
            partial(measure_gpu, name=name),
            {"cuda": 4.0} if name == "bare_network" else {},
            devices=("cuda",),
        )
        for name in NAMES
    ),
    Figure(
        "fit_growth_time_bare_network",
        "exponent",
        measure_growth_time,
        {"cpu": 1.15, "cuda": 1.15},
    ),
    Figure(
        "fit_growth_memory_bare_network",
        "exponent",
        measure_growth_memory,
        {"cpu": 1.15, "cuda": 1.15},
    ),
    Figure("fusion_2000_labels_step_bare_network", "ms", measure_many_labels_step),
    Figure("fusion_2000_labels_memory_bare_network", "GB", measure_many_labels_memory),
]
