"""The ensemble and each of its members on test rows.

    python -m benchmarks.ensemble emotions --folds 0:10 --jobs 2 --out results.jsonl

Fits `viewgap.Ensemble` on the training rows of each fold (half of the views and labels hidden;
birds and cll with the gaps that they have), without validation rows, and measures the ensemble and
every member that was fitted, those without weight too, on the test rows. One line of JSON per fold,
as soon as it is there; then the means over the folds. With several jobs each has one thread.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.experiments import append, fold_numbers, split_of

ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LOKY_MAX_CPU_COUNT")


def precision(Y: Any, found: Any) -> dict[str, float]:
    """Average precision under both definitions."""
    from viewgap.metrics import average_precision

    return {
        kind: round(average_precision(Y, found, variant=kind), 5) for kind in ("clean", "field")
    }


def measure(dataset: str, fold: int, params: dict[str, Any]) -> dict[str, Any]:
    """Fit on the training rows of a fold; figures of the test rows."""
    import viewgap

    warnings.simplefilter("ignore")
    split = split_of(dataset, fold)
    views, Y = split.test
    model = viewgap.Ensemble(random_state=fold, **params)
    model._keep_all_members = True
    start = time.monotonic()
    model.fit(*split.train)
    seconds = time.monotonic() - start
    ap = {"ensemble": precision(Y, model.predict_proba(views))}
    for name, member in model._all_members.items():
        ap[name] = precision(Y, member.predict_proba(views))
    lines = model.leaderboard_.set_index("method")
    cost = {name: round(float(lines.seconds[name]), 2) for name in model._all_members}
    return {
        "dataset": dataset,
        "fold": fold,
        "ap": ap,
        "out_of_fold": {name: round(float(lines.score[name]), 5) for name in ap},
        "weights": {name: round(weight, 4) for name, weight in model.weights_.items()},
        "left_out": {name: note for name, note in lines.note.items() if note},
        "seconds": cost | {"ensemble": round(seconds, 2)},
    }


def lines_of(options: argparse.Namespace, folds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """The figures of the folds, each as soon as it is there."""
    params = {"device": options.device, "time_budget": options.time_budget}
    if options.methods:
        params["methods"] = options.methods
    if options.jobs == 1:
        yield from (measure(options.dataset, fold, params) for fold in folds)
        return
    os.environ |= dict.fromkeys(ONE_THREAD, "1")  # the processes that are started inherit it
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=spawn) as pool:
        waiting = [pool.submit(measure, options.dataset, fold, params) for fold in folds]
        yield from (done.result() for done in as_completed(waiting))


def table(lines: Sequence[dict[str, Any]], kind: str) -> str:
    """Means over the folds; members that were fitted in every fold."""
    names = [name for name in lines[0]["ap"] if all(name in line["ap"] for line in lines)]
    ap = {name: np.array([line["ap"][name][kind] for line in lines]) for name in names}
    seconds = {name: np.mean([line["seconds"][name] for line in lines]) for name in names}
    rows = [
        f"{name:20s} {ap[name].mean():.4f}  {ap[name].std():.4f}  {seconds[name]:8.1f}"
        for name in names
    ]
    members = [name for name in names if name != "ensemble"]
    best = max(members, key=lambda name: float(ap[name].mean()))
    gain = ap["ensemble"] - ap[best]
    won = f"{int((gain > 0).sum())} of {len(gain)} folds"
    return "\n".join(
        [
            f"{lines[0]['dataset']}, {len(lines)} folds: {kind} AP, its spread, seconds",
            *rows,
            f"ensemble - {best}: {gain.mean():+.4f} (better in {won})",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--folds", default="0:10", help="first:last, the last left out")
    parser.add_argument("--jobs", type=int, default=1, help="folds at the same time")
    parser.add_argument("--methods", nargs="+", help="members, if not those of the default")
    parser.add_argument("--time-budget", type=float, help="seconds of a fit")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    options = parser.parse_args(arguments)
    lines = []
    for line in lines_of(options, fold_numbers(options.folds)):
        lines.append(line)
        print(json.dumps(line), flush=True)
        append(options.out, line)
    print(table(lines, "clean"), table(lines, "field"), sep="\n\n")


if __name__ == "__main__":
    main()
