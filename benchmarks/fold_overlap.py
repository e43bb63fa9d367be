"""How far rows that choices were made on are test rows of other folds.

    VIEWGAP_DATA=... python -m benchmarks.fold_overlap corel5k --chosen-on 0 1 2 --folds 10

Settings of the default model were chosen on the validation rows of some folds of Corel5k. Folds are
drawn independently from the same samples, so that such a row may be a test row elsewhere. Prints
a table: of the test rows of each fold, how many were among the rows chosen on.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.experiments import RATES
from viewgap.data.splits import Fold
from viewgap.datasets import load_dataset


class Overlap(NamedTuple):
    """Test rows of one fold: how many there are, and how many were among the rows chosen on."""

    test: int
    shared: int
    chosen: bool
    """Whether this fold is one of those whose validation rows were looked at."""

    @property
    def share(self) -> float:
        """The part of the test rows that was looked at."""
        return self.shared / self.test


def overlaps(folds: Mapping[int, Fold], chosen: Sequence[int]) -> dict[int, Overlap]:
    """For every fold, its test rows among the validation rows of the chosen folds."""
    looked_at = np.unique(np.concatenate([folds[number].validation for number in chosen]))
    return {
        number: Overlap(
            len(fold.test), int(np.isin(fold.test, looked_at).sum()), number in set(chosen)
        )
        for number, fold in folds.items()
    }


def as_markdown(found: Mapping[int, Overlap]) -> str:
    """The table, with the mean over the folds that were not chosen on and over all."""
    lines = ["| fold | test rows | of them looked at | share |", "|---|---:|---:|---:|"]
    for number, own in found.items():
        name = f"{number} (chosen on)" if own.chosen else str(number)
        lines.append(f"| {name} | {own.test} | {own.shared} | {own.share:.1%} |")
    groups = {"the others": [own for own in found.values() if not own.chosen]}
    for name, group in {**groups, "all": list(found.values())}.items():
        if group:
            test, shared = sum(own.test for own in group), sum(own.shared for own in group)
            lines.append(f"| {name} | {test} | {shared} | {shared / test:.1%} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("--chosen-on", type=int, nargs="+", default=[0, 1, 2], metavar="FOLD")
    parser.add_argument("--folds", type=int, default=10)
    options = parser.parse_args()
    if not all(0 <= number < options.folds for number in options.chosen_on):
        parser.error(f"--chosen-on must name folds from 0 to {options.folds - 1}")
    data = load_dataset(options.dataset)
    folds = dict(enumerate(data.folds(count=options.folds, **RATES)))
    print(as_markdown(overlaps(folds, options.chosen_on)))


if __name__ == "__main__":
    main()
