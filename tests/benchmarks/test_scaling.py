"""The cost model of several processes: what it says is sent is what the library sends."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._scaling_model import (
    BYTES_OF_A_SAMPLE,
    CODE_DIM,
    LARGE,
    REDUCE,
    Case,
    Machine,
    fit_relative,
    fused,
    messages,
    predict,
    predict_step,
    reduce_features,
    reduction_seconds,
)
from benchmarks.scaling import KEPT, counted

CASES = (
    Case(16, (5, 4, 3), 7, (16, 12), 16, 16),
    Case(24, (6, 5), 9, (8,), 8, 32),
)


@pytest.mark.parametrize("case", CASES, ids=["three views, two layers", "two views, one layer"])
@pytest.mark.parametrize("processes", [2, 5])
def test_the_messages_of_the_model_are_those_of_the_library(case: Case, processes: int) -> None:
    sizes, parameters, tensors = counted(case, processes)
    assert sorted(sizes) == sorted(messages(case, processes, parameters, tensors))


def test_fused_messages_hold_the_same_numbers() -> None:
    case = CASES[0]
    given, together = messages(case, 4, 1000, 20), fused(case, 4, 1000, 20)
    assert sum(together) == sum(given) + 1  # a loss needs a message of its own
    assert len(together) == 2 * len(case.hidden) + 3
    assert case.codebook * (CODE_DIM + 1) < max(together)


def test_constants_are_found_again() -> None:
    known = dict(zip(REDUCE, (2e-4, 5e-5, 1e-9), strict=True))
    cases = [(n, p) for n in (1, 1000, 100_000) for p in (2, 3, 4)]
    seconds = [reduction_seconds(n, p, known) for n, p in cases]
    found = fit_relative([reduce_features(n, p) for n, p in cases], seconds)
    np.testing.assert_allclose(found, list(known.values()), rtol=1e-6)


def test_a_step_waits_for_host_or_device_and_for_all_reductions() -> None:
    machine = Machine(
        step_ms=2.0, tflops=1.0, used=1.0, nvlink_gbs=1.0, network_gbs=0.5, pcie_gbs=1e9
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


def test_the_kept_predictions_follow_from_the_kept_constants() -> None:
    kept = json.loads(KEPT.read_text())
    for line, shown in zip(predict(kept, Machine()), kept["predicted"], strict=True):
        assert line["step_ms"] == pytest.approx(shown["step_ms"], rel=2e-3)
