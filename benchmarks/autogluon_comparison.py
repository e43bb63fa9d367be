"""AutoGluon against the ensemble, on the test rows of the same folds and in the same time.

    python -m benchmarks.autogluon_comparison emotions scene plant --folds 0:2 --out FILE

AutoGluon fits one TabularPredictor per label on the training rows where it is observed, with all
views side by side and NaN where a view is missing; it has as many seconds as the fit of
`viewgap.Ensemble`, divided by the number of labels (`--times`: so many times as many). The presets
are AutoGluon's own default: `best_quality` finds no model in the few seconds of a small data set.
Needs `pip install 'autogluon.tabular[lightgbm,xgboost,catboost]'`, and ends where it is not there.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ensemble import precision
from benchmarks.experiments import append, fold_numbers, split_of

SETS = ("emotions", "scene", "plant")


def as_table(views: Any) -> Any:
    """All views side by side, NaN where missing."""
    import pandas as pd

    blocks = [
        np.where(views.observed[:, [j]], views.rows(name), np.nan)
        for j, name in enumerate(views.names)
    ]
    values = np.hstack(blocks)
    return pd.DataFrame(values, columns=[f"x{j}" for j in range(values.shape[1])])


def predict_label(table: Any, y: Any, test: Any, seconds: float, presets: str) -> tuple[Any, str]:
    """Probabilities (n,) of one label, and why they are its frequency (else nothing)."""
    from autogluon.tabular import TabularPredictor

    seen = ~np.isnan(y)
    constant = np.full(len(test), np.nanmean(y))
    if len(np.unique(y[seen])) < 2:
        return constant, "one value"
    train = table[seen].assign(target=y[seen].astype(int))
    with tempfile.TemporaryDirectory() as folder:
        predictor = TabularPredictor("target", eval_metric="log_loss", path=folder, verbosity=0)
        try:
            predictor.fit(train, time_limit=seconds, presets=presets)
        except (AssertionError, RuntimeError, ValueError) as error:
            return constant, str(error)[:100]
        return predictor.predict_proba(test)[1].to_numpy(), ""


def measure(name: str, fold: int, presets: str, times: float) -> dict[str, Any]:
    """Both on the test rows of one fold."""
    import autogluon.tabular

    import viewgap

    split = split_of(name, fold)
    (views, Y), (test, truth) = split.train, split.test
    Y = np.asarray(Y, dtype=np.float64)
    start = time.monotonic()
    model = viewgap.Ensemble(random_state=fold).fit(views, Y)
    ours = time.monotonic() - start
    table, test_table = as_table(views), as_table(test)
    each = times * ours / Y.shape[1]
    start = time.monotonic()
    answers = [predict_label(table, y, test_table, each, presets) for y in Y.T]
    theirs = time.monotonic() - start
    return {
        "dataset": name,
        "fold": fold,
        "ap": {
            "ensemble": precision(truth, model.predict_proba(test)),
            "autogluon": precision(truth, np.column_stack([found for found, _ in answers])),
        },
        "seconds": {"ensemble": round(ours, 1), "autogluon": round(theirs, 1)},
        "autogluon": {
            "version": autogluon.tabular.__version__,
            "presets": presets,
            "seconds_per_label": round(each, 2),
            "labels_without_model": [reason for _, reason in answers if reason],
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=SETS)
    parser.add_argument("--folds", default="0:2", help="first:last, the last left out")
    parser.add_argument("--presets", default="medium_quality", help="of AutoGluon")
    parser.add_argument("--times", type=float, default=1.0, help="times the time of the ensemble")
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("autogluon") is None:
        print("AutoGluon is not installed: nothing to compare (see --help of this command)")
        return
    warnings.simplefilter("ignore")
    for name in options.datasets:
        for fold in fold_numbers(options.folds):
            line = measure(name, fold, options.presets, options.times)
            print(json.dumps(line), flush=True)
            append(options.out, line)


if __name__ == "__main__":
    main()
