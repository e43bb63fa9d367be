"""How much of NAIM3L's figures is its protocol? One fit, judged the library's and the released way.

Run: VIEWGAP_DATA=... python benchmarks/naim3l_protocol.py [folds]

The released evaluation gives the test rows all their views, computes the metrics for each view
alone and averages them over the views, and leaves samples without positives out. The library hides
views of the rows it judges, and averages the scores of the views that are left before it computes
metrics. Fitted as published (`profile="paper"`) on training rows, judged on *validation* rows of
Corel5k. Takes about two minutes per fold on one core.
"""

from __future__ import annotations

import sys

import numpy as np

import viewgap
from benchmarks.experiments import RATES
from viewgap.data.splits import Fold
from viewgap.data.viewset import ViewSet
from viewgap.datasets import Dataset
from viewgap.metrics.evaluation import field_metrics

Figures = dict[str, float]


def by_view(model: viewgap.NAIM3L, views: ViewSet, labels: np.ndarray) -> Figures:
    """Mean over the views of the metrics of each view alone, over the rows that have it."""
    figures = []
    for index in range(views.n_views):
        only = np.zeros_like(views.observed)
        only[:, index] = True
        rows = views.observed[:, index]
        answers = model.predict_proba(views.with_observed(only)[rows])
        figures.append(field_metrics(labels[rows], answers))
    return {name: float(np.mean([each[name] for each in figures])) for name in figures[0]}


def judge(data: Dataset, fold: Fold) -> dict[str, Figures]:
    """Fit once on the training rows; figures of the validation rows under each protocol."""
    split = fold.split(data.views, data.labels)
    model = viewgap.NAIM3L(profile="paper", random_state=1).fit(*split.train)
    hidden, labels = split.validation
    complete = data.views[fold.validation]
    positive = labels.any(axis=1)
    return {
        "views hidden, scores averaged (the library)": field_metrics(
            labels, model.predict_proba(hidden)
        ),
        "views hidden, metrics averaged over views": by_view(model, hidden, labels),
        "all views, scores averaged": field_metrics(labels, model.predict_proba(complete)),
        "all views, metrics averaged over views": by_view(model, complete, labels),
        "the same, rows without positives left out (released)": by_view(
            model, complete[positive], labels[positive]
        ),
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    data = viewgap.load_dataset("corel5k")
    folds = data.folds(count=count, **RATES)
    judged = [judge(data, fold) for fold in folds]
    print(f"NAIM3L, paper profile, validation rows of {count} fold(s) of Corel5k")
    for protocol in judged[0]:
        names = judged[0][protocol]
        means = {name: np.mean([figures[protocol][name] for figures in judged]) for name in names}
        print("  ".join(f"{name} {mean:.3f}" for name, mean in means.items()), " ", protocol)


if __name__ == "__main__":
    main()
