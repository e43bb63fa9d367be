"""What SCSD loses when views go missing at another rate in use than in training.

    python -m benchmarks.robustness corel5k --out results/corel5k/robustness --jobs 6

The tasks of `configs/robustness.toml` for SCSD, as it comes and as published, with the records that
`viewgap bench run` would write; but a network is trained once for all the rates it is tested at.
Stopped at any time, the next call goes on from there. Prints the table of losses.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import joblib
import numpy as np

from viewgap.bench.results.journal import append_line
from viewgap.bench.results.record import RECORDS, Record, read_records
from viewgap.bench.run.execute import fit_task, measure_again
from viewgap.bench.run.experiment import read_experiment
from viewgap.bench.run.task import Task

CONFIG = Path(__file__).parents[1] / "configs" / "robustness.toml"
FEW, MANY = 0.3, 0.7
METRICS = ("AP", "1-RL", "AUC", "1-OE", "1-Cov")
Rates = tuple[float, float]


def trainings(tasks: Iterable[Task]) -> list[list[Task]]:
    """Cells that differ in the rate of their test rows only, together; fold by fold."""
    groups: dict[tuple[int, str, str, float], list[Task]] = defaultdict(list)
    for task in tasks:
        groups[task.fold, task.dataset, task.profile, task.view_rate].append(task)
    return [groups[key] for key in sorted(groups)]


def run(tasks: list[Task]) -> list[Record]:
    """One fit, tested for every task."""
    fitted = fit_task(tasks[0])
    return [fitted.record, *(measure_again(fitted, task) for task in tasks[1:])]


def means(records: Iterable[Record], metric: str) -> dict[str, dict[Rates, float]]:
    """Means over the folds, {profile: {(rate in training, rate in use): value}}."""
    values: dict[str, dict[Rates, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        rates = record.settings["view_rate"], record.settings["test_view_rate"]
        values[record.profile][rates].append(record.metrics[metric])
    return {
        profile: {rates: float(np.mean(found)) for rates, found in by_rates.items()}
        for profile, by_rates in values.items()
    }


def losses(found: Mapping[Rates, float]) -> dict[str, float]:
    """What it costs to miss more: in use, in training, in both."""
    known = found.get((FEW, FEW), np.nan)
    changes = {"in use": (FEW, MANY), "in training": (MANY, FEW), "in both": (MANY, MANY)}
    return {name: known - found.get(rates, np.nan) for name, rates in changes.items()}


def show(records: list[Record]) -> None:
    """A line per metric and profile: every pair of rates, then the losses."""
    for metric in METRICS:
        for profile, found in sorted(means(records, metric).items()):
            words = [f"{a:.0%}->{b:.0%} {value:.4f}" for (a, b), value in sorted(found.items())]
            lost = [f"{name} {value:.4f}" for name, value in losses(found).items()]
            print(f"{metric:6}{profile:8}", *words, "lost by missing more:", ", ".join(lost))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--profile", action="append", help="only this one (repeatable)")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    finished = {record.task for record in read_records(options.out)}
    wanted = [
        task
        for task in read_experiment(CONFIG)
        if task.method == "scsd"
        and task.dataset == options.dataset
        and task.fold < options.folds
        and task.profile in (options.profile or [task.profile])
        and task.id not in finished
    ]
    parallel = joblib.Parallel(options.jobs, return_as="generator_unordered", batch_size=1)
    for records in parallel(joblib.delayed(run)(tasks) for tasks in trainings(wanted)):
        for record in records:
            append_line(options.out / RECORDS, record.to_dict())
            print(record.profile, record.fold, record.settings["view_rate"], "->", end=" ")
            print(record.settings["test_view_rate"], f"AP {record.metrics['AP']:.3f}", flush=True)
    show(read_records(options.out))


if __name__ == "__main__":
    main()
