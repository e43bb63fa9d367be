"""The tables of results in README.md and docs/: made from the records in results/.

    python docs/tables.py

writes every table anew, between the comments `<!-- table: NAME -->` and `<!-- /table -->`.
`tests/test_docs.py` checks that the tables in the pages are these. `paper_tables.py` has those of
the paper's curves and grids.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import paper_tables  # noqa: F401  # adds its tables
from record_figures import (
    NONE,
    RESULTS,
    ROOT,
    TABLES,
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

from viewgap.bench.analyse.data_sets import Comparison, compare_over_data_sets
from viewgap.bench.results.record import read_records
from viewgap.bench.run.queue import read_queue
from viewgap.bench.run.status import counted, status_of

PAGES = [ROOT / "README.md", RESULTS / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
METRICS = ("AP", "1-HL", "1-RL", "AUC", "1-OE", "1-Cov")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- /table -->)", re.S)

# ------------------------------------------------------------------ results

CORELS = (
    *("imvwl", "naim3l", "ddinet", "lmvcat", "dicnet", "aimnet", "drls", "mtd", "sip", "rank"),
    *("pcve", "tdlsr", "scsd"),
)


@table
def corel5k() -> str:
    """Corel5k: all methods as published, and SCSD's default."""
    folders = ("solvers", "baselines", "paper", "default_cross_fitted")
    found = records(*(f"corel5k/{folder}" for folder in folders))
    with (RESULTS / "corel5k" / "table2.csv").open(encoding="utf-8") as file:
        printed = {row["method"]: printed_ap(row) for row in csv.DictReader(file)}
    rows = []
    for method in CORELS:
        chosen = select(found, method, "paper")
        figures = [mean_std(chosen, metric) for metric in METRICS]
        published = printed.get(method, NONE)
        rows.append((named(method, "paper"), published, *figures, str(len(chosen))))
    chosen = select(found, "scsd", "default")
    figures = [f"**{mean_std(chosen, metric)}**" for metric in METRICS]
    rows.append(("**scsd**", NONE, *figures, str(len(chosen))))
    return markdown(("method", "published AP", *METRICS, "folds"), rows)


@table
def paper_and_default() -> str:
    """Corel5k: what the default adds to the published model."""
    lines: list[tuple[str, tuple[str, ...], dict[str, float], str]] = [
        ("AP", ("paper", "default_cross_fitted"), {}, "AP"),
        ("AP, without the validation rows", ("holdout_cross_fitted",), {}, "AP"),
        (
            "calibration error per label, beyond chance",
            ("calibration", "default_cross_fitted"),
            {},
            "beyond chance",
        ),
        ("macro F1 of `predict`", ("calibration", "default_cross_fitted"), {}, "macro F1"),
        ("AP, 30 % of the views missing‡", ("robustness",), rates(0.3, 0.3), "AP"),
        ("AP, 70 % of the views missing‡", ("robustness",), rates(0.7, 0.7), "AP"),
        ("AP, trained with 30 % missing, used with 70 %‡", ("robustness",), rates(0.3, 0.7), "AP"),
        ("AP, trained with 70 % missing, used with 30 %‡", ("robustness",), rates(0.7, 0.3), "AP"),
        ("AP, nothing missing‡", ("complete",), {"view_rate": 0.0, "label_rate": 0.0}, "AP"),
    ]
    rows = []
    for title, parts, settings, figure in lines:
        found = records(*(f"corel5k/{part}" for part in parts))
        digits = 4 if figure == "beyond chance" else 3
        figures = [
            mean_std(select(found, "scsd", profile, **settings), figure, digits)
            for profile in ("paper", "default")
        ]
        rows.append((title, *figures))
    return markdown(("Corel5k, ten folds", "scsd (paper)", "scsd"), rows)


def rates(training: float, test: float) -> dict[str, float]:
    return {"view_rate": training, "test_view_rate": test}


@table
def prepared_features() -> str:
    """Corel5k: the networks with their published settings, without and with prepared features."""
    plain, prepared = records("corel5k/baselines"), records("corel5k/prepared")
    methods = ("ddinet", "dicnet", "aimnet", "mtd", "drls", "rank", "sip")
    rows = (
        ("as published", *(mean(select(plain, name, "paper")) for name in methods)),
        ('`features="auto"`', *(mean(select(prepared, name, "paper")) for name in methods)),
    )
    return markdown(("AP", *map(named, methods)), rows)


@table
def ablation() -> str:
    """Corel5k: SCSD without one part after the other, beside the published figures."""
    with (RESULTS / "corel5k" / "ablation.csv").open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    parts = {
        "": ("full model", ""),
        "self_distillation=false": ("without L_dis", "self_distillation=False"),
        "teacher=false": ("without its teacher term", "teacher=False"),
        "reconstruction=false": ("without L_rec", "reconstruction=False"),
        "quantise=false": ("without quantisation", "quantise=False"),
        "cross_view=false": ("without cross-view reconstruction", "cross_view=False"),
        'fusion="mean"': ("plain mean of the views", 'fusion="mean"'),
    }
    by_settings = {row["settings"]: row for row in found}
    full = round(float(by_settings[""]["AP_mean"]), 3)
    rows = []
    for settings, (title, parameter) in parts.items():
        row = by_settings.pop(settings)
        here = round(float(row["AP_mean"]), 3)
        gap = f"{here - full:+.3f}" if settings else ""
        shown = f"`{parameter}`" if parameter else ""
        rows.append((title, shown, printed_ap(row), f"{here:.3f}", gap))
    assert not by_settings, f"not in the table: {sorted(by_settings)}"
    return markdown(("", "parameter", "published AP", "AP here", "difference"), rows, left=2)


EQUATIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ('`codebook_learning="gradient"`', "Eq. 3", {"codebook_learning": "gradient"}),
    ('`code_length="free"`', "Eq. 1", {"code_length": "free"}),
    ('`quantisation_reduction="sum"`', "Eq. 3", {"quantisation_reduction": "sum"}),
    ('`reconstruction_reduction="sum"`', "Eq. 2", {"reconstruction_reduction": "sum"}),
    ('`reconstruction_average="pairs"`', "Eq. 2", {"reconstruction_average": "pairs"}),
    ("`correlation_diagonal=True`", "Eq. 4, 5", {"correlation_diagonal": True}),
    ("`log_epsilon=0`", "Eq. 8", {"log_epsilon": 0.0}),
    ('`distillation="kl"`', "Eq. 9", {"distillation": "kl"}),
    ('`distillation_average="pairs"`', "Eq. 9", {"distillation_average": "pairs"}),
    ("`max_grad_norm=0`", "not mentioned", {"max_grad_norm": 0.0}),
    ('`norm_rows="observed"`', "left open", {"norm_rows": "observed"}),
    ('`pooling="network"`', "left open", {"pooling": "network"}),
)


@table
def equations() -> str:
    """Corel5k: SCSD as released, as printed, and each difference between the two by itself."""
    found = records("corel5k/equations")
    published = {"alpha", "distill_weight", "temperature", "dropout", "hidden"}
    released = [r for r in found if r["profile"] == "paper"]

    def switched(settings: dict[str, Any]) -> list[Record]:
        return [
            record
            for record in released
            if record["settings"]["scale_on"] == "all"
            and record["settings"].get("validation") != "none"
            and settings
            == {k: v for k, v in record["settings"]["params"].items() if k not in published}
        ]

    def protocol(**setting: str) -> list[Record]:
        return select(released, "scsd", "paper", **setting)

    full = switched({})
    printed = select(found, "scsd", "equations")
    lines = [
        ('`profile="equations"`, as printed', "all of the first ten", printed),
        *((title, equation, switched(settings)) for title, equation, settings in EQUATIONS),
        ("columns scaled on training rows", "protocol", protocol(scale_on="training")),
        (
            "no validation rows: a part of the training rows instead",
            "protocol",
            protocol(validation="none"),
        ),
    ]
    rows = [('`profile="paper"`, as released', "", mean_std(full), "")]
    rows += [
        (title, where, mean_std(own), f"{float(mean(own)) - float(mean(full)):+.3f}")
        for title, where, own in lines
    ]
    return markdown(("", "in the text", "AP", "difference"), rows, left=2)


def printed_ap(row: dict[str, str]) -> str:
    """The AP printed in the SCSD paper."""
    return f"{float(row['AP_published']):.3f}" if row["AP_published"] else NONE


# Today's default of SCSD is the same task on Corel5k: features="auto" is its default.
EIGHT = ("all_datasets", "corel5k/default_cross_fitted")


def compared(missing: str = "methods") -> Comparison:
    """Methods over eight data sets, of which `_static/ranks.svg` shows the average ranks, too.

    With "data sets", every method, over the data sets that all of them have.
    """
    found = [record for folder in EIGHT for record in read_records(RESULTS / folder)]
    return compare_over_data_sets(found, missing=missing, control="ensemble")


def average_ranks() -> dict[str, tuple[float, float]]:
    """Over eight data sets, NaN where a method lacks one, and over those that all have."""
    some, all_methods = compared().test, compared("data sets")
    assert list(all_methods.left_out) == ["corel5k"], "the last column is named otherwise"
    every = all_methods.test
    ranks = dict(zip(some.methods, some.ranks, strict=True))
    found = {
        title: (ranks.get(title, np.nan), rank)
        for title, rank in zip(every.methods, every.ranks, strict=True)
    }
    return dict(sorted(found.items(), key=lambda item: (np.isnan(item[1][0]), *item[1], item[0])))


def shown_ranks(ranks: tuple[float, float]) -> list[str]:
    return [NONE if np.isnan(rank) else f"{rank:.2f}" for rank in ranks]


@table
def every_rank() -> str:
    """Average ranks of every method, in two columns."""
    rows = [(title, *shown_ranks(ranks)) for title, ranks in average_ranks().items()]
    half = -(-len(rows) // 2)
    sides = zip(rows[:half], [*rows[half:], ("", "", "")][:half], strict=True)
    head = ("method", "eight sets", "without Corel5k")
    return markdown((*head, *head), ((*first, *second) for first, second in sides))


@table
def eight_data_sets() -> str:
    """AP of every method on eight data sets, and average ranks, as `viewgap bench ranks` has them.

    Means are over the folds that all ranked methods have; a method that lacks a data set has no
    rank over all of them, and means over the same folds.
    """
    test = compared().test
    scores: dict[tuple[str, str], dict[int, float]] = {}
    for record in records(*EIGHT):
        place = named(record["method"]), record["dataset"]
        scores.setdefault(place, {})[record["fold"]] = record["metrics"]["AP"]
    sets = sorted({name for _, name in scores})
    common = {
        name: set.intersection(*(set(scores[title, name]) for title in test.methods))
        for name in sets
    }
    rows = []
    for title, ranks in average_ranks().items():
        means = [
            f"{np.mean([scores[title, name][fold] for fold in sorted(common[name])]):.3f}"
            if (title, name) in scores
            else NONE
            for name in sets
        ]
        rows.append((title, *means, *shown_ranks(ranks)))
    return markdown(("AP", *sets, "average rank", "without corel5k"), rows)


@table
def against_ensemble() -> str:
    """Every method against the ensemble: Wilcoxon's tests over data sets, Holm's correction."""
    rows = [
        (
            *(one.method, f"{one.gap:+.3f}", f"{one.wins} of {one.wins + one.losses}"),
            *(f"{one.p_value:.3f}", f"{one.adjusted:.3f}"),
        )
        for one in sorted(compared().against, key=lambda one: (-one.gap, one.method))
    ]
    return markdown(("method", "AP, mean difference", "better on", "p", "p, corrected"), rows)


@table
def small_sets() -> str:
    """AP on the data sets that fit on a laptop, every method in its default profile."""
    sets = ("emotions", "3sources", "multidigits")
    found = {name: records(name) for name in sets}
    rows = []
    for method, profile in pairs_of(found["emotions"]):
        chosen = [select(found[name], method, profile) for name in sets]
        counts = "/".join(str(len(own)) for own in chosen)
        rows.append((named(method, profile), *map(mean_std, chosen), counts))
    rows.sort(key=lambda row: row[1], reverse=True)
    return markdown(("AP", "emotions", "3sources", "MultiDigits", "folds"), rows)


LONGER = {"params": {"max_epochs": 25, "min_epochs": 25}}
COMPLETE_NETWORKS: tuple[tuple[str, str, str, dict[str, Any], tuple[str, ...]], ...] = (
    ("simm (paper)", "simm", "paper", {"params": {}}, ("0.780", NONE, "0.534")),
    ("simm (paper), 25 epochs", "simm", "paper", LONGER, (NONE, NONE, NONE)),
    ("simm", "simm", "default", {}, (NONE, NONE, NONE)),
    ("dvsm† (paper)", "dvsm", "paper", {"unlabeled": False}, (NONE, NONE, NONE)),
    (
        "dvsm† (paper), test samples in the graph",
        "dvsm",
        "paper",
        {"unlabeled": True},
        ("0.835", "0.890", "0.475"),
    ),
    ("dvsm†", "dvsm", "default", {}, (NONE, NONE, NONE)),
)


@table
def complete_networks() -> str:
    """SIMM and D-VSM on complete data, 80 % of the rows for training."""
    found = records("complete_related")
    for record in found:
        record["settings"].setdefault("unlabeled", False)
    rows = []
    for title, method, profile, settings, printed in COMPLETE_NETWORKS:
        chosen = [
            select([r for r in found if r["dataset"] == name], method, profile, **settings)
            for name in ("emotions", "scene", "corel5k")
        ]
        figures = [x for pair in zip(printed, map(mean_std, chosen), strict=True) for x in pair]
        rows.append((title, *figures, "/".join(str(len(own)) for own in chosen)))
    sets = ("emotions", "scene", "corel5k")
    head = ("AP", *(cell for name in sets for cell in (f"{name}, published", "here")), "folds")
    return markdown(head, rows)


@table
def natural_gaps() -> str:
    """3sources with the gaps it has by nature."""
    found = records("3sources_natural")
    rows = [(named(*pair), mean_std(select(found, *pair))) for pair in pairs_of(found)]
    rows.sort(key=lambda row: row[1], reverse=True)
    return markdown(("3sources, its own gaps, ten folds", "AP"), rows)


PRINTED_SOLVERS = {("cdmm (paper)", "emotions"): "0.790", ("cdmm (paper)", "corel5k"): "0.545"}


@table
def complete_solvers() -> str:
    """CDMM and ELSMML on complete data, 80 % of the rows for training."""
    found = records("complete_related_solvers")
    rows = []
    for dataset in ("emotions", "corel5k"):
        own = [record for record in found if record["dataset"] == dataset]
        for title, chosen in [(named(*pair), select(own, *pair)) for pair in pairs_of(own)]:
            printed = PRINTED_SOLVERS.get((title, dataset), NONE)
            rows.append((title, dataset, printed, mean_std(chosen), str(len(chosen))))
    return markdown(("", "data set", "published AP", "AP here", "folds"), rows, left=2)


# ------------------------------------------------------------------ labels that look wrong

RANKINGS = ("shipped", "odds", "odds beside chance", "class mean")


def _found(chosen: Sequence[Record], ranking: str) -> str:
    """Mean share found over seeds, with the range of several."""
    values = [100 * record["found"][ranking] for record in chosen]
    text = f"{np.mean(values):.0f} %"
    return text if len(values) < 2 else f"{text} ({min(values):.0f}–{max(values):.0f})"


def _label_errors(names: Sequence[str], with_flagged: bool) -> str:
    lines = json.loads((ROOT / "benchmarks" / "label_errors.json").read_text("utf-8"))["measured"]
    keys = dict.fromkeys((r["data"], r["errors"], r["method"]) for r in lines)
    rows = []
    for key in sorted(keys, key=lambda key: (names.index(key[0]) if key[0] in names else -1, *key)):
        if key[0] not in names:
            continue
        own = [r for r in lines if (r["data"], r["errors"], r["method"]) == key]
        flagged, right = (np.mean([r[k] for r in own]) for k in ("flagged", "flagged_flipped"))
        figures = [_found(own, ranking) for ranking in RANKINGS]
        last = [f"{flagged:.0f}", f"{100 * right / flagged:.0f} %"] if with_flagged else []
        lead = key[0] if with_flagged else f"{key[0]}, {key[1]}"
        rows.append((lead, key[2], str(len(own)), *figures, *last))
    head = ("data", "method", "seeds", "**ours**", *RANKINGS[1:])
    return markdown(head + (("flagged", "of these flipped") if with_flagged else ()), rows, left=2)


@table
def label_errors() -> str:
    """Flipped labels among those ranked first, on scene and plant."""
    return _label_errors(("scene", "plant"), with_flagged=True)


@table
def label_errors_chosen() -> str:
    """The same on the data that the ranking was chosen on."""
    return _label_errors(("emotions", "birds", "multidigits"), with_flagged=False)


# ------------------------------------------------------------------ the pages

GPU = "NVIDIA H200"


@table
def what_is_left() -> str:
    """Tasks of the queues without a record, and the minutes that they take on a GPU, by records.

    As `viewgap bench status QUEUE --out FOLDER --device GPU` has them; methods side by side.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for file, out in (("queue.toml", RESULTS), ("queue_small.toml", RESULTS / "small")):
        for found in counted(status_of(read_queue([ROOT / "configs" / file], out), GPU)):
            if "minutes" in found:
                folder = Path(found["folder"]).relative_to(RESULTS).as_posix()
                row = rows.setdefault(
                    (f"`{folder}`", found["data set"]),
                    {"methods": [], "left": 0, "minutes": 0.0, "assumed": 0},
                )
                row["methods"].append(found["method"])
                row["left"] += found["tasks"] - found["done"]
                row["minutes"] += found["minutes"]
                row["assumed"] += found["assumed"]
    sums = ("left", "minutes", "assumed")
    shown = [
        (*place, ", ".join(row["methods"]), *(f"{row[name]:.0f}" for name in sums))
        for place, row in rows.items()
    ]
    total = [f"{sum(row[name] for row in rows.values()):.0f}" for name in sums]
    head = ("folder", "data set", "methods", "tasks left", "minutes", "tasks assumed")
    return markdown(head, [*shown, ("all", "", "", *total)], left=3)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Name and text of every table of a page."""
    return [(name, text) for _, name, text, _ in BLOCK.findall(page.read_text("utf-8"))]


def write(page: Path) -> None:
    """Write the tables of a page anew."""
    old = page.read_text("utf-8")
    new = BLOCK.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}{match[4]}", old)
    if new != old:
        page.write_text(new, encoding="utf-8")
        print(f"{page.relative_to(ROOT)}: tables written")


if __name__ == "__main__":
    for each in PAGES:
        write(each)
