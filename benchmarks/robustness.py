"""What SCSD loses when views go missing at another rate in use than in training.

    python -m benchmarks.robustness corel5k --out results/corel5k/robustness --jobs 6

The cells of `configs/robustness.toml` for SCSD, as it comes and as published, with the records that
`viewgap bench run` would write; but a network is trained once for all the rates it is tested at.
Stopped at any time, the next call goes on from there. Prints the table of losses.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import joblib
import numpy as np

from viewgap.bench.cells import Cell
from viewgap.bench.experiment import read_experiment
from viewgap.bench.grid import RECORDS, read_records
from viewgap.bench.journal import append_line
from viewgap.bench.record import Record
from viewgap.bench.runner import fit_cell, measure_again

CONFIG = Path(__file__).parents[1] / "configs" / "robustness.toml"
METRICS = ("AP", "1-RL", "AUC", "1-OE", "1-Cov")
Rates = tuple[float, float | None]


def trainings(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that differ in the rate of their test rows only, together; fold by fold."""
    groups: dict[tuple[int, str, float], list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[cell.fold, cell.profile, cell.view_rate].append(cell)
    return [groups[key] for key in sorted(groups)]


def run(cells: list[Cell]) -> list[Record]:
    """One fit, tested for every cell."""
    fitted = fit_cell(cells[0])
    return [fitted.record, *(measure_again(fitted, cell) for cell in cells[1:])]


def losses(records: list[Record], metric: str) -> dict[str, dict[Rates, float]]:
    """Means over the folds, {profile: {(rate in training, rate in use): value}}."""
    values: dict[str, dict[Rates, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        rates = record.settings["view_rate"], record.settings.get("test_view_rate")
        values[record.profile][rates].append(record.metrics[metric])
    return {
        profile: {rates: float(np.mean(found)) for rates, found in by_rates.items()}
        for profile, by_rates in values.items()
    }


def show(records: list[Record]) -> None:
    """Every pair of rates, and what another rate in training costs at the same test rows."""
    for metric in METRICS:
        for profile, found in sorted(losses(records, metric).items()):
            words = [f"{a:.0%}->{b:.0%} {v:.4f}" for (a, b), v in sorted(found.items()) if b]
            for trained, used in ((0.3, 0.7), (0.7, 0.3)):
                if {(trained, used), (used, used)} <= set(found):
                    loss = found[used, used] - found[trained, used]
                    words.append(f"loss {trained:.0%}->{used:.0%} {loss:+.4f}")
            print(f"{metric:6}{profile:8}", "  ".join(words))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--profile", action="append", help="only this one (repeatable)")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    finished = {record.cell for record in read_records(options.out)}
    wanted = [
        cell
        for cell in read_experiment(CONFIG)
        if cell.method == "scsd"
        and cell.dataset == options.dataset
        and cell.fold < options.folds
        and cell.profile in (options.profile or [cell.profile])
        and cell.id not in finished
    ]
    parallel = joblib.Parallel(options.jobs, return_as="generator_unordered", batch_size=1)
    for records in parallel(joblib.delayed(run)(cells) for cells in trainings(wanted)):
        for record in records:
            append_line(options.out / RECORDS, record.to_dict())
            print(record.profile, record.fold, record.settings["view_rate"], "->", end=" ")
            print(record.settings["test_view_rate"], f"AP {record.metrics['AP']:.3f}", flush=True)
    show(read_records(options.out))


if __name__ == "__main__":
    main()
