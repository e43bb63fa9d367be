"""Log-odds pooling fitted on held-out rows against the mean of the views' predictions.

    python -m benchmarks.pooling emotions --folds 10:20 --set max_epochs=40

Fits SCSD on the training rows of some folds and takes what every view says of the validation rows.
Pooling and thresholds are fitted on one half of these rows and judged on the other, both ways and
for two divisions. Training takes a fixed number of epochs, or (`--stop validation`, for large sets)
stops by the validation rows. Test rows are never looked at. Prints the means.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import viewgap
from benchmarks.experiments import RATES, fold_numbers
from viewgap.cli.inputs import parse_settings
from viewgap.data.validation import as_labels
from viewgap.datasets import load_dataset
from viewgap.metrics import (
    calibration_error,
    expected_f1_thresholds,
    f1_scores,
    fit_thresholds,
)
from viewgap.metrics.evaluation import field_metrics
from viewgap.nn.pooling import HeldOut, LabelCounts, LogOddsPooling

DIVISIONS = 2
Floats = NDArray[np.float64]
Figures = dict[str, float]


def figures(truth: Floats, found: Floats, **thresholds: Floats) -> Figures:
    """The metrics, the calibration error, and macro F1 at one half and at the thresholds."""
    limits: dict[str, Any] = {"half": 0.5, **thresholds}
    return {
        **field_metrics(truth, found),
        "calibration error": calibration_error(truth, found),
        **{f"F1 {name}": f1_scores(truth, found, limit)["macro"] for name, limit in limits.items()},
    }


def judge(
    by_view: Floats, truth: Floats, counts: LabelCounts, seed: int
) -> dict[str, list[Figures]]:
    """Learn on one half, judge on the other; `by_view` (m, n, c): NaN where a view is missing."""
    found: dict[str, list[Figures]] = {"mean": [], "pooling": []}
    rng = np.random.default_rng(seed)
    for _ in range(DIVISIONS):
        order = rng.permutation(len(truth))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        for learn, test in (halves, halves[::-1]):
            pooling = LogOddsPooling(len(by_view), truth.shape[1])
            pooling.fit(held_out(by_view[:, learn], truth[learn]), counts)
            answers = [pooled(pooling, by_view[:, rows]) for rows in (learn, test)]
            limits = {
                "fitted": fit_thresholds(truth[learn], answers[0]),
                "expected": expected_f1_thresholds(answers[0]),
            }
            found["mean"].append(figures(truth[test], np.nanmean(by_view[:, test], axis=0)))
            found["pooling"].append(figures(truth[test], answers[1], **limits))
    return found


def held_out(by_view: Floats, truth: Floats) -> HeldOut:
    labels = torch.from_numpy(truth)
    return HeldOut(torch.from_numpy(by_view), seen(by_view), labels, torch.ones_like(labels))


def seen(by_view: Floats) -> torch.Tensor:
    return torch.from_numpy(~np.isnan(by_view[:, :, 0]).T)


def pooled(pooling: LogOddsPooling, by_view: Floats) -> Floats:
    answers: Floats = pooling(torch.from_numpy(by_view).float(), seen(by_view)).double().numpy()
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--folds", default="10:20", help="first:last, the last left out")
    parser.add_argument("--stop", choices=["never", "validation"], default="never")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    data = load_dataset(options.dataset)
    by_validation = options.stop == "validation"
    collected: dict[str, list[Figures]] = {"mean": [], "pooling": []}
    for fold in fold_numbers(options.folds):
        split = data.fold(fold, **RATES).split(data.views, data.labels)
        model = viewgap.SCSD(
            random_state=1, validation_fraction=0.0, **parse_settings(options.set)
        ).fit(*split.train, validation=split.validation if by_validation else None)
        by_view = np.stack(list(model.predict_views(split.validation[0]).values()))
        labels = as_labels(split.train[1], split.train[0])
        counts = LabelCounts.of(
            torch.from_numpy(np.array(labels.values)), torch.from_numpy(np.array(labels.observed))
        )
        truth = as_labels(split.validation[1], split.validation[0]).as_float()
        for name, lines in judge(by_view, truth, counts, fold).items():
            collected[name] += lines
    for name, lines in collected.items():
        means = {key: np.mean([line[key] for line in lines]) for key in lines[0]}
        print(name, " ".join(f"{key} {value:.4f}" for key, value in means.items()))


if __name__ == "__main__":
    main()
