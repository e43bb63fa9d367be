"""Several processes train the model that one process trains: the same weights, whatever the split.

The processes of a world size are started once and do all its cases (`helpers/process_cases.py`):
hence one test for many of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch

import process_cases
from process_cases import CASES, FLOAT32, Arrays, arrays_of, difference, result, start
from viewgap.errors import RunError, SettingError
from viewgap.nn.reduce import collective
from viewgap.training.processes import ProcessGroup, current_processes, process_group

BAR = 1e-10
ENSEMBLES = tuple(case for case in CASES if "ensemble" in case)
QUICK_ENSEMBLES = ("ensemble-stopped-in-one", "dealt-ensemble")
DEALT = ("dealt", "dealt-clipped", "dealt-rank")
TO_THE_BIT = (
    *(f"{case}{suffix}" for case in DEALT for suffix in ("", "-fixed")),
    *("ridge", "forest", "refusals", *ENSEMBLES),
)
# Messages take long where processes share a core: few steps. The others are of `test_all_cases`.
QUICK = (
    *("scsd-stopped", "one-sided", "dealt", "dealt-clipped"),
    *(case for case in CASES if case.endswith("-few") and "paper" not in case),
    "scsd-paper-few",
    *("rank-paper-few", "simm-paper-few", "dvsm-paper-few", "pcve-paper-few"),  # other code
    *("stopped-by-one", "refusals", "ridge", "forest"),
    *("scsd-few-fixed", "dealt-clipped-fixed", "drls-few-fixed"),
)
BY_FOUR = ("drls-few", "dealt", "mtd-few-fixed")

pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")


@cache
def expected(case: str) -> Arrays:
    return arrays_of(CASES[case]())


def check(folder: Path, cases: Sequence[str], world_size: int) -> None:
    problems = []
    for case in cases:
        try:
            ranks = [result(folder, case, rank) for rank in range(world_size)]
        except AssertionError as error:
            problems.append(f"{case}: {error}")
            continue
        bar = 0.0 if case in TO_THE_BIT else 1e-5 if case in FLOAT32 else BAR
        gap = difference(expected(case), ranks[0])
        apart = max(difference(ranks[0], other) for other in ranks[1:])
        if gap > bar or apart > 0.0:
            problems.append(f"{case}: {gap:.1e} from one process, {apart:.1e} between processes")
    assert not problems, "\n".join(problems)


def test_two_processes_fit_what_one_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, begin = tmp_path / "begun", tmp_path / "begin"
    process_cases.begin(begun)
    monkeypatch.setenv("VIEWGAP_BEGUN", str(begun))
    monkeypatch.setenv("VIEWGAP_BEGIN", str(begin))
    start(2, tmp_path / "two", (*QUICK, "begun-elsewhere", "begun-here", "dealt-begun-here"))
    check(tmp_path / "two", QUICK, 2)
    # A checkpoint knows nothing of how many processes wrote it.
    for found in (
        result(tmp_path / "two", "begun-elsewhere", 0),
        result(tmp_path / "two", "begun-elsewhere", 1),
        arrays_of(process_cases.go_on(begin)),
    ):
        assert difference(expected("committee"), found) <= BAR
    dealt = arrays_of(process_cases.go_on(tmp_path / "begin-dealt"))
    assert difference(expected("dealt"), dealt) == 0.0


@pytest.mark.faults_slow  # the quick one is that of the command line
def test_two_processes_fit_the_ensemble_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    monkeypatch.setenv("VIEWGAP_BEGIN", str(begun))
    start(2, tmp_path / "two", (*QUICK_ENSEMBLES, "ensemble-begun-here"))
    check(tmp_path / "two", QUICK_ENSEMBLES, 2)
    for rank in range(2):  # where the second of the three members was made to fail
        result(tmp_path / "two", "ensemble-begun-here", rank)
    kept = sorted(path.name for path in (begun / "members").iterdir())
    assert kept == ["random_forest", "scsd"]
    whole = arrays_of(process_cases.ensemble(checkpoint_dir=begun, resume=True))
    assert difference(expected("ensemble"), whole) == 0.0


def test_four_processes_fit_what_one_fits(tmp_path: Path) -> None:
    start(4, tmp_path, BY_FOUR)  # one of them has no row of the last batch
    check(tmp_path, BY_FOUR, 4)


@pytest.mark.faults_slow
@pytest.mark.parametrize("world_size", [2, 4])
def test_all_cases(tmp_path: Path, world_size: int) -> None:
    start(world_size, tmp_path, tuple(CASES), timeout=1200)
    check(tmp_path, tuple(CASES), world_size)


# ---------------------------------------------------------------------- joining and leaving


def test_errors_of_messages_are_typed() -> None:
    with (
        pytest.raises(RunError, match=r"lost each other \(Connection closed by peer\)"),
        collective(),
    ):
        raise RuntimeError("Connection closed by peer\nmore")


def test_what_a_group_needs_of_the_environment() -> None:
    given = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    for name, value, said in (
        ("RANK", "", "RANK not set"),
        ("RANK", "-1", "RANK must be a whole number"),
        ("RANK", "2", r"below WORLD_SIZE \(2\)"),
        ("MASTER_PORT", "", "MASTER_PORT not set"),
    ):
        with (
            pytest.raises(SettingError, match=said),
            process_group("gloo", environment={**given, name: value}),
        ):
            pass
    with (
        pytest.raises(SettingError, match="backend must be one of gloo, nccl"),
        process_group("mpi", environment=given),
    ):
        pass
    with (
        pytest.raises(SettingError, match="committee must be one of"),
        process_group("gloo", committee="some", environment=given),
    ):
        pass
    assert current_processes() is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_nccl_needs_a_gpu_for_every_process() -> None:
    given = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    with (
        pytest.raises(SettingError, match="the machine has 0"),
        process_group("nccl", environment=given),
    ):
        pass


def test_which_committees_are_dealt_out() -> None:
    cpu = torch.device("cpu")
    assert ProcessGroup(0, 2, cpu, "auto").deals_out(5)
    assert not ProcessGroup(0, 8, cpu, "auto").deals_out(5)
    assert ProcessGroup(0, 8, cpu, "deal").deals_out(5)
    assert not ProcessGroup(0, 2, cpu, "share").deals_out(5)
    assert not ProcessGroup(0, 2, cpu, "deal").deals_out(1)
    assert not ProcessGroup(0, 1, cpu, "deal").deals_out(5)
