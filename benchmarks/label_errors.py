"""Are labels that were flipped flagged first? Rankings of observed entries, several methods.

    python -m benchmarks.label_errors [--data scene plant] [--seeds 3] [--methods extra_trees ...]

`uniform`: 5 % of the observed label entries are flipped, drawn at random. `balanced`: of every
label, as many positives as negatives are flipped, 15 % of its positives, so that its frequency
stays. As many entries are flagged as were flipped; the share of them that were is reported, by
chance it is that of all entries. Rankings:

- `shipped`: what `complete_labels` sorts by;
- `odds`: the odds of the other value alone (self-confidence);
- `odds beside chance`: their ratio to the odds by chance (likelihood ratio);
- `class mean`: how far the probability of the observed value is below the mean of the entries
  observed alike (the thresholds of confident learning, as a ratio).

The shipped ranking was chosen on emotions, birds and MultiDigits, with both kinds of errors;
scene and plant were measured afterwards. A line that the file has is not measured again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.machine import machine_name
from viewgap.completion.answers import log_odds
from viewgap.completion.result import MIN_ODDS
from viewgap.completion.suspicion import expected
from viewgap.errors import ViewgapWarning
from viewgap.fsio import write_file

METHODS: dict[str, Any] = {
    "extra_trees": "extra_trees",
    "late_fusion_ridge": "late_fusion_ridge",
    "imputed_logistic": "imputed_logistic",
    "gradient_boosting": "gradient_boosting",
    "extra_trees + late_fusion_ridge": ["extra_trees", "late_fusion_ridge"],
}
CHOSEN_ON = ("emotions", "birds", "multidigits")
RATE, SHARE_OF_POSITIVES = 0.05, 0.15


def flipped_entries(truth: Any, errors: str, rng: np.random.Generator) -> Any:
    """Where labels are flipped, (n, c)."""
    flipped = np.zeros(truth.shape, dtype=bool)
    if errors == "uniform":
        seen = np.argwhere(~np.isnan(truth))
        own = seen[rng.choice(len(seen), round(RATE * len(seen)), replace=False)]
        flipped[tuple(own.T)] = True
        return flipped
    for j in range(truth.shape[1]):
        positive, negative = np.flatnonzero(truth[:, j] == 1), np.flatnonzero(truth[:, j] == 0)
        count = min(round(SHARE_OF_POSITIVES * len(positive)), len(negative) // 4)
        for rows in (positive, negative):
            flipped[rng.choice(rows, count, replace=False), j] = True
    return flipped


def rankings(p: Any, labels: Any, shipped: Any) -> dict[str, Any]:
    """Scores (n, c), higher = more suspicious; -inf where nothing is known."""
    sign = np.where(labels == 1, -1.0, 1.0)
    usual = np.stack(
        [np.nanmean(np.where(labels == k, p if k else 1 - p, np.nan), axis=0) for k in (0, 1)]
    )
    own = np.where(labels == 1, p, 1 - p)
    mean = np.where(labels == 1, usual[1], usual[0])
    scores = {
        "shipped": shipped,
        "odds": sign * log_odds(p),
        "odds beside chance": sign * (log_odds(p) - log_odds(expected(labels))),
        "class mean": np.log(mean) - np.log(np.clip(own, 1e-6, None)),
    }
    unknown = np.isnan(labels) | np.isnan(p)
    return {name: np.where(unknown | np.isnan(own), -np.inf, own) for name, own in scores.items()}


def share_found(scores: Any, flipped: Any) -> float:
    """Share of the entries flagged first that were flipped."""
    count = int(flipped.sum())
    first = np.argsort(-scores.ravel(), kind="stable")[:count]
    return float(flipped.ravel()[first].mean())


def measure(data: str, errors: str, seed: int, method: str) -> dict[str, Any]:
    """One data set with one draw of errors, by one method."""
    given = viewgap.load_dataset(data)
    truth = np.asarray(given.labels, dtype=float)
    flipped = flipped_entries(truth, errors, np.random.default_rng([77, seed]))
    labels = np.where(flipped, 1 - truth, truth)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)  # of labels that are not judged
        found = viewgap.complete_labels(given.views, labels, METHODS[method], random_state=seed)
    seconds = time.perf_counter() - start
    p = found.probabilities.to_numpy()
    flagged = (found.scores >= MIN_ODDS) & found.judged
    scores = rankings(p, labels, found.scores)
    return {
        "data": data,
        "errors": errors,
        "seed": seed,
        "method": method,
        "entries": int((~np.isnan(truth)).sum()),
        "flipped": int(flipped.sum()),
        "found": {name: round(share_found(own, flipped), 4) for name, own in scores.items()},
        "flagged": int(flagged.sum()),
        "flagged_flipped": int((flagged & flipped).sum()),
        "seconds": round(seconds, 1),
    }


def main() -> None:
    """Measure what the file does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["scene", "plant"])
    parser.add_argument("--errors", nargs="+", default=["uniform"])
    parser.add_argument("--methods", nargs="+", default=["late_fusion_ridge", "extra_trees"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("label_errors.json"))
    asked = parser.parse_args()
    lines = json.loads(asked.out.read_text())["measured"] if asked.out.exists() else []
    done = {(own["data"], own["errors"], own["seed"], own["method"]) for own in lines}
    tasks = [
        (data, errors, seed, method)
        for seed in range(asked.seeds)
        for method in asked.methods
        for data in asked.data
        for errors in asked.errors
    ]
    for task in tasks:
        if task in done:
            continue
        lines.append(measure(*task))
        print(json.dumps(lines[-1]), flush=True)
        content = {"machine": machine_name("cpu"), "measured": lines}
        write_file(asked.out, (json.dumps(content, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
