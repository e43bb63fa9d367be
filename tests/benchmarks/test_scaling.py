"""The cost model of several processes: what it says is sent is what the library sends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from benchmarks._scaling_model import (
    BYTES_OF_A_SAMPLE,
    CODE_DIM,
    COMPUTE,
    FLOAT,
    LARGE,
    TOGETHER,
    Case,
    Machine,
    fit,
    fused,
    messages,
    predict_step,
    step_seconds,
)
from benchmarks.scaling import counted, counts_of

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
    sizes, parameters, tensors = counted(CASES[1], 2)
    assert (shared["messages"], shared["bytes"]) == (len(sizes), FLOAT * sum(sizes))
    assert shared["flops"] == pytest.approx(alone["flops"] / 2, rel=0.1)  # half of the batch
    assert shared["draws"] == alone["draws"]  # for the whole batch
    assert shared["parameters"] == alone["parameters"] == parameters
    assert shared["calls"] > alone["calls"] > 100
    assert tensors < 100


def test_fused_messages_hold_the_same_numbers() -> None:
    case = CASES[0]
    given, together = messages(case, 4, 1000, 20), fused(case, 4, 1000, 20)
    assert sum(together) == sum(given) + 1  # a loss needs a message of its own
    assert len(together) == 2 * len(case.hidden) + 3
    assert case.codebook * (CODE_DIM + 1) < max(together)


def test_constants_are_found_again() -> None:
    known = {
        "compute": dict(zip(COMPUTE, (4e-6, 1e-9, 3e-9, 2e-9, 2e-11), strict=True)),
        "together": dict(zip(TOGETHER, (1.1, 3e-4, 5e-4, 1e-9), strict=True)),
    }
    lines: list[dict[str, Any]] = []
    for number in range(8):
        counts = {
            "calls": 500.0 + 40 * number,
            "values": 1e6 * (1 + number % 3),
            "draws": 1e5 * (1 + number % 4),
            "parameters": 10_000 * (1 + number) ** 2,
            "flops": 1e8 * (number % 5),
        }
        for processes in (1, 2, 3, 4):
            sent = {"messages": 17 + 2 * number, "bytes": 5e5 * (number % 4)}
            line = counts | sent | {"processes": processes, "alone": processes == 1}
            lines.append(line | {"ms": 1e3 * step_seconds(line, known, 2)[1]})
    found = fit(lines, 2)
    for kind, constants in known.items():
        assert found[kind] == pytest.approx(constants, rel=1e-6)


def test_processes_beyond_the_cores_take_longer() -> None:
    constants = {
        "compute": dict.fromkeys(COMPUTE, 0.0) | {"call": 1e-6},
        "together": dict(zip(TOGETHER, (1.0, 0.0, 1e-3, 0.0), strict=True)),
    }
    counts = dict.fromkeys(("values", "draws", "parameters", "flops", "bytes"), 0)
    line = counts | {"calls": 1000, "messages": 10, "processes": 4, "alone": False}
    assert step_seconds(line, constants, 4) == pytest.approx((1e-3, 1e-3))
    assert step_seconds(line, constants, 2) == pytest.approx((1e-3, 2e-3 + 10 * 2 * 1e-3))


def test_a_step_waits_for_host_or_device_and_for_all_reductions() -> None:
    machine = Machine(
        step_ms=2.0,
        tflops=1.0,
        used=1.0,
        nvlink_gbs=1.0,
        network_gbs=0.5,
        pcie_gbs=1e9,
        latency_us=20.0,
        host_latency_us=40.0,
    )
    flops, sizes = 1e6, [1000, 249_000]
    alone = predict_step(1, LARGE.batch, flops, sizes, 9.0, machine)
    assert alone.total == 2.0
    assert predict_step(1, LARGE.batch + 1000, flops, sizes, 9.0, machine).total == 3.0
    slow = replace(machine, pcie_gbs=0.001)  # a million bytes a second
    fed = predict_step(1, 100, flops, sizes, 9.0, slow)
    assert fed.total == pytest.approx(1e3 * 100 * BYTES_OF_A_SAMPLE / 1e6)
    eight = predict_step(8, LARGE.batch, flops, sizes, 9.0, machine)
    assert eight.sent == 2 * 7 / 8 * 1e6
    assert eight.total == pytest.approx(9.0 + 2 * 0.020 + 1.75)
    nine = predict_step(9, LARGE.batch, flops, sizes, 0.0, machine)  # on two hosts
    assert nine.total == pytest.approx(2.0 + 2 * 0.060 + 2 * 8 / 9 * 2.0)
