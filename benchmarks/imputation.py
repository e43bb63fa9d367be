"""How well missing views are filled in: SCSD, its decoder alone, a ridge, neighbours, column means.

    python -m benchmarks.imputation multidigits --folds 0:3
    python -m benchmarks.imputation emotions --folds 0:3 --view-rate 0.3
    python -m benchmarks.imputation corel5k --folds 0:3 --without decoder --set max_epochs=1
    python -m benchmarks.imputation --show results/quality/imputation.jsonl

The views that a fold hides are held back: the models see the training rows as the fold leaves them,
fill in the hidden views of the test rows (`--rows validation`: of the validation rows) from what
these have left, and the truth says how well. The figure is the squared error relative to that of
the column means of the training rows, over all values of a view; columns count in units of their
standard deviation over all samples. (With that of the training rows, columns that are almost
constant there would be the whole figure: 20 of the 4,096 of Corel5k's Rgb had 92 % of it.)

Ridge and neighbours get what a careful user would give them: all other views side by side,
standardised, missing ones at their mean, of equal weight; penalty and number of neighbours by
cross-validation. `ridge, prepared` reads them as SCSD's network does. `estimate` is what the model
itself says, `imputation_error_`. `impute` does not use the network: with `--without decoder` one
epoch is enough to judge it. One line of JSON per fold is appended to `--out`; `--show` prints the
tables of such a file.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import viewgap
from benchmarks.experiments import append, fold_numbers
from viewgap.cli.inputs import parse_settings
from viewgap.data.preprocessing import PreparedRows, Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.datasets import load_dataset
from viewgap.errors import ViewgapWarning

Matrix = NDArray[np.float64]
Indices = NDArray[np.intp]

PENALTIES = np.logspace(-2, 3, 11)  # of views whose squared rows have a mean of 1
NEIGHBOURS = (5, 10, 20, 40, 80)
FOLDS = 5
METHODS = ("mean", "neighbours", "ridge", "ridge, prepared", "decoder", "impute")


class Rows:
    """All views of some rows, standardised, zero where missing."""

    def __init__(self, views: ViewSet, scaler: Standardiser) -> None:
        reader = PreparedRows(views, scaler, np.float64)
        self.values = [reader.read(view) for view in range(views.n_views)]
        self.observed = np.array(views.observed)

    def side_by_side(self, rows: Indices, views: Sequence[int]) -> Matrix:
        """Some views of some rows, each divided by the root of its number of columns."""
        parts = [self.values[v][rows] / np.sqrt(self.values[v].shape[1]) for v in views]
        return np.hstack(parts)


class Task:
    """One view to fill in: the other views of training and new rows, and the view of the former.

    Shape: sources (n + k, d): the other views side by side, n training rows that have the view and
    another one, then k new rows; `has` (n + k, m - 1): which of the others they have; target
    (n, t).
    """

    def __init__(self, train: Rows, target: Matrix, new: Rows, view: int) -> None:
        others = [v for v in range(len(train.values)) if v != view]
        known = train.observed[:, view] & train.observed[:, others].any(axis=1)
        wanted = ~new.observed[:, view] & new.observed[:, others].any(axis=1)
        rows, self.wanted = np.flatnonzero(known), np.flatnonzero(wanted)
        parts = [train.side_by_side(rows, others), new.side_by_side(self.wanted, others)]
        self.sources = np.vstack(parts)
        has = [train.observed[np.ix_(rows, others)], new.observed[np.ix_(self.wanted, others)]]
        self.has = np.vstack(has)
        self.target = target[rows]
        self.dims = [train.values[v].shape[1] for v in others]
        self.fold = np.random.default_rng(0).permutation(len(rows)) % FOLDS

    def choose(self, candidates: Callable[[Indices, Indices], list[Matrix]]) -> Matrix:
        """The best of some candidates for the new rows, by cross-validation.

        `candidates(kept, wanted)`: predictions for rows from some training rows. Zero, the mean,
        if there are too few of these.
        """
        n = len(self.target)
        if n < FOLDS:
            return np.zeros((len(self.wanted), self.target.shape[1]))
        errors: Any = 0.0
        for number in range(FOLDS):
            held = np.flatnonzero(self.fold == number)
            found = candidates(np.flatnonzero(self.fold != number), held)
            errors += np.array([np.square(own - self.target[held]).sum() for own in found])
        return candidates(np.arange(n), np.arange(n, len(self.sources)))[int(errors.argmin())]


def ridge(task: Task) -> Matrix:
    """Regression on all other views side by side."""
    x, n = task.sources, len(task.target)
    if x.shape[1] <= n:

        def candidates(kept: Indices, wanted: Indices) -> list[Matrix]:
            values, vectors = np.linalg.eigh(x[kept].T @ x[kept])
            right = vectors.T @ (x[kept].T @ task.target[kept])
            return _filtered(x[wanted] @ vectors, values, right)

    else:
        products = x @ x[:n].T

        def candidates(kept: Indices, wanted: Indices) -> list[Matrix]:
            values, vectors = np.linalg.eigh(products[np.ix_(kept, kept)])
            left = products[np.ix_(wanted, kept)] @ vectors
            return _filtered(left, values, vectors.T @ task.target[kept])

    return task.choose(candidates)


def _filtered(left: Matrix, values: Matrix, right: Matrix) -> list[Matrix]:
    return [(left / (np.maximum(values, 0.0) + penalty)) @ right for penalty in PENALTIES]


def neighbours(task: Task) -> Matrix:
    """Mean of the nearest training rows, by the mean square distance over the common views."""
    n = len(task.target)
    distance, common = np.zeros((len(task.sources), n)), np.zeros((len(task.sources), n))
    for v, (start, end) in enumerate(pairwise(np.cumsum([0, *task.dims]))):
        x = task.sources[:, start:end]
        both = np.outer(task.has[:, v], task.has[:n, v])
        length = np.square(x).sum(axis=1)
        distance += both * (length[:, None] + length[:n] - 2 * x @ x[:n].T)
        common += both
    distance = np.where(common > 0, distance / np.maximum(common, 1), np.inf)

    def candidates(kept: Indices, wanted: Indices) -> list[Matrix]:
        order = np.argsort(distance[np.ix_(wanted, kept)], axis=1)
        y = task.target[kept]
        sizes = [min(k, len(kept)) for k in NEIGHBOURS]
        return [np.stack([y[near[:size]].mean(axis=0) for near in order]) for size in sizes]

    return task.choose(candidates)


def filled(model: viewgap.SCSD, views: ViewSet, scaler: Standardiser) -> list[Matrix]:
    """What `impute` makes of every view, standardised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)
        result = model.impute(views)
    return [PreparedRows(result, scaler, np.float64).read(v) for v in range(views.n_views)]


def judge(options: argparse.Namespace, params: dict[str, Any], fold: int) -> dict[str, Any]:
    """Figures of one fold, by view and method."""
    data = load_dataset(options.dataset)
    chosen = data.fold(fold, view_rate=options.view_rate, label_rate=0.5, train_share=0.7)
    split = chosen.split(data.views, data.labels)
    train, new = split.train[0], getattr(split, options.rows)[0]
    truth = data.views[getattr(chosen, options.rows)]
    start = time.monotonic()
    model = viewgap.SCSD(**{"random_state": 1, **params}).fit(*split.train)
    seconds = time.monotonic() - start
    scaler, prepared = Standardiser.fit(train), Standardiser.fit(train, features="auto")
    by_model = {"impute": filled(model, new, scaler)}
    if "decoder" not in options.without:
        decoding = copy.copy(model)
        decoding._regression = None  # as models of earlier versions do
        by_model["decoder"] = filled(decoding, new, scaler)
    sources = {own: (Rows(train, own), Rows(new, own)) for own in (scaler, prepared)}
    unit = Standardiser.fit(data.views)
    errors: dict[str, dict[str, float]] = {}
    for view, name in enumerate(train.names):
        target = sources[scaler][0].values[view]
        plain, ranked = (Task(own, target, other, view) for own, other in sources.values())
        here = truth.observed[plain.wanted, view]  # some are missing by nature
        if not here.any():
            continue
        found = {method: own[view][plain.wanted] for method, own in by_model.items()}
        found |= {"neighbours": neighbours(plain), "ridge": ridge(plain)}
        found |= {"ridge, prepared": ridge(ranked), "mean": np.zeros_like(found["ridge"])}
        wanted = PreparedRows(truth, scaler, np.float64).read(view, plain.wanted)
        scale = scaler.scale[view]
        weight = np.square(unit.scale[view] / np.where(scale > 0, scale, 1))
        total = {m: (weight * np.square(own - wanted)[here]).sum() for m, own in found.items()}
        errors[name] = {m: round(float(own / total["mean"]), 4) for m, own in total.items()}
        errors[name]["estimate"] = round((model.imputation_error_ or {}).get(name, np.nan), 4)
    return {
        "dataset": options.dataset,
        "fold": fold,
        "rows": options.rows,
        "view_rate": options.view_rate,
        "params": params,
        "errors": errors,
        "seconds": round(seconds, 1),
    }


def as_markdown(lines: Sequence[dict[str, Any]]) -> str:
    """A table of the means over the folds: a row per view, and their mean."""
    known = lines[0]["errors"][next(iter(lines[0]["errors"]))]
    columns = [name for name in (*METHODS, "estimate") if name in known]
    table = [f"| view | {' | '.join(columns)} |", f"|---{'|---:' * len(columns)}|"]
    views = list(dict.fromkeys(view for line in lines for view in line["errors"]))
    means = {
        view: [
            np.mean([line["errors"][view][c] for line in lines if view in line["errors"]])
            for c in columns
        ]
        for view in views
    }
    means["mean of the views"] = list(np.mean(list(means.values()), axis=0))
    table += [f"| {v} | {' | '.join(f'{x:.3f}' for x in own)} |" for v, own in means.items()]
    return "\n".join(table)


def tables(path: Path) -> str:
    """The tables of all data sets and rates in a file."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        groups.setdefault((line["dataset"], line["view_rate"]), []).append(line)
    return "\n\n".join(
        f"{dataset}, {rate:.0%} of the views missing (folds "
        f"{', '.join(str(line['fold']) for line in lines)}):\n\n{as_markdown(lines)}"
        for (dataset, rate), lines in groups.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset", nargs="?")
    parser.add_argument("--show", type=Path, help="print the tables of this file")
    parser.add_argument("--folds", default="10:12", help="first:last, the last left out")
    parser.add_argument("--rows", choices=["test", "validation"], default="test")
    parser.add_argument("--view-rate", type=float, default=0.5)
    parser.add_argument("--without", nargs="*", choices=["decoder"], default=[])
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, help="append the lines to this file")
    options = parser.parse_args()
    if options.show:
        print(tables(options.show))
        return
    lines = []
    for fold in fold_numbers(options.folds):
        lines.append(judge(options, parse_settings(options.set), fold))
        append(options.out, lines[-1])
    print(as_markdown(lines))


if __name__ == "__main__":
    main()
