"""Does the risk that label sets promise hold, and how wide are the sets?

    python -m benchmarks.label_sets [--draws 500] [--splits 100] [--out benchmarks/label_sets.json]

One fit of late-fusion ridge on 40 % of the samples of plant, scene and MultiDigits; with
`incomplete`, half of the views and half of the label entries are missing in all rows.

*Draws.* The other 60 % are taken as the population: rows are drawn from them with replacement,
half as many as there are, views and labels are taken away at random anew in each draw, and
thresholds are found from what is left. The risk over the population is then known exactly, from
complete labels and for every pattern of missing views: whether the promise held is not a matter of
test rows. `held, test mean`, where views are complete: the share of the same draws in which the
mean loss of as many other rows, drawn anew, was up to the limit. What lies between the two is the
noise of test rows.

*Splits.* The other 60 % are split at random, half of them calibrate, the others are tested, each
with the views that it has, over its complete labels. The mean over test rows has noise of its own:
`split_held` counts means up to the limit, `split_not_refuted` those whose 80 % interval reaches
down to it.

`needed` is the share of label entries left possible by the most decisive threshold of the grid that
meets the promise on the population.

*MAPIE*, where both apply (missed positives, complete labels, all labels together): its RCPS with
the bound of Waudby-Smith and Ramdas and that of Hoeffding, from the same rows and the same losses,
on its grid of hundredths, in the first twenty draws: share left possible, and mean risk.

*Out of fold.* The model is fitted on 40 %, and calibrated out of fold on the same rows; the other
60 % are the population. Each of the repetitions has a fit of its own.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import viewgap
from benchmarks.machine import machine_name
from viewgap.data.labels import Labels
from viewgap.decide.losses import Design, row_losses
from viewgap.decide.measured import interval
from viewgap.decide.risk_control import GRIDS, RISKS, decisions, p_value
from viewgap.decide.thresholds import PatternThresholds

EACH_LABEL = "each label"
DATA = ("plant", "scene", "multidigits")
LEVEL = CONFIDENCE = 0.9
LEVELS = (1 - LEVEL, 1 - CONFIDENCE)
LIMIT = LEVELS[0] + 1e-12  # 1 - .9 is a little less than .1, and shares of .1 are frequent
FEWEST_TESTED = 100


class Setting:
    """A fitted model, held-out rows as they would be if complete, and their answers by pattern."""

    def __init__(self, name: str, incomplete: bool) -> None:
        data = viewgap.load_dataset(name)
        self.name, self.incomplete = name, incomplete
        self.rng = np.random.default_rng(1)  # not the numbers that missing views are drawn from
        order = self.rng.permutation(len(data.views))
        cut = int(0.4 * len(order))
        truth = np.asarray(data.labels, dtype=float)
        own, rest = np.sort(order[:cut]), np.sort(order[cut:])
        views, labels = data.views[own], truth[own]
        if incomplete:
            views, labels = viewgap.amputate(views, labels, 0.5, 0.5, seed=0)
        self.model = viewgap.LateFusionRidge(random_state=0).fit(views, labels)
        self.views, self.truth = data.views[rest], truth[rest].astype(bool)
        self.names = self.model.label_names_
        self._answers: dict[str, Any] = {}

    def answers(self, pattern: str) -> Any:
        """Probabilities of all rows with only these views."""
        if pattern not in self._answers:
            wanted = np.array([flag == "1" for flag in pattern])
            hidden = self.views.with_observed(np.tile(wanted, (len(self.views), 1)))
            self._answers[pattern] = self.model._checked_probabilities(hidden)
        return self._answers[pattern]

    def patterns(self) -> list[str]:
        """All patterns of up to two views, else one of each number of views."""
        n = self.views.n_views
        if not self.incomplete:
            return ["1" * n]
        if n <= 2:
            return [f"{number:0{n}b}" for number in range(1, 2**n)]
        return ["1" * k + "0" * (n - k) for k in range(1, n + 1)]

    def seen(self, seed: int) -> tuple[Any, Any]:
        """Which views and which labels of the rows are observed in one draw."""
        if not self.incomplete:
            return self.views.observed, np.ones_like(self.truth)
        views, labels = viewgap.amputate(self.views, self.truth.astype(float), 0.5, 0.5, seed=seed)
        return views.observed, ~np.isnan(labels)


def thresholds(
    own: Setting, pattern: str, rows: Any, observed: Any, seen: Any, risk: str, each: bool
) -> PatternThresholds:
    """Thresholds from these rows, which have views and labels observed as given."""
    wanted = np.array([flag == "1" for flag in pattern])
    rows = rows[observed[rows][:, wanted].all(axis=1)]
    labels = Labels(own.truth[rows], seen[rows], own.names)
    return PatternThresholds.from_answers(own.answers(pattern)[rows], labels, risk, each, LEVELS)


def exact_risk(risk: str, decided: Any, truth: Any, each: bool) -> Any:
    """Mean loss over complete labels; of every label where the promise is for each."""
    if each:
        missed = (decided[0] & truth).sum(axis=0)
        return missed / np.maximum(truth.sum(axis=0), 1)
    losses, _ = row_losses(risk, *decided, truth, Design.of(np.ones_like(truth)))
    return losses.mean()


def needed(risk: str, proba: Any, truth: Any, each: bool) -> float:
    """Share of entries left possible by the best threshold of the population itself."""
    if each:
        parts = [needed(risk, proba[:, [j]], truth[:, [j]], False) for j in range(truth.shape[1])]
        return float(np.mean(parts))
    best = 1.0
    for threshold in GRIDS[risk].tolist():
        decided = decisions(risk, threshold, proba)
        if truth.any() and exact_risk(risk, decided, truth, False) > LIMIT:
            break
        best = float((~decided[0] & ~decided[1]).mean())
    return best


def drawn(own: Setting, risk: str, each: bool, n_draws: int) -> dict[str, Any]:
    """How often the promise held when the risk is known exactly."""
    patterns = own.patterns()
    held = {pattern: [] for pattern in patterns}
    total, shares, tested = [], [], []
    n = len(own.views)
    for draw in range(n_draws):
        rng = np.random.default_rng([7, draw])
        observed, seen = own.seen(1000 + draw)
        rows = rng.integers(n, size=n // 2)
        risks, possible = [], []
        for pattern in patterns:
            found = thresholds(own, pattern, rows, observed, seen, risk, each)
            decided = found.decide(own.answers(pattern))
            risks.append(exact_risk(risk, decided, own.truth, each))
            held[pattern].append(np.asarray(risks[-1]) <= LIMIT)
            possible.append((~decided[0] & ~decided[1]).mean())
        if len(patterns) == 1 and not each:
            test = rng.integers(n, size=n - n // 2)
            mean = exact_risk(risk, [words[test] for words in decided], own.truth[test], False)
            tested.append(mean <= LIMIT)
        total.append(np.mean(risks, axis=0) <= LIMIT)
        shares.append(np.mean(possible))
    by_pattern = {pattern: np.mean(values, axis=0) for pattern, values in held.items()}
    best = [needed(risk, own.answers(pattern), own.truth, each) for pattern in patterns]
    worst = min(by_pattern, key=lambda pattern: by_pattern[pattern].min())
    return {
        "draws": n_draws,
        "patterns": len(patterns),
        "held": float(np.mean(total, axis=0).min()),
        "held, mean of patterns": float(np.mean([v.min() for v in by_pattern.values()])),
        "held, worst pattern": float(by_pattern[worst].min()),
        "worst pattern": worst,
        "held, test mean": float(np.mean(tested)) if tested else None,
        "possible": float(np.mean(shares)),
        "needed": float(np.mean(best)),
    }


def mapie(own: Setting, n_draws: int) -> dict[str, Any]:
    """Width and risk of MAPIE's sets, and of ours on the same draws and the same grid."""
    from mapie.risk_control.methods import find_best_predict_param, get_r_hat_plus

    n, grid, alpha = len(own.views), np.arange(0, 1, 0.01), np.array([LEVELS[0]])
    proba = own.answers(own.patterns()[0])
    found: dict[str, list[tuple[float, float]]] = {}
    for draw in range(n_draws):
        rows = np.random.default_rng([7, draw]).integers(n, size=n // 2)
        complete = Design.of(np.ones((len(rows), len(own.names)), dtype=bool))
        nothing = np.zeros((len(rows), len(own.names)), dtype=bool)
        own_losses = [
            row_losses("missed positives", proba[rows] <= t, nothing, own.truth[rows], complete)[0]
            for t in grid
        ]
        losses = np.stack(own_losses, axis=1)
        chosen = {"ours": 0.0}
        for t, mean in zip(grid, losses.mean(axis=0), strict=True):
            if p_value(float(mean), len(losses), LEVELS[0]) > LEVELS[1]:
                break
            chosen["ours"] = float(t)
        for bound in ("wsr", "hoeffding"):
            _, upper = get_r_hat_plus(losses, grid, "rcps", bound, LEVELS[1], 0.25)
            chosen[bound] = float(find_best_predict_param(grid, upper, alpha)[0])
        for name, threshold in chosen.items():
            decided = proba <= threshold, np.zeros_like(own.truth)
            risk = exact_risk("missed positives", decided, own.truth, False)
            found.setdefault(name, []).append((float((~decided[0]).mean()), float(risk)))
    means = {name: np.mean(values, axis=0) for name, values in found.items()}
    return {
        f"{what}, {name}": float(means[name][place])
        for name in found
        for place, what in enumerate(("possible", "mean risk"))
    }


def split(own: Setting, risk: str, each: bool, n_splits: int) -> dict[str, Any]:
    """How often the mean loss of test rows was up to the limit."""
    observed, seen = own.seen(0)
    names = {"".join("01"[flag] for flag in row) for row in observed.astype(int).tolist()}
    n = len(own.views)
    held: list[bool] = []
    not_refuted: list[bool] = []
    by_pattern: dict[str, list[bool]] = {}
    for _ in range(n_splits):
        drawn_rows = own.rng.permutation(n)
        own_rows, test = drawn_rows[: n // 2], drawn_rows[n // 2 :]
        words = [np.zeros((n, len(own.names)), dtype=bool) for _ in range(2)]
        for pattern in sorted(names):
            wanted = np.array([flag == "1" for flag in pattern])
            rows = test[(observed[test] == wanted).all(axis=1)]
            if not len(rows):
                continue
            found = thresholds(own, pattern, own_rows, observed, seen, risk, each)
            for part, decided in zip(words, found.decide(own.answers(pattern)[rows]), strict=True):
                part[rows] = decided
            if len(rows) >= FEWEST_TESTED and not each:
                mean = exact_risk(risk, [w[rows] for w in words], own.truth[rows], each)
                by_pattern.setdefault(pattern, []).append(mean <= LIMIT)
        truth, complete = own.truth[test], Design.of(np.ones((len(test), len(own.names)), bool))
        losses, _ = row_losses(risk, words[0][test], words[1][test], truth, complete)
        held.append(float(losses.mean()) <= LIMIT)
        not_refuted.append(interval(float(losses.mean()), len(losses), tail=0.1)[0] <= LIMIT)
    full = [np.mean(values) for values in by_pattern.values() if len(values) >= n_splits // 2]
    return {
        "splits": n_splits,
        "split_held": float(np.mean(held)),
        "split_not_refuted": float(np.mean(not_refuted)),
        "split_held, worst pattern": None if not full else float(min(full)),
    }


def out_of_fold(name: str, repetitions: int) -> list[dict[str, Any]]:
    """How often sets calibrated on the training rows themselves kept the promise."""
    data = viewgap.load_dataset(name)
    truth = np.asarray(data.labels, dtype=float)
    held: dict[str, list[float]] = {}
    for repetition in range(repetitions):
        order = np.random.default_rng([3, repetition]).permutation(len(truth))
        own, rest = np.sort(order[: int(0.4 * len(order))]), np.sort(order[int(0.4 * len(order)) :])
        model = viewgap.LateFusionRidge(random_state=0).fit(data.views[own], truth[own])
        parts = None
        for risk in RISKS:
            sets = viewgap.LabelSets(model, risk=risk, target_level=LEVEL)
            if parts is None:
                parts = sets.calibrate_out_of_fold(data.views[own], truth[own])._parts
            sets._parts = parts  # the same fits for every risk
            words = sets.words(data.views[rest])
            decided = words == "ruled out", words == "certain"
            mean = exact_risk(risk, decided, truth[rest].astype(bool), False)
            held.setdefault(risk, []).append(mean)
    return [
        {
            "data": name,
            "risk": risk,
            "repetitions": repetitions,
            "held": float(np.mean(np.array(held[risk]) <= LIMIT)),
            "mean_risk": float(np.mean(held[risk])),
        }
        for risk in RISKS
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--splits", type=int, default=100, help="0 keeps the figures there are")
    parser.add_argument("--repetitions", type=int, default=20, help="out of fold; 0 for none")
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--risks", nargs="+", default=[*RISKS, EACH_LABEL])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/label_sets.json"))
    given = parser.parse_args()
    warnings.simplefilter("ignore", viewgap.errors.ViewgapWarning)
    kept = Kept(given.out)
    for name in given.data:
        for incomplete in (False, True):
            own = Setting(name, incomplete)
            for name_of_risk in given.risks:
                each = name_of_risk == EACH_LABEL
                risk = "missed positives" if each else name_of_risk
                line = {"data": name, "incomplete": incomplete, "risk": risk, "per_label": each}
                line |= drawn(own, risk, each, given.draws)
                if given.splits and not each:
                    line |= split(own, risk, each, given.splits)
                if given.splits and risk == "missed positives" and not each and not incomplete:
                    line["mapie"] = mapie(own, 20)
                kept.keep("lines", line)
        if given.repetitions and name != "multidigits":  # six fits of it take a minute
            for line in out_of_fold(name, given.repetitions):
                kept.keep("out_of_fold", line)


def as_tables(content: dict[str, Any]) -> str:
    """The kept figures as the tables of docs/label_sets.md."""
    lines = [
        "| data | incomplete | risk | draws | held | worst pattern | same draws, by test rows "
        "| splits, by test rows | not refuted | possible | needed |",
        "|---|---|---|" + "---:|" * 8,
    ]
    order = sorted(
        content["lines"],
        key=lambda own: (
            *(own["incomplete"], DATA.index(own["data"])),
            *(own["per_label"], RISKS.index(own["risk"])),
        ),
    )
    for own in order:
        risk = own["risk"] + (", each label" if own["per_label"] else "")
        gaps = "yes" if own["incomplete"] else "no"
        by_test = ("held, test mean", "split_held", "split_not_refuted")
        keys = ("held", "held, worst pattern", *by_test)
        figures = [own.get(key) for key in (*keys, "possible", "needed")]
        shown = ["–" if value is None else f"{value:.2f}" for value in figures]
        lines.append(
            f"| {own['data']} | {gaps} | {risk} | {own['draws']:,} | {' | '.join(shown)} |"
        )
    lines += ["", "| data | sets of | possible | mean risk |", "|---|---|---:|---:|"]
    names = {"ours": "viewgap", "wsr": "MAPIE, WSR", "hoeffding": "MAPIE, Hoeffding"}
    for own in (own for own in order if "mapie" in own):
        for key, name in names.items():
            values = (own["mapie"][f"{what}, {key}"] for what in ("possible", "mean risk"))
            lines.append(f"| {own['data']} | {name} | {' | '.join(f'{v:.3f}' for v in values)} |")
    lines += ["", "| data | risk, out of fold | repetitions | held | mean risk |"]
    lines.append("|---|---|---:|---:|---:|")
    for own in content["out_of_fold"]:
        figures = f"{own['repetitions']} | {own['held']:.2f} | {own['mean_risk']:.3f}"
        lines.append(f"| {own['data']} | {own['risk']} | {figures} |")
    return "\n".join(lines)


class Kept:
    """The file of results: new figures replace those of the same data set and setting."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: dict[str, Any] = {"lines": [], "out_of_fold": []}
        if path.exists():
            self.content |= json.loads(path.read_text())
        self.content["machine"] = machine_name("cpu")

    def keep(self, part: str, line: dict[str, Any]) -> None:
        """Add a line and write the file."""
        names = ("data", "incomplete", "risk", "per_label")
        key = [line.get(name) for name in names]
        same = [[own.get(name) for name in names] == key for own in self.content[part]]
        others = [own for own, is_same in zip(self.content[part], same, strict=True) if not is_same]
        for own, is_same in zip(self.content[part], same, strict=True):
            line = own | line if is_same else line
        self.content[part] = [*others, line]
        self.path.write_text(json.dumps(self.content, indent=1) + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
