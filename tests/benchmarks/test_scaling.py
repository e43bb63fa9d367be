"""The cost model of several processes: what it says is sent is what the library sends."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks._scaling_model import (
    BYTES_OF_A_SAMPLE,
    CALIBRATION,
    CODE_DIM,
    COMPUTE,
    FLOAT,
    LARGE,
    TOGETHER,
    Case,
    Machine,
    explained,
    fit,
    fused,
    messages,
    predict_step,
    rounded,
    step_seconds,
    tables,
)
from benchmarks.scaling import KEPT, counted, counts_of, joined

CASES = (
    Case(16, (5, 4, 3), 7, (16, 12), 16, 16),
    Case(24, (6, 5), 9, (8,), 8, 32),
)


@pytest.mark.parametrize("case", CASES, ids=["three views, two layers", "two views, one layer"])
@pytest.mark.parametrize("processes", [2, 5])
def test_the_messages_of_the_model_are_those_of_the_library(case: Case, processes: int) -> None:
    sizes, parameters, tensors = counted(case, processes)
    assert sorted(sizes) == sorted(messages(case, processes, parameters, tensors))


def test_what_a_step_consists_of() -> None:
    alone, shared = counts_of(CASES[1], 1), counts_of(CASES[1], 2)
    assert alone["messages"] == alone["bytes"] == 0
    sizes, _, _ = counted(CASES[1], 2)
    assert (shared["messages"], shared["bytes"]) == (len(sizes), FLOAT * sum(sizes))
    assert shared["flops"] == pytest.approx(alone["flops"] / 2, rel=0.1)  # half of the batch
    assert shared["calls"] > alone["calls"] > 100
    assert alone["values"] > shared["values"] > alone["values"] / 2


def test_fused_messages_hold_the_same_numbers() -> None:
    case = CASES[0]
    given, together = messages(case, 4, 1000, 20), fused(case, 4, 1000, 20)
    assert sum(together) == sum(given) + 1  # a loss needs a message of its own
    assert len(together) == 2 * len(case.hidden) + 3
    assert case.codebook * (CODE_DIM + 1) < max(together)


def test_constants_are_found_again() -> None:
    known = {
        "compute": dict(zip(COMPUTE, (1e-3, 4e-6, 1e-9, 2e-11), strict=True)),
        "together": dict(zip(TOGETHER, (1.1, 3e-4, 5e-4, 1e-9), strict=True)),
    }
    lines: list[dict[str, Any]] = []
    for number in range(8):
        counts = {
            "calls": 500.0 + 40 * number,
            "values": 1e6 * (1 + number % 3),
            "flops": 1e8 * (number % 5),
        }
        for processes in (1, 2, 3, 4):
            sent = {"messages": 17 + 2 * number, "bytes": 5e5 * (number % 4)}
            line = counts | sent | {"processes": processes, "cores": 2, "alone": processes == 1}
            lines.append(line | {"ms": 1e3 * step_seconds(line, known)[1]})
    found = fit(lines)
    for kind, constants in known.items():
        assert found[kind] == pytest.approx(constants, rel=1e-6)


def test_processes_beyond_the_cores_take_longer() -> None:
    constants = {
        "compute": dict.fromkeys(COMPUTE, 0.0) | {"call": 1e-6},
        "together": dict(zip(TOGETHER, (1.0, 0.0, 1e-3, 0.0), strict=True)),
    }
    line = dict.fromkeys(("values", "flops", "bytes"), 0) | {"calls": 1000, "messages": 10}
    line |= {"processes": 4, "alone": False}
    assert step_seconds(line | {"cores": 4}, constants) == pytest.approx((1e-3, 1e-3))
    beyond = 2e-3 + 10 * 2 * 1e-3
    assert step_seconds(line | {"cores": 2}, constants) == pytest.approx((1e-3, beyond))


def test_runs_are_joined_with_those_of_the_same_machine() -> None:
    def run(group: str, processes: int, cores: int, ms: float) -> dict[str, Any]:
        same = {"group": group, "processes": processes, "cores": cores, "ms": ms}
        return same | {"alone": processes == 1}

    machine = {"machine": "one", "torch": "2"}
    kept = [run(CALIBRATION, 1, 2, 1.0), run(CALIBRATION, 2, 2, 2.0), run(CALIBRATION, 2, 4, 3.0)]
    now = [run("validation", 1, 2, 4.0), run(CALIBRATION, 2, 2, 5.0)]
    found = joined(machine | {"measured": kept}, machine | {"measured": now})
    assert [line["ms"] for line in found["measured"]] == [1.0, 5.0, 3.0, 4.0]
    with pytest.raises(SystemExit, match="of 'one', not 'another'"):
        joined(machine | {"measured": kept}, {"machine": "another", "torch": "2", "measured": now})


def test_a_step_waits_for_host_or_device_and_for_all_reductions() -> None:
    machine = Machine(
        step_ms=2.0,
        shared_ms=2.5,
        tflops=1.0,
        memory_gbs=12.0,
        used=1.0,
        nvlink_gbs=1.0,
        network_gbs=0.5,
        pcie_gbs=1e9,
        latency_us=20.0,
        host_latency_us=40.0,
    )
    large, sizes = {"flops_of_a_sample": 1e6, "values_of_a_sample": 1e3}, [1000, 249_000]
    alone = predict_step(1, LARGE.batch, large, sizes, 9.0, machine)
    assert alone.total == 2.0
    more = predict_step(1, LARGE.batch + 1000, large, sizes, 9.0, machine)
    assert more.total == pytest.approx(2.0 + 1.0 + 1.0)  # 1e9 operations, 12e6 bytes
    slow = replace(machine, pcie_gbs=0.001)  # a million bytes a second
    fed = predict_step(1, 100, large, sizes, 9.0, slow)
    assert fed.total == pytest.approx(1e3 * 100 * BYTES_OF_A_SAMPLE / 1e6)
    eight = predict_step(8, LARGE.batch, large, sizes, 9.0, machine)
    assert eight.sent == 2 * 7 / 8 * 1e6
    assert eight.total == pytest.approx(9.0 + 2 * 0.020 + 1.75)
    nine = predict_step(9, LARGE.batch, large, sizes, 0.0, machine)  # on two hosts
    assert nine.total == pytest.approx(2.5 + 2 * 0.060 + 2 * 8 / 9 * 2.0)


def test_the_measured_steps_of_a_gpu_are_the_kept_ones() -> None:
    kept = json.loads((KEPT.parent / "recorded_processes.json").read_text())
    found = {own["way"]: own["step_ms"] for own in kept["timed"] if own["fit"] == "one network"}
    machine = Machine()
    assert machine.step_ms == pytest.approx(found["alone"], rel=1e-3)
    assert machine.shared_ms == pytest.approx(found["shared"], rel=1e-3)
    assert machine.host_ms == pytest.approx(found["shared, step by step"], rel=1e-3)


def test_what_is_kept_follows_from_what_was_measured() -> None:
    kept = json.loads(KEPT.read_text())
    groups = {line["group"]: line for line in kept["measured"]}
    assert len(groups) == 3
    fitted = [json.dumps(own["case"]) for own in kept["measured"] if own["group"] == CALIBRATION]
    others = [json.dumps(own["case"]) for own in kept["measured"] if own["group"] != CALIBRATION]
    assert not {*fitted} & {*others}
    again = rounded(explained(kept))
    for name in ("compute", "together"):
        assert again["constants"][name] == pytest.approx(kept["constants"][name], rel=2e-3)
    for line, shown in zip(again["predicted"], kept["predicted"], strict=True):
        assert line["step_ms"] == pytest.approx(shown["step_ms"], rel=2e-3)
    for line, shown in zip(again["measured"], kept["measured"], strict=True):
        assert line["predicted_ms"] == pytest.approx(shown["predicted_ms"], rel=2e-3)


def test_the_page_has_the_tables_of_the_kept_figures() -> None:
    page = (Path(__file__).parents[2] / "docs" / "scaling.md").read_text(encoding="utf-8")
    for table in tables(json.loads(KEPT.read_text())):
        assert table in page, f"python -m benchmarks.scaling table prints another one:\n{table}"
