"""Which views does the fusion trust, and which should it?

    python -m benchmarks.view_trust corel5k --folds 0:3
    python -m benchmarks.view_trust multidigits --folds 0:2 --set max_epochs=30

SCSD as published weighs the views by how well their predictions keep the co-occurrence of labels
(Eq. 4-6); the default learns weights from held-out predictions. Both are fitted on the training
rows of a fold, with the validation rows, whose views are then given in full and shown to the model
one at a time: AP of a view alone says what it is worth. Beside it stand the weights of the
published fusion, at its temperature and at 0.1, and those of the default. The last line is
Spearman's correlation of a column with the AP of single views of the same model. No test row is
looked at.
One line of JSON per fold is appended to `--out`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import viewgap
from benchmarks.experiments import RATES, append, fold_numbers
from viewgap.bench.run.experiment import shipped_config
from viewgap.cli.inputs import parse_settings
from viewgap.data.splits import Fold
from viewgap.data.viewset import ViewSet
from viewgap.datasets import Dataset, load_dataset
from viewgap.methods.base import MultiViewClassifier
from viewgap.metrics.evaluation import field_metrics

COLD = 0.1  # a temperature at which the published weights differ
COLUMNS = (
    "AP alone, paper",
    "weight",
    f"weight, tau {COLD}",
    "AP alone, default",
    "its weight",
)


def ap_of_single_views(
    model: MultiViewClassifier, views: ViewSet, labels: np.ndarray
) -> dict[str, float]:
    """AP of the answers from each view alone, over the rows that have it."""
    found = {}
    for index, name in enumerate(views.names):
        only = np.zeros_like(views.observed)
        only[:, index] = views.observed[:, index]
        rows = only.any(axis=1)
        answers = model.predict_proba(views.with_observed(only)[rows])
        found[name] = float(field_metrics(labels[rows], answers)["AP"])
    return found


def colder(weights: dict[str, float], temperature: float) -> dict[str, float]:
    """The weights that the same view qualities give at the temperature `COLD`."""
    logits = np.log(list(weights.values())) * temperature / COLD
    powers = np.exp(logits - logits.max())
    return dict(zip(weights, (powers / powers.sum()).tolist(), strict=True))


def judge(data: Dataset, fold: Fold, settings: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The columns of the table, one figure per view each."""
    split = fold.split(data.views, data.labels)
    complete, labels = data.views[fold.validation], split.validation[1]
    params = shipped_config("published_params")["scsd"].get(data.name, {}) | settings
    published = viewgap.SCSD(profile="paper", random_state=1, **params)
    published.fit(*split.train, validation=split.validation)
    default = viewgap.SCSD(random_state=1, **settings)
    default.fit(*split.train, validation=split.validation)
    weights, own = published.view_weights_, default.view_weights_
    temperature = published.settings_.temperature
    total = sum(own.values())
    columns = (
        ap_of_single_views(published, complete, labels),
        weights,
        colder(weights, temperature),
        ap_of_single_views(default, complete, labels),
        {name: weight / total for name, weight in own.items()},
    )
    return dict(zip(COLUMNS, columns, strict=True))


def show(lines: list[dict[str, Any]]) -> str:
    """The table of a data set: means over its folds, and rank correlations."""
    views = list(lines[0]["columns"][COLUMNS[0]])
    table = np.array([[[line["columns"][c][v] for c in COLUMNS] for v in views] for line in lines])
    text = [f"| {lines[0]['dataset']}, {len(lines)} folds | " + " | ".join(COLUMNS) + " |"]
    text += ["|---" * (len(COLUMNS) + 1) + "|"]
    for view, row in zip(views, table.mean(axis=0), strict=True):
        text.append(f"| {view} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
    against = (0, 0, 0, 3, 3)
    ranks = [
        np.mean([spearmanr(fold[:, i], fold[:, a]).statistic for fold in table])
        for i, a in enumerate(against)
    ]
    text.append("| rank correlation with AP | " + " | ".join(f"{r:+.2f}" for r in ranks) + " |")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--folds", default="0:1", help="first:last, the last not included")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--out", type=Path, help="append one line of JSON per fold")
    options = parser.parse_args()
    data, settings, lines = load_dataset(options.dataset), parse_settings(options.settings), []
    for number in fold_numbers(options.folds):
        columns = judge(data, data.fold(number, **RATES), settings)
        lines.append({"dataset": data.name, "fold": number, "set": settings, "columns": columns})
        append(options.out, lines[-1])
    print(show(lines))


if __name__ == "__main__":
    main()
