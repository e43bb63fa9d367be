"""The tables of the paper's other experiments: curves, grids of settings, nothing missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from record_figures import (
    NONE,
    Record,
    markdown,
    mean,
    mean_std,
    named,
    pairs_of,
    records,
    select,
    table,
)

RATES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
VARIED = (
    ("views missing", "views", "view_rate"),
    ("labels missing", "labels", "label_rate"),
    ("samples for training", "training", "train_share"),
)
SMALL = ("multidigits", "scene", "plant")


@table
def curves() -> str:
    """SCSD as published against missing views, missing labels and the share for training."""
    rows = []
    for title, part, setting in VARIED:
        small = records(f"small/{part}")
        found = {"corel5k": records(f"corel5k/curves_{part}")}
        found |= {name: [r for r in small if r["dataset"] == name] for name in SMALL}
        for name, own in found.items():
            chosen = [select(own, "scsd", "paper", **{setting: rate}) for rate in RATES]
            rows.append((title, name, *map(mean, chosen), fold_counts(chosen)))
    return markdown(("share of", "data set", *map(str, RATES), "folds"), rows, left=2)


def fold_counts(cells: Iterable[Sequence[Record]]) -> str:
    """How many folds the figures of a row have: one number, or the smallest and the largest."""
    counts = sorted({len(cell) for cell in cells if cell})
    return "-".join(map(str, counts[:1] + counts[1:][-1:]))


def varied(
    found: Iterable[Record], dataset: str, *names: str
) -> dict[tuple[Any, ...], list[Record]]:
    """Records of a data set by the values of these parameters, where nothing else was varied."""
    by_values: dict[tuple[Any, ...], list[Record]] = {}
    for record in found:
        params = record["settings"]["params"]
        # The experiments on Corel5k give all published settings, the others what they vary.
        alone = dataset == "corel5k" or params.keys() == set(names)
        if record["dataset"] == dataset and alone and params.keys() >= set(names):
            by_values.setdefault(tuple(params[name] for name in names), []).append(record)
    return by_values


@table
def temperature() -> str:
    """SCSD as published with other temperatures of the weights of the views."""
    rows, values = [], (0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0)
    for name in ("corel5k", *SMALL):
        folder = "corel5k/sensitivity_tau" if name == "corel5k" else "small/parameters"
        found = varied(records(folder), name, "temperature")
        chosen = [found.get((value,), []) for value in values]
        rows.append((name, *map(mean, chosen), fold_counts(chosen)))
    return markdown(("AP at $\\tau$", *(f"{value:g}" for value in values), "folds"), rows)


def map_of(title: str, found: dict[tuple[Any, ...], list[Record]]) -> str:
    """A table of two parameters: the first in rows, the second in columns.

    A figure of fewer folds than others have has a star.
    """
    first, second = (sorted(set(values)) for values in zip(*found, strict=True))
    most = max(map(len, found.values()))
    cells = {place: mean(own) + "*" * (len(own) < most) for place, own in found.items()}
    rows = [(f"{a:g}", *(cells.get((a, b), NONE) for b in second)) for a in first]
    return markdown((title, *(f"{b:g}" for b in second)), rows)


@table
def alpha_lambda() -> str:
    """Corel5k: AP by the weights of reconstruction and of distillation."""
    found = varied(
        records("corel5k/sensitivity_alpha_lambda"), "corel5k", "alpha", "distill_weight"
    )
    return map_of(r"$\alpha$ ↓, $\lambda$ →", found)


@table
def alpha_lambda_small() -> str:
    """The same on the small sets, fewer values."""
    return maps_of_small_sets(r"$\alpha$ ↓, $\lambda$ →", "alpha", "distill_weight")


def maps_of_small_sets(title: str, first: str, second: str) -> str:
    """Tables of two parameters, that of one data set below the other."""
    found, rows = records("small/parameters"), []
    by_set = {name: varied(found, name, first, second) for name in SMALL}
    columns = sorted({b for own in by_set.values() for _, b in own})
    for name, own in by_set.items():
        for value in sorted({a for a, _ in own}):
            cells = (mean(own.get((value, column), [])) for column in columns)
            rows.append((name, f"{value:g}", *cells))
    return markdown(("", title, *(f"{column:g}" for column in columns)), rows, left=2)


@table
def complete_data() -> str:
    """Corel5k with nothing missing: the methods of the paper as published, and SCSD's default."""
    found = records("corel5k/complete")
    of_pairs = {pair: select(found, *pair) for pair in pairs_of(found)}
    shared = set.intersection(*({r["fold"] for r in own} for own in of_pairs.values()))
    rows = []
    for pair, own in sorted(of_pairs.items(), key=lambda item: item[0][::-1]):
        chosen = [record for record in own if record["fold"] in shared]
        rows.append((named(*pair), mean(chosen), mean_std(own), str(len(own))))
    rows.sort(key=lambda row: row[1])
    title = f"AP, the {len(shared)} folds of all"
    return markdown(("Corel5k, nothing missing", title, "AP, all its folds", "folds"), rows)


@table
def complete_data_small() -> str:
    """The same on the small sets, three folds."""
    found = records("small/complete")
    of_sets = [[record for record in found if record["dataset"] == name] for name in SMALL]
    rows = [
        (named(*pair), *(mean_std(select(own, *pair)) for own in of_sets))
        for pair in pairs_of(found)
    ]
    return markdown(("nothing missing, AP", *SMALL), sorted(rows, key=lambda row: row[1]))


CODEBOOK = "codes ↓, length →"


@table
def codebook() -> str:
    """Corel5k: AP by the number and the length of the codes."""
    found = varied(records("corel5k/codebook"), "corel5k", "codebook_size", "code_dim")
    return map_of(CODEBOOK, found)


@table
def codebook_small() -> str:
    """The same on the small sets, fewer values."""
    return maps_of_small_sets(CODEBOOK, "codebook_size", "code_dim")
