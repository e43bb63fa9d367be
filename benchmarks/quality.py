"""What a choice brings, on validation rows: this is where the default model was made.

    python benchmarks/quality.py emotions --folds 10:20 --set n_networks=1 --name one_network
    python benchmarks/quality.py corel5k --folds 0:2 --stop validation --features log --name log

Fits SCSD (or `--method`) on the training rows of some folds and measures it on their validation
rows; test rows are never looked at. Training stops by a part of the training rows, so that the
validation rows judge, or (`--stop validation`, for large sets) by the validation rows themselves.
`--features` prepares the views in ways that were tried and dropped. One line of JSON per fold is
appended to `--out`; `docs/quality.md` tells the story.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiments import RATES, append, fold_numbers
from viewgap import methods
from viewgap.cli.inputs import parse_settings
from viewgap.data.viewset import ViewSet
from viewgap.datasets import load_dataset
from viewgap.metrics import calibration_error
from viewgap.metrics.evaluation import field_metrics

Floats = NDArray[np.float32]


def standardised(x: Floats, seen: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1 over the training rows."""
    return (x - seen.mean(axis=0)) / (seen.std(axis=0) + 1e-9)


# From (values, values of the training rows) to new values; the first three for views without
# negative values only.
PREPARATIONS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "sqrt": lambda x, seen: np.sqrt(x),
    "fourth": lambda x, seen: np.sqrt(np.sqrt(x)),
    "log": lambda x, seen: np.log1p(x),
    "squash": lambda x, seen: np.arcsinh(standardised(x, seen)),
}


def prepared(views: ViewSet, kind: str, train: NDArray[np.int64]) -> ViewSet:
    """The views with one of the preparations applied to observed rows."""
    blocks = {}
    for j, name in enumerate(views.names):
        values = np.array(views.rows(name), dtype=np.float32)
        there = views.observed[:, j]
        seen = values[train[there[train]]]
        if kind == "squash" or (values[there] >= 0).all():
            values[there] = PREPARATIONS[kind](values[there], seen)
        blocks[name] = values
    return ViewSet(blocks, observed=views.observed, sample_ids=views.sample_ids)


def judge(options: argparse.Namespace, params: dict[str, Any], fold: int) -> dict[str, Any]:
    """Fit on the training rows of a fold; figures of its validation rows."""
    data = load_dataset(options.dataset)
    chosen = data.fold(fold, **RATES)
    views = data.views
    if options.features:
        views = prepared(views, options.features, chosen.train)
    split = chosen.split(views, data.labels)
    kind = methods.get(options.method)
    known = kind().get_params()
    own = {"random_state": 1, **({"features": "plain"} if options.features else {})}
    model = kind(**{**{k: v for k, v in own.items() if k in known}, **params})
    start = time.monotonic()
    model.fit(*split.train, validation=split.validation if options.stop == "validation" else None)
    seconds = time.monotonic() - start
    found = model.predict_proba(split.validation[0])
    return {
        "name": options.name,
        "dataset": options.dataset,
        "fold": fold,
        "method": options.method,
        "stop": options.stop,
        "features": options.features,
        "params": params,
        "metrics": {k: round(v, 4) for k, v in field_metrics(split.validation[1], found).items()},
        "calibration error": round(calibration_error(split.validation[1], found), 4),
        "epochs": getattr(model, "best_epoch_", None),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--name", default="default")
    parser.add_argument("--method", default="scsd")
    parser.add_argument("--folds", default="10:20", help="first:last, the last left out")
    parser.add_argument("--stop", choices=["inside", "validation"], default="inside")
    parser.add_argument("--features", choices=sorted(PREPARATIONS))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    options = parser.parse_args()
    for fold in fold_numbers(options.folds):
        line = judge(options, parse_settings(options.set), fold)
        print(json.dumps(line), flush=True)
        append(options.out, line)


if __name__ == "__main__":
    main()
