"""What a GPU records and replays: on the CPU every call goes through to the function itself."""

import numpy as np
import pytest
import torch

from viewgap.training.plan import Capacity, Layout, Plan, choose
from viewgap.training.replay import PlanOnDevice, Replay

CPU = torch.device("cpu")


@pytest.mark.parametrize("plain_calls", [0, 1, 3])
def test_on_the_cpu_every_call_is_a_call(plain_calls: int) -> None:
    called: list[int] = []

    def work() -> int:
        called.append(len(called))
        return called[-1]

    replay = Replay(work, CPU, plain_calls=plain_calls)
    for number in range(6):
        assert replay.is_recorded == (number >= plain_calls)
        assert replay() == number
    assert called == list(range(6))


def test_what_the_function_raises_comes_out() -> None:
    def broken() -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        Replay(broken, CPU)()


def make_plan(capacity: Capacity, seed: int, layout: Layout) -> Plan:
    rng = np.random.default_rng(seed)
    observed = rng.random((30, 3)) < 0.5
    order = torch.from_numpy(rng.permutation(30))
    choice = choose(list(order.split(12)), observed, 0.0, None)
    plan = Plan(choice, [0, 0, 0], layout, capacity)
    plan.arrays["numbers"] = rng.random((plan.steps, 3))
    return plan


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rows", ["dense", "packed"])
@pytest.mark.parametrize("norm_rows", ["observed", "all"])
def test_a_plan_on_the_device_gives_its_steps_in_order(
    rows: str, norm_rows: str, dtype: torch.dtype
) -> None:
    layout, capacity = Layout(rows, norm_rows, "cross"), Capacity([16] * 3, [64] * 3)
    plans = [make_plan(capacity, seed, layout) for seed in (0, 1)]
    assert plans[0].steps == 3  # the last batch is shorter
    on_device = PlanOnDevice(plans[0], CPU, dtype)
    for number, plan in enumerate([plans[0], plans[1], plans[0]]):
        if number:
            on_device.load(plan)
        for t in range(plan.steps):
            found, expected = on_device.step(), plan.step(t)
            assert set(found) == set(expected)
            for name, values in expected.items():
                if values.dtype == torch.long:
                    assert torch.equal(found[name], values), name
                else:
                    assert found[name].dtype == dtype
                    torch.testing.assert_close(found[name], values.to(dtype), msg=name)


def test_a_plan_can_be_loaded_again_before_its_end() -> None:
    plan = make_plan(Capacity(), 0, Layout("packed"))
    on_device = PlanOnDevice(plan, CPU, torch.float32)
    first = on_device.step()["rows"].clone()
    on_device.step()
    on_device.load(plan)
    assert torch.equal(on_device.step()["rows"], first)
