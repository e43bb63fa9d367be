"""Seconds and peak memory of `viewgap.inspect` on wide and on long data.

`python -m benchmarks.inspection` makes both in a process of their own each; `wide` or `long` makes
one, and `chance` counts how often gaps that are shuffled, so that they say nothing, are warned of.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SHAPES = {"wide": (500, (20_000, 20_000)), "long": (1_000_000, (30, 20))}
QUICK = {"wide": (60, (200, 200)), "long": (2000, (6, 4))}
LABELS = 10
REPEATS = 200


def write_views(folder: Path, n: int, widths: Sequence[int]) -> None:
    """Views as .npy files, which are read by blocks; a fifth of each is missing."""
    rng = np.random.default_rng(0)
    for j, width in enumerate(widths):
        file = np.lib.format.open_memmap(
            folder / f"view{j}.npy", mode="w+", dtype=np.float32, shape=(n, width)
        )
        step = max(1, 2**24 // width)
        for start in range(0, n, step):
            part = slice(start, min(start + step, n))
            file[part] = rng.standard_normal((part.stop - start, width), dtype=np.float32)
            file[part][rng.random(part.stop - start) < 0.2] = np.nan
        file.flush()
    labels = (rng.random((n, LABELS)) < 0.2).astype(np.float32)
    np.save(folder / "labels.npy", labels)


def measure(name: str, quick: bool) -> dict[str, float]:
    """Seconds of an inspection, and how much memory it took above that of reading the data."""
    import viewgap
    from viewgap.data import read_data

    n, widths = (QUICK if quick else SHAPES)[name]
    with tempfile.TemporaryDirectory() as folder:
        write_views(Path(folder), n, widths)
        import viewgap.inspection
        import viewgap.methods.estimator.one_label  # imports are no part of the work

        before = _peak()
        data = read_data(folder)
        views = data.views[data.views.has_view]
        labels = np.asarray(data.labels)[data.views.has_view]
        start, cpu = time.perf_counter(), time.process_time()
        result = viewgap.inspect(views, labels)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    mib = n * sum(widths) * 4 / 2**20
    return {
        "samples": n,
        "columns": sum(widths),
        "data_mib": round(mib),
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu, 2),
        "peak_mib": round(_peak() / 2**20),
        "above_imports_mib": round((_peak() - before) / 2**20),
        "findings": len(result.findings),
    }


def _peak() -> int:
    """Most memory that this process had in use, pages of mapped files included."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def chance(repeats: int) -> dict[str, int]:
    """How many of so many data sets with meaningless gaps are warned of, and labels of them."""
    from viewgap.data.labels import Labels
    from viewgap.data.viewset import ViewSet
    from viewgap.inspection.missingness import labels_from_gaps

    sets, labels_warned, judged = 0, 0, 0
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        n, m, c = 300, 3, 20
        observed = rng.random((n, m)) < 0.7
        views = ViewSet({f"v{j}": rng.normal(size=(n, 2)) for j in range(m)}, observed)
        values = (rng.random((n, c)) < rng.uniform(0.03, 0.5, size=c)).astype(np.uint8)
        known = rng.random((n, c)) < 0.8
        found = labels_from_gaps(views, Labels(values, known, tuple(map(str, range(c)))))
        warned = sum(own.predicts for own in found)
        sets, labels_warned, judged = (
            sets + (warned > 0),
            labels_warned + warned,
            judged + len(found),
        )
    return {"sets": repeats, "sets_warned": sets, "labels": judged, "labels_warned": labels_warned}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.inspection", description=__doc__)
    parser.add_argument("what", nargs="?", choices=(*SHAPES, "chance"))
    parser.add_argument("--quick", action="store_true", help="tiny shapes")
    options = parser.parse_args(arguments)
    if options.what == "chance":
        print(json.dumps(chance(5 if options.quick else REPEATS)))
    elif options.what:
        print(json.dumps({"name": options.what, **measure(options.what, options.quick)}))
    else:
        for name in SHAPES:
            command = [sys.executable, "-m", "benchmarks.inspection", name]
            command += ["--quick"] if options.quick else []
            subprocess.run(command, check=True, env=os.environ)
    return 0


if __name__ == "__main__":
    sys.exit(main())
