"""Several processes train the model that one process trains: the same weights, whatever the split.

The processes of a world size are started once and do all its cases (`helpers/process_cases.py`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from process_cases import CASES, Arrays, arrays_of, result, start

BAR = 1e-10
FOUR = ("scsd", "scsd-paper-dropout", "committee", "pcve")
SLOW_FOUR = tuple(case for case in CASES if case not in FOUR)

pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")


@cache
def expected(case: str) -> Arrays:
    return arrays_of(CASES[case]())


def check(folder: Path, case: str, world_size: int, bar: float = BAR) -> None:
    one, first = expected(case), result(folder, case, 0)
    assert one.keys() == first.keys()
    for name, value in one.items():
        np.testing.assert_allclose(first[name], value, rtol=0, atol=bar, err_msg=name)
    for rank in range(1, world_size):
        for name, value in result(folder, case, rank).items():
            np.testing.assert_array_equal(value, first[name], err_msg=name)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    start(2, folder, tuple(CASES))
    return folder


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("four")
    start(4, folder, FOUR)
    return folder


@pytest.fixture(scope="module")
def all_by_four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("all-by-four")
    start(4, folder, SLOW_FOUR)
    return folder


@pytest.mark.xdist_group("processes")
class TestSameModel:
    @pytest.mark.parametrize("case", CASES)
    def test_two_processes(self, two: Path, case: str) -> None:
        check(two, case, 2)

    @pytest.mark.parametrize("case", FOUR)
    def test_four_processes(self, four: Path, case: str) -> None:
        check(four, case, 4)

    @pytest.mark.slow
    @pytest.mark.parametrize("case", SLOW_FOUR)
    def test_four_processes_do_the_rest(self, all_by_four: Path, case: str) -> None:
        check(all_by_four, case, 4)
