"""The ensemble against what one writes with scikit-learn, on generated tables.

    python -m benchmarks.generated --seeds 0:2 --jobs 2

The sets resemble data that people have, and differ from the benchmark sets: sensors whose views
tell a label only together, laboratory values that were not measured, layers of omics with batches,
views that are there because somebody suspected something, counts of words. Seven tenths of the rows
are fitted on, with their gaps; all labels of the others are known, and measured on. Contestants and
figures are those of `benchmarks.contestants`. SCSD takes most of the time and is left out unless
`--scsd` is given. The lines are kept in `generated.jsonl`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.contestants import compare, run, table

KEPT = Path(__file__).with_name("generated.jsonl")
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


def measure(name: str, seed: int, scsd: bool) -> dict[str, Any]:
    figures = compare(split_of(name, seed), seed, scsd)
    return {"set": name, "seed": seed, "scsd": scsd, **figures}


def main(arguments: Sequence[str] | None = None) -> None:
    lines = run(__doc__, list(SETS), measure, KEPT, arguments)
    print(*(table(lines, metric) for metric in ("AP", "AUC", "log_loss")), sep="\n\n")


if __name__ == "__main__":
    main()
