"""What choices left open by the published descriptions bring, on validation rows of one fold.

    python benchmarks/baseline_variants.py --jobs 2 --out variants.jsonl dicnet rank

Needs $VIEWGAP_DATA with Corel5k. Test rows are not looked at: this is where a choice is made.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import joblib

from benchmarks.experiments import RATES, append
from viewgap import methods
from viewgap.bench.run.execute import scaled_on_all_rows
from viewgap.datasets import load_dataset
from viewgap.metrics.evaluation import field_metrics

SUPERVISED_DICNET = {
    "fill": "noise",
    "start": "usual",
    "shuffle": False,
    "divide_by": "observed",
    "score_weights": (0.5, 0.25, 0.25),
}
# Method, what it is, parameters on top of the paper profile, whether with unlabelled rows.
VARIANTS: list[tuple[str, str, dict[str, Any], bool]] = [
    ("ddinet", "inductive", {}, False),
    ("ddinet", "with unlabelled rows", {}, True),
    ("dicnet", "inductive", {}, False),
    ("dicnet", "with unlabelled rows", {}, True),
    ("dicnet", "supervised form", SUPERVISED_DICNET, False),
    ("dicnet", "supervised form, with unlabelled rows", SUPERVISED_DICNET, True),
    ("mtd", "as released", {}, False),
    ("rank", "sigma 0", {}, False),
    ("rank", "sigma 1", {"sigma": 1.0}, False),
    ("sip", "as released", {}, False),
    ("aimnet", "as released", {}, False),
    (
        "drls",
        "no regularisation, missing rows in the norm",
        {"norm_rows": "all", "dropout": 0.0, "view_dropout": 0.0, "ema_decay": 0.0},
        False,
    ),
    ("drls", "dropout and average", {"norm_rows": "all", "view_dropout": 0.0}, False),
    ("drls", "as it is", {}, False),
]


def run(method: str, title: str, params: dict[str, Any], unlabelled: bool, fold: int) -> Any:
    """Fit one variant; its figures on the validation rows."""
    dataset = load_dataset("corel5k")
    chosen = dataset.fold(fold, **RATES)
    split = chosen.split(scaled_on_all_rows(dataset.views), dataset.labels)
    model = methods.get(method)(profile="paper", scaling="none", random_state=1, **params)
    more = split.validation[0].joined(split.test[0]) if unlabelled else None
    start = time.monotonic()
    model.fit(*split.train, validation=split.validation, X_unlabeled=more)
    found = field_metrics(split.validation[1], model.predict_proba(split.validation[0]))
    facts = {"seconds": round(time.monotonic() - start, 1), "best_epoch": model.best_epoch_}
    rounded = {name: round(value, 4) for name, value in found.items()}
    return {"method": method, "variant": title, "fold": fold, **rounded, **facts}


def main() -> None:
    """Print a line per variant, and keep them as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("methods", nargs="*", help="only these")
    parser.add_argument("--fold", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("out/variants.jsonl"))
    given = parser.parse_args()
    wanted = [v for v in VARIANTS if not given.methods or v[0] in given.methods]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    workers = joblib.Parallel(n_jobs=given.jobs, return_as="generator_unordered")
    for row in workers(joblib.delayed(run)(*variant, given.fold) for variant in wanted):
        print(row["method"], "·", row["variant"], "· AP", row["AP"], "·", row["seconds"], "s")
        append(given.out, row)


if __name__ == "__main__":
    main()
