"""Which test rows were looked at when choices were made."""

from __future__ import annotations

import numpy as np
from benchmarks.fold_overlap import as_markdown, overlaps

from viewgap.data.splits import Fold


def fold(train: list[int], validation: list[int], test: list[int]) -> Fold:
    rows = (np.array(part, dtype=np.intp) for part in (train, validation, test))
    return Fold(*rows, np.ones((8, 2), dtype=bool), np.ones((8, 3), dtype=bool))


FOLDS = {
    0: fold([0, 1, 2, 3], [4, 5], [6, 7]),
    1: fold([4, 5, 6, 7], [0, 5], [2, 3]),
    2: fold([0, 1, 2, 3], [6, 7], [4, 5]),
    3: fold([2, 3, 6, 7], [1, 4], [0, 1]),
}


def test_rows_of_several_folds_are_counted_once() -> None:
    found = overlaps(FOLDS, [0, 1])  # validation rows 0, 4 and 5
    assert [(own.test, own.shared) for own in found.values()] == [(2, 0), (2, 0), (2, 2), (2, 1)]
    assert [own.chosen for own in found.values()] == [True, True, False, False]
    assert found[3].share == 0.5


def test_the_table_has_the_share_of_the_folds_that_were_not_chosen_on() -> None:
    lines = as_markdown(overlaps(FOLDS, [0, 1])).splitlines()
    assert "| 0 (chosen on) | 2 | 0 | 0.0% |" in lines
    assert lines[-2:] == ["| the others | 4 | 3 | 75.0% |", "| all | 8 | 3 | 37.5% |"]
