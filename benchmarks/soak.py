"""Does a long life cost anything? `python -m benchmarks.soak --help`.

Many fits, then many predictions, of several methods in one process. After every part, memory,
threads and open files are noted. What is kept per fit or per prediction would show as a slope:
the median of the last quarter must not lie above that of the second quarter by more than the
limits below (the first quarter is left to caches and thread pools).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.machine import machine_name
from benchmarks.record import ROOT

OUT = ROOT / "benchmarks" / "soak.json"
PARTS = 40  # measurements of each phase
LIMITS = {"memory_mb": 8.0, "threads": 0, "open_files": 0}
METHODS: dict[str, Callable[[int], Any]] = {
    "late_fusion_ridge": lambda seed: viewgap.LateFusionRidge(random_state=seed),
    "extra_trees": lambda seed: viewgap.ExtraTrees(n_estimators=4, random_state=seed),
    "scsd": lambda seed: viewgap.SCSD(
        n_networks=2, hidden=(16,), embedding=8, codebook_size=8, max_epochs=2, random_state=seed
    ),
}


def measure(process: int | str = "self") -> dict[str, float]:
    """What a process holds at the moment (Linux)."""
    folder = Path(f"/proc/{process}")
    pages = int((folder / "statm").read_text(encoding="ascii").split()[1])
    return {
        "memory_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1),
        "threads": len(os.listdir(folder / "task")),
        "open_files": len(os.listdir(folder / "fd")),
    }


def repeat(count: int, step: Callable[[int], None]) -> list[dict[str, float]]:
    """Take `count` steps; what the process held after each of the parts."""
    course = []
    marks = {round(count * part / PARTS) for part in range(1, PARTS + 1)}
    for number in range(1, count + 1):
        step(number)
        if number in marks:
            gc.collect()
            course.append(measure())
    return course


def judge(course: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Growth from the second to the last quarter, and whether it is within the limits."""
    quarter = len(course) // 4
    growth = {}
    for name in LIMITS:
        values = [entry[name] for entry in course]
        late = statistics.median(values[-quarter:])
        growth[name] = round(late - statistics.median(values[quarter : 2 * quarter]), 1)
    flat = all(growth[name] <= limit for name, limit in LIMITS.items())
    return {"growth": growth, "flat": flat, "first": course[0], "last": course[-1]}


def problem() -> tuple[Any, Any]:
    """120 samples of the generator, half of the views and labels missing."""
    full = viewgap.load_dataset("synthetic", n_samples=120, seed=0)
    return viewgap.amputate(full.views, full.labels, seed=0)


def fit_many(count: int) -> list[dict[str, float]]:
    views, labels = problem()
    makers = list(METHODS.values())
    return repeat(count, lambda n: makers[n % len(makers)](n).fit(views, labels))


def predict_many(count: int) -> list[dict[str, float]]:
    """Predictions of one sample each, in turn by every method; the answers stay what they were."""
    views, labels = problem()
    models = [make(0).fit(views, labels) for make in METHODS.values()]
    rows = [views[i : i + 1] for i in range(20)]
    expected = [[model.predict_proba(row) for row in rows] for model in models]

    def step(number: int) -> None:
        model, row = number % len(models), number % len(rows)
        found = models[model].predict_proba(rows[row])
        np.testing.assert_array_equal(found, expected[model][row])

    return repeat(count, step)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--fits", type=int, default=500)
    parser.add_argument("--predictions", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=OUT, help="file to keep the figures in")
    options = parser.parse_args(arguments)
    if min(options.fits, options.predictions) < PARTS:
        parser.error(f"at least {PARTS} fits and predictions: fewer show no slope")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    plan = {"fits": (fit_many, options.fits), "predictions": (predict_many, options.predictions)}
    words = f"--fits {options.fits} --predictions {options.predictions}"
    result: dict[str, Any] = {"command": f"python -m benchmarks.soak {words}"}
    result |= {"machine": machine_name("cpu"), "methods": list(METHODS), "limits": LIMITS}
    for name, (run, count) in plan.items():
        start = time.process_time()
        found = judge(run(count))
        result[name] = {"count": count, "cpu_seconds": round(time.process_time() - start)} | found
        verdict = "flat" if found["flat"] else "GROWS"
        print(f"{count} {name}: {verdict}, {found['growth']}", file=sys.stderr, flush=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0 if all(result[name]["flat"] for name in plan) else 1


if __name__ == "__main__":
    sys.exit(main())
