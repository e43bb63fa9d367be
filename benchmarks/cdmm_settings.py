"""What CDMM's weights of the views and correlation of the labels bring on complete data.

    python -m benchmarks.cdmm_settings corel5k --out results/corel5k/cdmm_settings.jsonl

CDMM's authors search λ (how alike the weights of the views are) from 10 to 1e7 and η (the share of
the labels in their correlation) from .5 to .8 for every data set, and print their choice for two
small ones. Neither has a part in the systems that are solved: one fit on the training rows of a
fold is enough for all of them. Then each view alone and all views but one, at the best λ and η.
Figures are on validation rows; no test row is looked at.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.datasets import Dataset, load_dataset
from viewgap.methods.cdmm.kernel import gaussian_kernel
from viewgap.methods.cdmm.labels import label_agreement, label_correlation, view_agreement
from viewgap.methods.cdmm.solver import view_weights
from viewgap.metrics.evaluation import field_metrics

SMOOTHNESS = tuple(10.0**power for power in range(1, 8))
LABEL_SHARES = (0.5, 0.6, 0.7, 0.8)

Matrix = NDArray[np.float64]


def scores_of_views(model: viewgap.CDMM, views: ViewSet) -> list[Matrix]:
    """k_v(x) β_v of every view, before weights and correlation."""
    rows, scores = np.arange(len(views)), []
    for index, width in enumerate(model.kernel_widths_.values()):
        kernel = gaussian_kernel(model._features(views, index, rows), model._anchors[index], width)
        scores.append(np.asarray(kernel @ model._coefficients[index]))
    return scores


def correlations(
    model: viewgap.CDMM, views: ViewSet, positive: Matrix
) -> Iterator[tuple[float, Matrix]]:
    """η and S of the labels for each of `LABEL_SHARES`."""
    rows = np.arange(len(views))
    everywhere = np.ones_like(positive)
    by_rows = label_agreement(positive, everywhere)
    by_views = [
        view_agreement(model._features(views, index, rows), positive, everywhere)
        for index in range(views.n_views)
    ]
    for share in LABEL_SHARES:
        yield share, label_correlation(by_rows, by_views, share, model.settings_.cutoff)


def judge(data: Dataset, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Figures of fold 0 for every λ and η, and for parts of the views at the best of them."""
    fold = data.fold(0, view_rate=0.0, label_rate=0.0, train_share=0.8)
    split = fold.split(data.views, data.labels)
    model = viewgap.CDMM(profile="paper", random_state=1, **params).fit(*split.train)
    (views, truth), labels = split.validation, split.train[1]
    names, scores = list(model.view_weights_), scores_of_views(model, views)
    residuals = [own - labels for own in scores_of_views(model, split.train[0])]

    def figures(weights: Sequence[float] | Matrix, correlation: Matrix) -> dict[str, float]:
        mixed = sum(np.multiply(*pair) for pair in zip(weights, scores, strict=True))
        found = field_metrics(truth, np.asarray(mixed) @ correlation)
        return {name: round(value, 4) for name, value in found.items()}

    lines, by_setting = [], {}
    for share, correlation in correlations(model, *split.train):
        losses = np.array([np.square(own @ correlation).sum() for own in residuals])
        for smoothness in SMOOTHNESS:
            weights = view_weights(losses, smoothness)
            by_setting[smoothness, share] = weights, correlation
            lines.append(
                {
                    "weight_smoothness": smoothness,
                    "label_share": share,
                    "weights": dict(zip(names, weights.round(4).tolist(), strict=True)),
                    "metrics": figures(weights, correlation),
                }
            )
    best = max(lines, key=lambda line: line["metrics"]["AP"])
    chosen = {name: best[name] for name in ("weight_smoothness", "label_share")}
    weights, correlation = by_setting[best["weight_smoothness"], best["label_share"]]
    for index, name in enumerate(names):
        alone = np.arange(len(names)) == index
        lines.append({**chosen, "only": name, "metrics": figures(1.0 * alone, correlation)})
        others = np.where(alone, 0.0, weights)
        lines.append({**chosen, "without": name, "metrics": figures(others, correlation)})
    return [{"dataset": data.name, "fold": 0, "params": params, **line} for line in lines]


def main() -> None:
    """Print AP by λ and η, and of parts of the views."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset")
    parser.add_argument("--kernel-width", type=float, default=1.0)
    parser.add_argument("--error-weight", type=float, default=100.0)
    parser.add_argument("--out", type=Path, help="write the figures as JSON lines")
    given = parser.parse_args()
    params = {"kernel_width": given.kernel_width, "error_weight": given.error_weight}
    lines = judge(load_dataset(given.dataset), params)
    for line in lines:
        part = " ".join(f"{key} {line[key]}" for key in ("only", "without") if key in line)
        setting = f"λ {line['weight_smoothness']:g}, η {line['label_share']}"
        print(f"{setting} {part} · AP {line['metrics']['AP']:.4f}")
    if given.out is not None:
        given.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
