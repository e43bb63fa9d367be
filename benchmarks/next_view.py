"""Does `suggest_view` choose better than chance or one fixed order? Back-test on known views.

    python -m benchmarks.next_view [multidigits corel5k cll ...] [--methods late_fusion_ridge ...]
        [--splits 2] [--rows test|validation] [--out benchmarks/next_view.json]

A model is fitted on training rows, `suggest_view` learns from reference rows, and views of test
rows are hidden: every pattern of the views that a row has with at least two of them hidden. One
hidden view is shown again, chosen by each policy, and the average precision of the row is compared
with that when all its views are shown (lost AP; negative where the model does better without some
of them). A row counts once: the mean over its patterns and over the splits in which it was tested.

- `nothing`: no view is shown again; `random`: the mean over the hidden views; `file order`: the
  first hidden view in the order of the data.
- `fixed`: views in the order of their mean gain of AP over all patterns of the reference rows.
- `by pattern`: the view with the largest mean gain for the pattern at hand, without looking at the
  sample.
- `suggested`: what `ViewSuggester` ranks first.
- `oracle`: the view after which AP is highest, known only afterwards: no policy can reach it.

Large data sets (`FIXED_TEST`) have a quarter of the rows as test rows in all splits; the others
are split in two: training rows, and reference and validation rows. How gains are estimated was
chosen on validation rows of these; small sets, drawn anew for every split (half, a quarter, a
quarter), had no part in it. Intervals: 95 %, rows drawn anew 2,000 times.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import viewgap
from benchmarks.machine import machine_name
from viewgap.explanation import ViewSuggester
from viewgap.explanation.label_losses import label_losses
from viewgap.explanation.shapley import all_subsets
from viewgap.explanation.subsets import subset_answers

Floats = NDArray[np.float64]

FIXED_TEST = ("corel5k", "multidigits")
POLICIES = ("nothing", "random", "file order", "fixed", "by pattern", "suggested", "oracle")
SETTINGS: dict[str, dict[str, Any]] = {
    "late_fusion_ridge": {},
    "extra_trees": {"n_estimators": 30, "n_jobs": 1},
    "scsd": {"n_networks": 1, "hidden": (64,), "embedding": 32, "max_epochs": 60, "device": "cpu"},
}
SHOWN = (
    ("corel5k", "Corel5k"),
    ("multidigits", "MultiDigits"),
    ("cll", "CLL"),
    ("plant", "plant"),
    ("birds", "birds"),
    ("3sources", "3sources"),
)
DRAWS = 2000
ROWS_AT_ONCE = 100


def split(name: str, n: int, seed: int, rows: str) -> tuple[Any, Any, Any]:
    """Training, reference and tested rows."""
    rng = np.random.default_rng(seed + 1)
    if name not in FIXED_TEST:
        order = rng.permutation(n)
        return order[: n // 2], order[n // 2 : 3 * n // 4], order[3 * n // 4 :]
    first = np.random.default_rng(2026).permutation(n)
    test, order = first[: n // 4], rng.permutation(first[n // 4 :])
    half = len(order) // 2
    rest = order[half:]
    validation = rest[len(rest) // 2 :]
    return order[:half], rest[: len(rest) // 2], test if rows == "test" else validation


def precision(truth: Floats, answers: Floats) -> Floats:
    """Average precision of every row; NaN without an observed positive label."""
    parts = label_losses("average_precision", truth, answers)
    return np.where(np.isnan(parts).all(axis=1), np.nan, -np.nansum(parts, axis=1))


def precisions(model: Any, views: Any, truth: Floats) -> Floats:
    """AP of every row for every subset of the views, (n, 2**m)."""
    subsets, every = all_subsets(views.n_views), list(range(truth.shape[1]))
    found = np.empty((len(views), len(subsets)))
    for start in range(0, len(views), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        answers = subset_answers(model, views[part], subsets, every)
        for number in range(len(subsets)):
            found[part, number] = precision(truth[part], answers[:, number])
    return found


def mean_gains(ap: Floats, observed: Any) -> Floats:
    """Mean gain of AP by each view over all rows and patterns without it, (m,)."""
    m = observed.shape[1]
    subsets = all_subsets(m)
    total, count = np.zeros(m), np.zeros(m)
    for number in range(1, 2**m):
        for view in np.flatnonzero(~subsets[number]):
            both = subsets[number | 1 << view]
            rows = (observed | ~both).all(axis=1)
            gain = ap[rows, number | 1 << view] - ap[rows, number]
            total[view] += np.nansum(gain)
            count[view] += (~np.isnan(gain)).sum()
    return total / np.maximum(count, 1)


def back_test(
    suggester: ViewSuggester, fixed: Floats, reference: Any, views: Any, ap: Floats
) -> Iterator[tuple[NDArray[np.intp], dict[str, Floats]]]:
    """Rows of every pattern and the AP lost by each policy.

    `reference` is the AP of the reference rows by pattern, and the views that they have.
    """
    m, observed = views.n_views, views.observed
    own = (observed * (1 << np.arange(m))).sum(axis=1)
    for number, pattern in enumerate(all_subsets(m)):
        hidden = np.flatnonzero(~pattern)
        able = (observed | ~pattern).all(axis=1) & (observed[:, hidden].sum(axis=1) >= 2)
        rows = np.flatnonzero(able & ~np.isnan(ap[:, 0]))
        if number == 0 or len(hidden) < 2 or not len(rows):
            continue
        there = observed[np.ix_(rows, hidden)]
        after = np.where(there, ap[rows][:, [number | 1 << v for v in hidden]], np.nan)
        shown = views[rows].with_observed(np.tile(pattern, (len(rows), 1)))
        gain, _ = suggester.expected_gains(shown)
        mean = own_means(*reference, pattern)
        scores = {
            "file order": np.tile(-np.arange(len(hidden), dtype=float), (len(rows), 1)),
            "fixed": np.tile(fixed[hidden], (len(rows), 1)),
            "by pattern": np.tile(mean, (len(rows), 1)),
            "suggested": gain[:, hidden],
            "oracle": after,
        }
        best = ap[rows, own[rows]]
        lost = {"nothing": best - ap[rows, number], "random": best - np.nanmean(after, axis=1)}
        for policy, score in scores.items():
            allowed = np.where(there, np.nan_to_num(score, nan=-1e9), -np.inf)
            choice = allowed.argmax(axis=1)
            lost[policy] = best - after[np.arange(len(rows)), choice]
        yield rows, lost


def own_means(ap: Floats, observed: Any, pattern: Any) -> Floats:
    """Mean gain of AP by each hidden view over the reference rows that tell about this pattern."""
    bits = 1 << np.arange(len(pattern))
    found = []
    for view in np.flatnonzero(~pattern):
        both = pattern | (np.arange(len(pattern)) == view)
        rows = (observed | ~both).all(axis=1)
        gain = ap[rows, bits @ both] - ap[rows, bits @ pattern]
        told = gain[~np.isnan(gain)]
        found.append(told.mean() if len(told) else np.nan)
    return np.array(found)


def measured(name: str, method: str, splits: int, rows: str, measure: str | None) -> dict[str, Any]:
    data = viewgap.load_dataset(name)
    labels, n = np.asarray(data.labels, dtype=float), len(data.views)
    total = {policy: np.zeros(n) for policy in POLICIES}
    count, began = np.zeros(n), time.monotonic()
    slopes, tried = 0, 0
    for seed in range(splits):
        train, reference, tested = split(name, n, seed, rows)
        model = viewgap.methods.get(method)(
            random_state=0, on_empty="prior", **SETTINGS.get(method, {})
        ).fit(data.views[train], labels[train])
        known = ~np.isnan(model.label_frequency_)
        truth = np.where(known, labels, np.nan)
        suggester = ViewSuggester(model, measure).fit(data.views[reference], labels[reference])
        of_reference = precisions(model, data.views[reference], truth[reference])
        known_views = data.views.observed[reference]
        fixed = mean_gains(of_reference, known_views)
        views = data.views[tested]
        ap = precisions(model, views, truth[tested])
        for own, lost in back_test(suggester, fixed, (of_reference, known_views), views, ap):
            np.add.at(count, tested[own], 1)
            for policy, values in lost.items():
                np.add.at(total[policy], tested[own], values)
        learned = [own for own in suggester._learned.values() if own is not None]
        slopes += sum(int((own.slopes != 0).any(axis=0).sum()) for own in learned)
        tried += sum(own.slopes.shape[1] for own in learned)
        print(name, method, "split", seed, f"{time.monotonic() - began:.0f} s", flush=True)
    there = count > 0
    lost = {policy: values[there] / count[there] for policy, values in total.items()}
    lines = {
        policy: {
            "lost AP": interval(values),
            "against fixed": interval(values - lost["fixed"]),
            "against by pattern": interval(values - lost["by pattern"]),
            "against random": interval(values - lost["random"]),
        }
        for policy, values in lost.items()
    }
    return {
        "data": name,
        "method": method,
        "measure": measure,
        "rows": rows,
        "splits": splits,
        "n_rows": int(there.sum()),
        "share of gains with a slope": slopes / max(1, tried),
        "seconds": round(time.monotonic() - began),
        "policies": lines,
    }


def interval(values: Floats) -> list[float]:
    """Mean and its 95 % interval, rows drawn anew."""
    rng = np.random.default_rng(0)
    draws = [values[rng.integers(len(values), size=len(values))].mean() for _ in range(DRAWS)]
    return [float(values.mean()), *(float(q) for q in np.quantile(draws, [0.025, 0.975]))]


def table(results: list[dict[str, Any]]) -> str:
    """The results as the table of docs/next_view.md."""
    beside = ("fixed", "random")
    head = ("data", "method", "splits", *POLICIES, *(f"suggested - {own}" for own in beside))
    lines = [f"| {' | '.join(head)} |", "|---|---|" + "---:|" * (len(head) - 2)]
    names = dict(SHOWN)
    for own in sorted(results, key=lambda own: [*names, own["data"]].index(own["data"])):
        figures = [f"{own['policies'][policy]['lost AP'][0]:.4f}" for policy in POLICIES]
        for policy in beside:
            found = own["policies"]["suggested"].get(f"against {policy}")
            figures.append("–" if not found else "{:+.4f} ({:+.4f} to {:+.4f})".format(*found))
        shown = [figure.replace("0.", ".") for figure in figures]
        name = names.get(own["data"], own["data"])
        lines.append(f"| {name} | {own['method']} | {own['splits']} | {' | '.join(shown)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", default=["multidigits", "corel5k", "cll"])
    parser.add_argument("--methods", nargs="+", default=["late_fusion_ridge"])
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", choices=("test", "validation"), default="test")
    parser.add_argument("--measure", default=None)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/next_view.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", viewgap.errors.ViewgapWarning)
    for name in given.data:
        for method in given.methods:
            new = measured(name, method, given.splits, given.rows, given.measure)
            old = json.loads(given.out.read_text())["results"] if given.out.exists() else []
            same = ("data", "method", "rows", "measure")
            kept = [own for own in old if any(own[key] != new[key] for key in same)]
            content = {"machine": machine_name("cpu"), "results": [*kept, new]}
            given.out.write_text(json.dumps(content, indent=1) + "\n")
            print(table([new]), flush=True)


if __name__ == "__main__":
    main()
