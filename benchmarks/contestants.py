"""The ensemble beside what one writes with scikit-learn: what tables of any origin share.

`benchmarks.generated` and `benchmarks.real_tables` bring the tables. Contestants: the ensemble, the
same without its member on all views side by side, and each member alone; per label scikit-learn's
gradient boosting on all columns (gaps are NaN), forests and logistic regression with means in the
gaps; the frequencies of the labels. Average precision (`clean`), macro AUC and log loss.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ALONE = ("extra_trees", "late_fusion_ridge", "gradient_boosting", "scsd")
SHOWN = ("before", "ensemble", "hist_boosting", "forest", "extra_trees", "logistic", "frequency")
Measure = Callable[[str, int, bool], dict[str, Any]]


def others(seed: int) -> dict[str, Callable[[], Any]]:
    from sklearn.ensemble import (
        ExtraTreesClassifier,
        HistGradientBoostingClassifier,
        RandomForestClassifier,
    )
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    trees = {"n_estimators": 200, "min_samples_leaf": 2, "random_state": seed}
    return {
        "hist_boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "forest": lambda: make_pipeline(SimpleImputer(), RandomForestClassifier(**trees)),
        "extra_trees": lambda: make_pipeline(SimpleImputer(), ExtraTreesClassifier(**trees)),
        "logistic": lambda: make_pipeline(
            SimpleImputer(), StandardScaler(), LogisticRegression(max_iter=300)
        ),
    }


def per_label(make: Callable[[], Any], X: Any, Y: Any, new: Any) -> Any:
    """Probabilities of classifiers fitted per label, on the rows where it is observed."""
    found = np.tile(np.nanmean(Y, axis=0), (len(new), 1))
    for label, y in enumerate(Y.T):
        known = ~np.isnan(y)
        if len(np.unique(y[known])) == 2:
            found[:, label] = make().fit(X[known], y[known]).predict_proba(new)[:, 1]
    return found


def figures(truth: Any, found: Any) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score

    from viewgap.metrics import average_precision

    both = [j for j in range(truth.shape[1]) if 0 < truth[:, j].mean() < 1]
    p = np.clip(found[:, both], 1e-6, 1 - 1e-6)
    values = {
        "AP": average_precision(truth, found, variant="clean"),
        "AUC": np.mean([roc_auc_score(truth[:, j], found[:, j]) for j in both]),
        "log_loss": np.mean([log_loss(truth[:, j], p[:, i]) for i, j in enumerate(both)]),
    }
    return {name: round(float(value), 4) for name, value in values.items()}


def ensemble(seed: int, train: Any, new: Any, scsd: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Answers of the ensemble, and of its members of single views stacked without the joint one.

    Also the weight, the out-of-fold score and the answers of each member that was fitted.
    """
    from viewgap.data.validation import as_labels
    from viewgap.ensemble import estimator
    from viewgap.ensemble.stacking import Stacking

    kept: list[Any] = []

    class Recording(estimator.Ensemble):
        def _stack(self, members: Any, *rest: Any) -> None:
            kept.extend(members)
            super()._stack(members, *rest)

    chosen = {k: v for k, v in estimator.DEFAULT.items() if scsd or k != "scsd"}
    model = Recording(methods=chosen, random_state=seed).fit(*train)
    answers = {own.name: np.asarray(own.model.predict_proba(new)) for own in kept}
    old = [member for member in kept if member.name in ALONE]
    stacking = Stacking.fit(
        np.stack([own.out_of_fold for own in old]), as_labels(train[1], train[0])
    )
    before = stacking(np.stack([answers[own.name] for own in old]))
    lines = model.leaderboard_.set_index("method")
    members = {
        name: {
            "weight": round(float(lines.weight[name]), 3),
            "out_of_fold": round(float(lines.score[name]), 4),
            "answers": own,
        }
        for name, own in answers.items()
    }
    return {"ensemble": np.asarray(model.predict_proba(new)), "before": before}, members


def compare(split: Any, seed: int, scsd: bool) -> dict[str, Any]:
    """Figures of every contestant on the new rows of a split."""
    warnings.simplefilter("ignore")
    start = time.process_time()
    (views, X, Y), (new, X_new), truth = split
    found, members = ensemble(seed, (views, Y), new, scsd)
    seconds = time.process_time() - start
    found |= {kind: per_label(make, X, Y, X_new) for kind, make in others(seed).items()}
    found["frequency"] = np.tile(np.nanmean(Y, axis=0), (len(truth), 1))
    return {
        "ensemble_seconds": round(seconds, 1),
        **{kind: figures(truth, own) for kind, own in found.items()},
        "members": {
            name: own | figures(truth, own.pop("answers")) for name, own in members.items()
        },
    }


def table(lines: Sequence[dict[str, Any]], metric: str) -> str:
    """Means over the seeds of every set, and over the sets."""
    rows = []
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [[line[kind][metric] for kind in SHOWN] for line in lines if line["set"] == name]
        rows.append((name, np.mean(own, axis=0)))
    rows.append(("mean", np.mean([values for _, values in rows], axis=0)))
    head = f"{metric:18s}" + "".join(f"{kind:>14s}" for kind in SHOWN)
    return "\n".join([head, *(f"{n:18s}" + "".join(f"{v:14.4f}" for v in own) for n, own in rows)])


def run(
    description: str | None,
    names: Sequence[str],
    measure: Measure,
    kept: Path,
    arguments: Sequence[str] | None,
) -> list[dict[str, Any]]:
    """Measure the sets that the arguments name; each line is kept as soon as it is there."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=list(names))
    parser.add_argument("--seeds", default="0:2", help="first:last, the last left out")
    parser.add_argument("--jobs", type=int, default=1, help="sets at the same time")
    parser.add_argument("--scsd", action="store_true", help="with SCSD, as the default has it")
    parser.add_argument("--out", type=Path, default=kept, help="append the lines to this file")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition(":")
    tasks = [(name, seed) for seed in range(int(first), int(last)) for name in options.sets]
    lines = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(measure, *task, options.scsd) for task in tasks]:
            lines.append(done.result())
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    return lines
