"""Does the risk that label sets promise hold? Random splits into calibration and test rows.

    python -m benchmarks.label_sets [--splits 100] [--out benchmarks/label_sets.json]

One fit of late-fusion ridge on 40 % of the samples; the others are split at random, half of them
calibrate. With `incomplete`, half of the views and half of the label entries of all rows are
missing; test losses are counted once over the entries observed, as the promise is made, and once
over all.
`needed` is the share of label entries left possible by the threshold that the test rows would have
chosen themselves, without any margin for chance.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.machine import machine_name
from viewgap.decide.label_sets import LabelSets
from viewgap.decide.risk_control import GRIDS, RISKS, losses

DATA = ("plant", "scene", "multidigits")
LEVEL = 0.9


def prepared(name: str, incomplete: bool) -> tuple[Any, Any, Any]:
    data = viewgap.load_dataset(name)
    truth = np.asarray(data.labels, dtype=float)
    if not incomplete:
        return data.views, truth, truth
    views, labels = viewgap.amputate(data.views, truth, view_rate=0.5, label_rate=0.5, seed=0)
    return views, np.asarray(labels, dtype=float), truth


def loss_of(risk: str, words: Any, truth: Any, seen: Any) -> float:
    """Mean loss of the words themselves, as the promise defines it."""
    ruled, certain = words == "ruled out", words == "certain"
    own = losses(risk, 0.5, np.where(ruled, 0.0, np.where(certain, 1.0, 0.5 + 1e-9)), truth, seen)
    if risk != "missed positives":
        score = np.where(ruled, -1.0, np.where(certain, 2.0, 0.5))
        own = losses(risk, 1.0 if risk == "false alarms" else 0.0, score, truth, seen)
    return float(own.mean())


def needed(risk: str, proba: Any, truth: Any, seen: Any) -> float:
    """Share of entries that are possible at the best threshold of the test rows themselves."""
    best = 1.0
    for threshold in GRIDS[risk].tolist():
        if losses(risk, threshold, proba, truth, seen).mean() > 1 - LEVEL:
            break
        possible = proba > threshold if risk == "missed positives" else proba <= threshold
        if risk == "coverage":
            possible = (proba > threshold) & (proba <= 1 - threshold)
        best = float(possible.mean())
    return best


def measured(name: str, incomplete: bool, splits: int) -> list[dict[str, Any]]:
    views, labels, truth = prepared(name, incomplete)
    rng = np.random.default_rng(1)  # not the numbers that the missing views were drawn from
    order = rng.permutation(len(views))
    cut = int(0.4 * len(order))
    model = viewgap.LateFusionRidge(random_state=0, on_empty="prior")
    model.fit(views[order[:cut]], labels[order[:cut]])
    rest = order[cut:]
    proba = np.asarray(model.predict_proba(views[rest]))
    lines = []
    for risk in RISKS:
        held: dict[str, list[bool]] = {}
        shares, least = [], []
        for _ in range(splits):
            drawn = rng.permutation(len(rest))
            own, test = np.sort(drawn[: len(rest) // 2]), np.sort(drawn[len(rest) // 2 :])
            sets = LabelSets(model, risk=risk, target_level=LEVEL)
            sets.calibrate(views[rest[own]], labels[rest[own]])
            words = sets.predict(views[rest[test]]).to_numpy()
            seen = ~np.isnan(labels[rest[test]])
            full = truth[rest[test]] == 1
            everything = np.ones_like(seen)
            held.setdefault("held", []).append(loss_of(risk, words, full, seen) <= 1 - LEVEL)
            held.setdefault("held, all labels", []).append(
                loss_of(risk, words, full, everything) <= 1 - LEVEL
            )
            patterns = views[rest[test]].observed
            for pattern in np.unique(patterns, axis=0):
                rows = (patterns == pattern).all(axis=1)
                if rows.sum() >= 100:  # with fewer, the test rows themselves are too few to tell
                    key = "pattern " + "".join(map(str, pattern.astype(int)))
                    value = loss_of(risk, words[rows], full[rows], seen[rows]) <= 1 - LEVEL
                    held.setdefault(key, []).append(value)
            shares.append(float((words == "possible").mean()))
            least.append(needed(risk, proba[test], full, seen))
        by_pattern = {key: v for key, v in held.items() if key.startswith("pattern")}
        full_ones = [float(np.mean(v)) for v in by_pattern.values() if len(v) >= splits // 2]
        line = {
            "data": name,
            "incomplete": incomplete,
            "risk": risk,
            "splits": splits,
            "held": float(np.mean(held["held"])),
            "held, all labels": float(np.mean(held["held, all labels"])),
            "held, worst pattern": min(full_ones, default=None),
            "possible": float(np.mean(shares)),
            "needed": float(np.mean(least)),
        }
        lines.append(line)
        print(line, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/label_sets.json"))
    given = parser.parse_args()
    lines: list[dict[str, Any]] = []
    for incomplete in (False, True):
        for name in DATA:
            lines += measured(name, incomplete, given.splits)
            content = {"machine": machine_name("cpu"), "lines": lines}
            given.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
