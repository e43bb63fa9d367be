"""Ways to stack the members of an ensemble, on out-of-fold rows.

    python -m benchmarks.stacking emotions cll --folds 10:12 --keep FOLDER

The members of `viewgap.Ensemble` are fitted once on the training rows of every fold; their
out-of-fold probabilities are kept in `--keep` and used again. Each way to stack them is fitted on
four fifths of these rows and measured on the fifth, for three divisions of the rows; test rows are
never looked at. Prints average precision and log loss, and keeps them in `stacking.json`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from benchmarks.experiments import fold_numbers, split_of
from viewgap.fsio import write_file
from viewgap.metrics import average_precision

KEPT = Path(__file__).with_name("stacking.json")
SETS = ("emotions", "birds", "cll", "scene", "plant")
PARTS, DIVISIONS, EPS = 5, 3, 1e-4


class Prior(NamedTuple):
    """Standard deviations of log w, of a shift per label, and of log w per label (0: none)."""

    weight: float
    shift: float = 0.0
    per_label: float = 0.0
    about_frequencies: bool = False  # what is weighted: log-odds, or how far they are from those


WAYS: dict[str, Prior | None] = {
    "plain mean": None,
    **{f"weights, std {std:g}": Prior(std) for std in (0.1, 0.3, 1.0, 3.0)},
    "weights, std 1, shift per label": Prior(1.0, shift=0.3),
    "weights per label, std 0.3": Prior(1.0, per_label=0.3),
    **{
        f"about the frequencies, std {std:g}": Prior(std, about_frequencies=True)
        for std in (0.1, 0.3, 1.0, 3.0)
    },
}


def members_out_of_fold(name: str, fold: int, folder: Path) -> tuple[Any, Any]:
    """Probabilities (K, n, c) of the members and the labels (n, c) of the training rows."""
    from viewgap.ensemble import estimator

    path = folder / f"{name}_{fold}.npz"
    if not path.exists():
        found: list[Any] = []

        class Recording(estimator.Ensemble):
            def _stack(self, members: Any, *rest: Any) -> None:
                found.extend(member.out_of_fold for member in members)
                super()._stack(members, *rest)

        views, Y = split_of(name, fold).train
        Recording(random_state=fold).fit(views, Y)
        np.savez(path, oof=np.stack(found), Y=np.asarray(Y, dtype=np.float64))
    with np.load(path) as file:
        return file["oof"], file["Y"]


class Way:
    """One way to stack, fitted by its penalised log loss: weights (K, c) and shift (c,)."""

    def __init__(self, scores: Any, Y: Any, stds: Prior | None) -> None:
        self.base = np.zeros(scores.shape[2])  # log-odds that the scores are weighted about
        if stds is not None and stds.about_frequencies:
            self.base = np.log((Y == 1).sum(axis=0) + 0.5) - np.log((Y == 0).sum(axis=0) + 0.5)
        n_members, _, n_labels = scores.shape
        self.weights = np.full((n_members, n_labels), 1 / n_members)
        self.shift = np.zeros(n_labels)
        if stds is not None:
            self._fit(scores, Y, stds)

    def _fit(self, scores: Any, Y: Any, stds: Prior) -> None:
        observed = ~np.isnan(Y) & np.isfinite(scores).all(axis=0)
        scores = scores - self.base
        scores, truth = np.where(observed, scores, 0.0), np.where(observed, Y, 0.0)
        n_members, _, n_labels = scores.shape
        sizes = [n_members, n_labels if stds[1] else 0, n_members * n_labels if stds[2] else 0]
        spread = np.repeat([stds[0], stds[1] or 1.0, stds[2] or 1.0], sizes)

        def parts(x: Any) -> tuple[Any, Any]:
            common, shift, own = np.split(x * spread, np.cumsum(sizes)[:2])
            log_weights = common[:, None] + (own.reshape(n_members, -1) if own.size else 0.0)
            weights = np.exp(log_weights - np.log(n_members))
            return np.broadcast_to(weights, (n_members, n_labels)), shift if shift.size else 0.0

        def loss(x: Any) -> tuple[float, Any]:
            weights, shift = parts(x)
            total = np.einsum("kc,knc->nc", weights, scores) + shift + self.base
            gap = (1 / (1 + np.exp(-total)) - truth) * observed
            by_weight = np.einsum("nc,knc->kc", gap, scores) * weights
            slopes = [by_weight.sum(axis=1)]
            slopes += [gap.sum(axis=0)] if sizes[1] else []
            slopes += [by_weight.ravel()] if sizes[2] else []
            value = np.sum((np.logaddexp(0.0, total) - truth * total) * observed) + x @ x / 2
            return float(value), np.concatenate(slopes) * spread + x

        found = minimize(loss, np.zeros(sum(sizes)), jac=True, method="L-BFGS-B").x
        weights, shift = parts(found)
        self.weights, self.shift = weights, shift + np.zeros(n_labels)

    def __call__(self, scores: Any) -> Any:
        total = np.einsum("kc,knc->nc", self.weights, scores - self.base) + self.shift + self.base
        return 1 / (1 + np.exp(-total))


def log_loss(Y: Any, found: Any) -> float:
    seen = ~np.isnan(Y) & np.isfinite(found)
    p = np.clip(np.where(Y == 1, found, 1 - found)[seen], 1e-6, 1)
    return float(-np.log(p).mean())


def measure(probabilities: Any, Y: Any) -> Iterator[tuple[str, float, float]]:
    """Average precision and log loss of every way, on rows that it was not fitted on."""
    bounded = np.clip(probabilities, EPS, 1 - EPS)
    scores = np.log(bounded) - np.log1p(-bounded)
    for name, stds in WAYS.items():
        figures = []
        for seed in range(DIVISIONS):
            part = np.random.default_rng(seed).permutation(len(Y)) % PARTS
            found = np.full(Y.shape, np.nan)
            for k in range(PARTS):
                way = Way(scores[:, part != k], Y[part != k], stds)
                found[part == k] = way(scores[:, part == k])
            ap = average_precision(Y, np.nan_to_num(found), variant="clean")
            figures.append((ap, log_loss(Y, found)))
        yield (name, *np.mean(figures, axis=0).tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", nargs="*", default=SETS)
    parser.add_argument("--folds", default="10:12", help="first:last, the last left out")
    parser.add_argument("--keep", type=Path, required=True, help="folder of the probabilities")
    options = parser.parse_args()
    options.keep.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    for name in options.datasets:
        for fold in fold_numbers(options.folds):
            probabilities, Y = members_out_of_fold(name, fold, options.keep)
            kept[f"{name} {fold}"] = {
                way: {"ap": round(ap, 4), "log_loss": round(loss, 4)}
                for way, ap, loss in measure(probabilities, Y)
            }
            print(name, fold, kept[f"{name} {fold}"], flush=True)
    write_file(KEPT, (json.dumps(kept, indent=1, sort_keys=True) + "\n").encode())
    for way in WAYS:
        means = [
            np.mean([fold[way][kind] for fold in kept.values()]) for kind in ("ap", "log_loss")
        ]
        print(f"{way:34s} AP {means[0]:.4f}  log loss {means[1]:.4f}  ({len(kept)} folds)")


if __name__ == "__main__":
    main()
