"""The ensemble against what one writes with scikit-learn, on generated tables.

    python -m benchmarks.generated --seeds 0:2 --jobs 2

The sets resemble data that people have, and differ from the benchmark sets: sensors whose views
tell a label only together, laboratory values that were not measured, layers of omics with batches,
views that are there because somebody suspected something, counts of words. Seven tenths of the rows
are fitted on, with their gaps; all labels of the others are known, and measured on. Beside the
ensemble: the same without its member on all views side by side; per label scikit-learn's gradient
boosting on all columns (gaps are NaN), forests and logistic regression with means in the gaps; the
frequencies of the labels. SCSD takes most of the time and is left out unless `--scsd` is given.
Average precision (`clean`), macro AUC and log loss; the lines are kept in `generated.jsonl`.
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
from scipy.special import expit

KEPT = Path(__file__).with_name("generated.jsonl")
ALONE = ("extra_trees", "late_fusion_ridge", "gradient_boosting", "scsd")
SHOWN = ("before", "ensemble", "hist_boosting", "forest", "extra_trees", "logistic", "frequency")
Views = dict[str, np.ndarray]
SETS: dict[str, Callable[[np.random.Generator], tuple[Views, np.ndarray, float, float]]] = {}


def data_set(make: Any) -> Any:
    """Register a set: views, truth, and which shares of views and labels to hide at random."""
    SETS[make.__name__] = make
    return make


def drawn(rng: Any, scores: Any) -> Any:
    return (rng.random(np.shape(scores)) < expit(scores)).astype(float)


@data_set
def sensors(rng: Any) -> Any:
    """Thresholds and products of columns of one view."""
    a, t, p = rng.normal(size=(1500, 6)), rng.gamma(2, 10, (1500, 4)), rng.normal(size=(1500, 4))
    hot = (t[:, 0] > 25) & (t[:, 1] < 20)
    scores = [6 * (a[:, 0] * a[:, 1] > 0.3) - 3, 5 * hot - 2.5, 5 * (np.abs(p[:, 0]) > 1.2) - 3]
    scores += [4 * np.sin(2 * a[:, 2]) + 2 * a[:, 3] - 1, 4 * p[:, 1] * p[:, 2] - 1]
    return {"a": a, "t": t, "p": p}, drawn(rng, np.stack(scores, 1)), 0.1, 0.1


@data_set
def sensors_together(rng: Any) -> Any:
    """Products of columns of two views."""
    a, t, p = rng.normal(size=(1500, 6)), rng.gamma(2, 10, (1500, 4)), rng.normal(size=(1500, 4))
    both = (a[:, 1] > 0) & (p[:, 0] > 0)
    scores = [5 * (a[:, 0] * (t[:, 0] - 20) > 1) - 2.5, 5 * both - 2.5, 3 * a[:, 3] * p[:, 2]]
    scores += [4 * ((t[:, 1] > 20) & (p[:, 1] > 0)) - 2 + a[:, 2]]
    return {"a": a, "t": t, "p": p}, drawn(rng, np.stack(scores, 1)), 0.1, 0.1


@data_set
def laboratory(rng: Any) -> Any:
    """Skewed values, measured where they were expected to be high, and wards as numbers."""
    x, ward = rng.lognormal(0, 2, (900, 8)), rng.integers(12, size=900)
    effect, high = rng.normal(size=(12, 4)) * 1.5, np.log(x)
    truth = drawn(rng, effect[ward] + 0.7 * high[:, :4] + 0.5 * high[:, 4:] - 0.3)
    lab = np.where(rng.random(x.shape) < expit(1.5 * high - 0.5), x, np.nan)
    admin = np.column_stack([ward, rng.integers(1000, 9999, 900), rng.integers(18, 95, 900)])
    return {"lab": lab, "admin": admin.astype(float)}, truth, 0.0, 0.1


@data_set
def suspicion(rng: Any) -> Any:
    """Views that are there because of a label."""
    z = rng.normal(size=(800, 4))
    truth = drawn(rng, 2 * z - 0.5)
    views = {"base": z @ rng.normal(size=(4, 10)) * 0.4 + 1.5 * rng.normal(size=(800, 10))}
    for name, label, width in (("ct", 1, 20), ("lab", 0, 15)):
        values = truth @ rng.normal(size=(4, width)) * 0.5 + 1.5 * rng.normal(size=(800, width))
        done = rng.random(800) < np.where(truth[:, label] == 1, 0.87, 0.2)
        views[name] = np.where(done[:, None], values, np.nan)
    return views, truth, 0.0, 0.1


@data_set
def omics(rng: Any) -> Any:
    """Many columns, batches, and clinical categories."""
    z = rng.normal(size=(360, 8)) + 1.5 * rng.normal(size=(5, 8))[rng.integers(5, size=360)]
    batch, stage = rng.integers(4, size=360), rng.integers(4, size=360)

    def layer(width: int, noise: float) -> Any:
        weights = rng.normal(size=(8, width)) * (rng.random((8, width)) < 0.2)
        shifts = 0.8 * rng.normal(size=(4, width))[batch]
        return z @ weights + shifts + noise * rng.normal(size=(360, width))

    truth = drawn(rng, z @ rng.normal(size=(8, 7)) * 0.6 + (stage[:, None] - 1.5) * 0.5 - 1.2)
    clinical = np.column_stack([np.eye(4)[stage], 50 + 12 * rng.normal(size=360)])
    clinical[rng.random(360) < 0.15, 4] = np.nan
    return (
        {"rna": layer(400, 2.0), "protein": layer(80, 1.5), "clinical": clinical},
        truth,
        0.3,
        0.2,
    )


@data_set
def words(rng: Any) -> Any:
    """Counts of words in a title and a body."""
    topics = rng.dirichlet(np.full(12, 0.2), 600)

    def channel(width: int, length: int) -> Any:
        shares = topics @ rng.dirichlet(np.full(width, 0.03), 12)
        counts = [rng.multinomial(max(5, rng.poisson(length)), p / p.sum()) for p in shares]
        return np.array(counts, dtype=float)

    truth = drawn(rng, 10 * (3 * topics @ rng.dirichlet(np.full(12, 0.3), 8).T - 0.45))
    return {"title": channel(100, 8), "body": channel(400, 80)}, truth, 0.25, 0.3


@data_set
def classes(rng: Any) -> Any:
    """Seven classes that exclude each other."""
    kind = rng.choice(7, 500, p=[0.3, 0.2, 0.15, 0.12, 0.1, 0.08, 0.05])
    x = rng.normal(size=(7, 15))[kind] + 1.6 * rng.normal(size=(500, 15))
    w = 0.5 * rng.normal(size=(7, 30))[kind] + 1.5 * rng.normal(size=(500, 30))
    return {"x": x, "w": w}, np.eye(7)[kind], 0.3, 0.25


@data_set
def outliers(rng: Any) -> Any:
    """Cells of a million, heavy tails, copies of columns, units of all sizes."""
    z = rng.normal(size=(500, 6))
    truth = drawn(rng, 2 * z @ rng.normal(size=(6, 6)) - 0.5)
    a = (z @ rng.normal(size=(6, 25)) + rng.normal(size=(500, 25))) * 10.0 ** np.linspace(-9, 5, 25)
    a[rng.random(a.shape) < 0.005] = 1e6
    b = 0.5 * rng.standard_t(1.5, (500, 15)) + z @ rng.normal(size=(6, 15))
    return {"a": a, "b": np.hstack([b, b[:, :5]])}, truth, 0.25, 0.2


@data_set
def twelve_views(rng: Any) -> Any:
    """Twelve views of one to forty columns, half of them missing."""
    z = rng.normal(size=(400, 6))
    truth, views = drawn(rng, 1.5 * z @ rng.normal(size=(6, 8)) - 0.5), {}
    for k, width in enumerate((1, 3, 10, 20, 5, 8, 40, 2, 1, 6, 15, 4)):
        own = z[:, [k % 6, (k + 1) % 6]] @ rng.normal(size=(2, width))
        views[f"v{k}"] = own + 1.5 * rng.normal(size=own.shape)
    return views, truth, 0.5, 0.3


@data_set
def rings(rng: Any) -> Any:
    """Distances from a centre, in one view and in two."""
    x, w = rng.normal(size=(1000, 8)), rng.normal(size=(1000, 6))
    r, s = np.linalg.norm(x[:, :3], axis=1) - 1.6, np.linalg.norm(w[:, :2], axis=1) - 1.2
    truth = drawn(rng, np.stack([8 * r, 8 * (np.abs(r) - 0.4), 6 * s, 4 * (r + s)], axis=1))
    return {"x": x, "w": w}, truth, 0.15, 0.1


def split_of(name: str, seed: int) -> tuple[Any, Any, Any]:
    """Views, columns and labels with gaps to fit on; views and columns of new rows; their truth."""
    from viewgap.data.viewset import ViewSet

    rng = np.random.default_rng([seed, *name.encode()])
    views, truth, view_rate, label_rate = SETS[name](rng)
    n, m = len(truth), len(views)
    seen = rng.random((n, m)) >= view_rate
    seen[np.arange(n), rng.integers(m, size=n)] = True
    for index, own in enumerate(views.values()):
        own[~seen[:, index]] = np.nan
    there = np.column_stack([~np.isnan(own).all(axis=1) for own in views.values()])
    some = there.any(axis=1)
    views, truth, there = {k: v[some] for k, v in views.items()}, truth[some], there[some]
    order = rng.permutation(len(truth))
    train, test = np.sort(order[: int(0.7 * len(order))]), np.sort(order[int(0.7 * len(order)) :])
    whole = ViewSet(views, there)
    Y = np.where(rng.random(truth.shape) < label_rate, np.nan, truth)[train]
    columns = np.hstack(list(views.values()))
    return (whole[train], columns[train], Y), (whole[test], columns[test]), truth[test]


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


def ensemble(seed: int, train: Any, new: Any, scsd: bool) -> dict[str, Any]:
    """Answers of the ensemble, and of its members of single views stacked without the joint one."""
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
    old = [member for member in kept if member.name in ALONE]
    stacking = Stacking.fit(
        np.stack([own.out_of_fold for own in old]), as_labels(train[1], train[0])
    )
    before = stacking(np.stack([np.asarray(own.model.predict_proba(new)) for own in old]))
    return {"ensemble": model.predict_proba(new), "before": before}


def measure(name: str, seed: int, scsd: bool) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    start = time.process_time()
    (views, X, Y), (new, X_new), truth = split_of(name, seed)
    found = ensemble(seed, (views, Y), new, scsd)
    seconds = time.process_time() - start
    found |= {kind: per_label(make, X, Y, X_new) for kind, make in others(seed).items()}
    found["frequency"] = np.tile(np.nanmean(Y, axis=0), (len(truth), 1))
    return {
        "set": name,
        "seed": seed,
        "scsd": scsd,
        "ensemble_seconds": round(seconds, 1),
        **{kind: figures(truth, own) for kind, own in found.items()},
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", default="0:2", help="first:last, the last left out")
    parser.add_argument("--jobs", type=int, default=1, help="sets at the same time")
    parser.add_argument("--scsd", action="store_true", help="with SCSD, as the default has it")
    parser.add_argument("--out", type=Path, default=KEPT, help="append the lines to this file")
    options = parser.parse_args(arguments)
    first, _, last = options.seeds.partition(":")
    tasks = [(name, seed) for seed in range(int(first), int(last)) for name in options.sets]
    lines = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(measure, *task, options.scsd) for task in tasks]:
            lines.append(done.result())
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(lines[-1]) + "\n")
    print(*(table(lines, metric) for metric in ("AP", "AUC", "log_loss")), sep="\n\n")


if __name__ == "__main__":
    main()
