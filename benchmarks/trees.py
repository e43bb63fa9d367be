"""Libraries of tree ensembles, view by view and with all views side by side.

    python -m benchmarks.trees emotions scene --folds 10:12

Every library is cross-fitted in five parts by the code of `viewgap.ExtraTrees`, either with a model
per view, pooled by their log-odds, or with one model on all views side by side (missing ones at the
mean, and a column per view that says whether it was observed). Average precision on out-of-fold and
validation rows; test rows are never looked at. Processor seconds of the fit and of the prediction
of the validation rows, and the installed size of the library. Keeps all in `trees.json`, where
a new figure replaces the older one; libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.experiments import fold_numbers, split_of
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.fsio import write_file
from viewgap.methods.linalg.blocks import design_matrix
from viewgap.methods.trees.view_models import Copy
from viewgap.metrics import average_precision

KEPT = Path(__file__).with_name("trees.json")
SETS = ("emotions", "3sources", "scene", "plant", "birds", "cll")
TREES, RATE, LEAVES, ROWS, COLUMNS = 150, 0.05, 15, 5, 0.3


def hist_gradient_boosting(seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(
        max_iter=TREES,
        learning_rate=RATE,
        max_leaf_nodes=LEAVES,
        min_samples_leaf=ROWS,
        max_features=COLUMNS,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )


def xgboost(seed: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=TREES,
        learning_rate=RATE,
        max_leaves=LEAVES,
        grow_policy="lossguide",
        max_depth=0,
        tree_method="hist",
        min_child_weight=1.0,
        colsample_bytree=COLUMNS,
        subsample=0.8,
        reg_lambda=1.0,
        n_jobs=1,
        random_state=seed,
    )


class _PerLabel:
    """Classifiers with the interface of scikit-learn; a label with one value has its prior."""

    def __init__(self, make: Callable[[int], Any], X: Any, labels: Labels, copies: Sequence[Copy]):
        self.priors = [copy.prior for copy in copies]
        self.n_copies = len(copies)
        self.models = [
            [self._fit(make, X, labels, copy, label) for label in range(labels.n_labels)]
            for copy in copies
        ]

    def _fit(self, make: Any, X: Any, labels: Labels, copy: Copy, label: int) -> Any:
        rows = copy.rows[labels.observed[copy.rows, label]]
        y = labels.values[rows, label]
        return make(copy.seed).fit(X[rows], y) if y.any() and not y.all() else None

    def predict(self, copy: int, inputs: Any) -> Any:
        result = np.tile(self.priors[copy], (len(inputs), 1))
        for label, model in enumerate(self.models[copy]):
            if model is not None:
                result[:, label] = model.predict_proba(inputs)[:, 1]
        return result

    def to_arrays(self) -> dict[str, Any]:
        return {}


class OtherTrees(viewgap.ExtraTrees):
    """Classifiers of another library, one per label, in the place of the forests."""

    make: Callable[[int], Any]

    def _fit_view(self, inputs: Any, labels: Labels, copies: Sequence[Copy]) -> Any:
        return _PerLabel(self.make, inputs, labels, copies)


def make_model(library: str) -> Any:
    if library == "scikit-learn ExtraTrees":
        return viewgap.ExtraTrees(random_state=0, n_jobs=1)
    if library == "LightGBM":
        return viewgap.GradientBoosting(random_state=0, n_jobs=1)
    model = OtherTrees(random_state=0)
    model.make = OTHERS[library]
    return model


OTHERS = {"scikit-learn HistGradientBoosting": hist_gradient_boosting, "XGBoost": xgboost}
PACKAGES = {
    "scikit-learn ExtraTrees": "sklearn",
    "LightGBM": "lightgbm",
    "scikit-learn HistGradientBoosting": "sklearn",
    "XGBoost": "xgboost",
}


@cache
def installed_megabytes(package: str) -> float | None:
    """Size of all files of the distribution that brings a package; None if it is not there."""
    if importlib.util.find_spec(package) is None:
        return None
    [name, *_] = packages_distributions()[package]
    paths = [Path(str(file.locate())) for file in distribution(name).files or ()]
    return round(sum(path.stat().st_size for path in paths if path.exists()) / 1e6, 1)


def side_by_side(views: ViewSet, scaler: Standardiser) -> ViewSet:
    return ViewSet({"all": design_matrix(views, scaler)})


def measure(name: str, fold: int, library: str, arrangement: str) -> dict[str, Any]:
    (views, Y), (held, Y_held), _ = split_of(name, fold)
    if arrangement == "side by side":
        scaler = Standardiser.fit(views)
        views, held = side_by_side(views, scaler), side_by_side(held, scaler)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_model(library).fit(views, Y)
        fitted = time.process_time()
        found = model.predict_proba(held)
    return {
        "dataset": name,
        "fold": fold,
        "library": library,
        "views": arrangement,
        "ap_out_of_fold": round(average_precision(Y, model.out_of_fold_proba_, variant="clean"), 4),
        "ap_validation": round(average_precision(Y_held, found, variant="clean"), 4),
        "fit_seconds": round(fitted - started, 2),
        "predict_seconds": round(time.process_time() - fitted, 2),
    }


def keep(figure: dict[str, Any]) -> None:
    """Write a figure to the file, in the place of an older one."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {"figures": []}
    key = [figure[part] for part in ("dataset", "fold", "library", "views")]
    others = [
        old
        for old in kept["figures"]
        if [old[part] for part in ("dataset", "fold", "library", "views")] != key
    ]
    figures = sorted([*others, figure], key=lambda f: (f["dataset"], f["fold"], f["library"]))
    sizes = {library: installed_megabytes(package) for library, package in PACKAGES.items()}
    known = kept.get("installed_megabytes", {})
    known |= {library: size for library, size in sizes.items() if size is not None}
    lines = ",\n".join(f"  {json.dumps(figure)}" for figure in figures)
    text = f'{{\n "installed_megabytes": {json.dumps(known)},\n "figures": [\n{lines}\n ]\n}}\n'
    write_file(KEPT, text.encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=SETS)
    parser.add_argument("--folds", default="10:12", help="first:last, the last left out")
    parser.add_argument("--libraries", nargs="*", default=[], help="beginnings of names")
    parser.add_argument("--views", nargs="*", default=("one by one", "side by side"))
    options = parser.parse_args()
    chosen = [
        library
        for library, package in PACKAGES.items()
        if installed_megabytes(package) is not None
        and (not options.libraries or library.startswith(tuple(options.libraries)))
    ]
    for name in options.datasets:
        for fold in fold_numbers(options.folds):
            for library in chosen:
                for arrangement in options.views:
                    figure = measure(name, fold, library, arrangement)
                    keep(figure)
                    print(*figure.values(), sep="  ", flush=True)


if __name__ == "__main__":
    main()
