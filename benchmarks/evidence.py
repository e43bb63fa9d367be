"""Figures behind defaults and tolerances: `python -m benchmarks.evidence [PART ...]`.

- `missing_cells`: `nan="mean"` against `nan="missing_view"` on CLL, whose seahorse view has single
  missing cells; three times five folds, `clean` average precision.
- `far_values`: how far test rows of real data sets lie outside of the training values, in the units
  of `data.column_ranges`, whose `FAR` must be above all of them.
- `golden`: how far the golden numbers move with instruction sets and threads, which the tolerances
  of `tests/methods/test_golden.py` must allow.

The first two read the data sets in $VIEWGAP_DATA, and say so where it is not set. The figures are
kept in `evidence.json`; those of a part replace the earlier ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.model_selection import KFold

from benchmarks.anywhere import environment, supported
from benchmarks.machine import machine_name
from benchmarks.record import ROOT
from viewgap import SCSD, LateFusionRidge
from viewgap.data.preprocessing import ColumnRange, ColumnRanges
from viewgap.data.preprocessing.column_ranges import FAR
from viewgap.data.viewset import ViewSet
from viewgap.datasets import load_dataset

OUT = ROOT / "benchmarks" / "evidence.json"
SETS = ("3sources", "birds", "cll", "corel5k", "emotions", "plant", "scene")
SHARES = (0.05, 0.1, 0.3, 0.5, 0.7)
SEEDS = range(3)
SPLITS = range(10)
SMALL = {"n_networks": 1, "hidden": [64], "embedding": 32, "codebook_size": 32, "max_epochs": 60}
CELL_METHODS: dict[str, Callable[..., Any]] = {
    "late_fusion_ridge": LateFusionRidge,
    "small scsd": lambda **settings: SCSD(**SMALL, device="cpu", **settings),
}


def missing_cells() -> dict[str, Any]:
    """Mean over the folds, {method: {nan: [a figure per seed]}}."""
    data = load_dataset("cll")
    found: dict[str, Any] = {"rows": len(data.views)}
    for name, make in CELL_METHODS.items():
        found[name] = {
            nan: [_cross_validated(make, nan, data.views, data.labels, seed) for seed in SEEDS]
            for nan in ("mean", "missing_view")
        }
    return found


def _cross_validated(
    make: Callable[..., Any], nan: str, views: ViewSet, labels: Any, seed: int
) -> float:
    scores = []
    for train, test in KFold(5, shuffle=True, random_state=seed).split(np.arange(len(views))):
        model = make(nan=nan, on_empty="prior", random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # labels without positives in some folds
            scores.append(model.fit(views[train], labels[train]).score(views[test], labels[test]))
    return round(float(np.mean(scores)), 4)


def far_values() -> dict[str, Any]:
    """The largest factor, {data set: {share of training rows: largest over ten splits}}."""
    found: dict[str, Any] = {"FAR": FAR}
    for name in SETS:
        views = load_dataset(name).views
        found[name] = {
            str(share): round(max(_largest_factor(views, share, seed) for seed in SPLITS), 2)
            for share in SHARES
        }
    return found


def _largest_factor(views: ViewSet, share: float, seed: int) -> float:
    order = np.random.default_rng(seed).permutation(len(views))
    count = max(2, round(share * len(views)))
    train, test = views[order[:count]], views[order[count:]]
    ranges = ColumnRanges.fit(train).views
    # A view without any training row has no ranges to be outside of.
    used = [j for j in range(views.n_views) if train.observed[:, j].any()]
    return max(_factor(ranges[j], test, views.names[j]) for j in used)


def _factor(known: ColumnRange, test: ViewSet, name: str) -> float:
    rows = np.flatnonzero(test.observed[:, test.names.index(name)])
    if not len(rows):
        return 0.0
    values = test.rows(name, rows, np.float64)
    columns = np.arange(values.shape[1])
    ends = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    return max(float(np.nanmax(known.factors(end, columns))) for end in ends)


def golden() -> dict[str, Any]:
    """Largest relative difference from the kept numbers, {setting, threads: {case: difference}}."""
    found = {}
    for setting in supported():
        for threads in (1, 2):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.evidence", "--golden-here"],
                cwd=ROOT,
                env=os.environ | environment(setting, threads),
                capture_output=True,
                text=True,
                check=True,
            )
            found[f"{setting}, {threads} threads"] = json.loads(done.stdout)
    cases = {case for differences in found.values() for case in differences}
    worst = {case: max(run[case] for run in found.values()) for case in sorted(cases)}
    return {"worst": worst, **found}


def golden_here() -> dict[str, float]:
    """The same on this processor, with the tests' own fits."""
    spec = spec_from_file_location("test_golden", ROOT / "tests" / "methods" / "test_golden.py")
    assert spec is not None
    assert spec.loader is not None
    tests = module_from_spec(spec)
    spec.loader.exec_module(tests)
    return {case: _difference(tests.numbers(case), kept) for case, kept in tests.GOLDEN.items()}


def _difference(found: Any, expected: Any) -> float:
    kept = np.asarray(expected)
    return float(f"{np.max(np.abs(np.asarray(found) - kept) / np.abs(kept)):.2g}")


PARTS = {"missing_cells": missing_cells, "far_values": far_values, "golden": golden}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.evidence",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=OUT, help="file to keep the figures in")
    parser.add_argument("--golden-here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.golden_here:
        print(json.dumps(golden_here()))
        return 0
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {min(unknown)!r}; the parts are {', '.join(PARTS)}")
    kept = json.loads(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    for name in options.parts or PARTS:
        if name != "golden" and not os.environ.get("VIEWGAP_DATA"):
            print(f"{name}: left out, set VIEWGAP_DATA to the folder of the data sets")
            continue
        kept[name] = {
            "command": f"python -m benchmarks.evidence {name}",
            "machine": machine_name("cpu"),
            "versions": {"torch": torch.__version__, "numpy": np.__version__},
            "figures": PARTS[name](),
        }
        options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(name, json.dumps(kept[name]["figures"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
