"""What other threads do while the data are prepared: the step they try has the real one's shape."""

import threading
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from tests.training.test_steps import DIMS, VARIANTS, N

from viewgap.data.viewset import ViewSet
from viewgap.methods.scsd.network import SCSDNetwork
from viewgap.training.batches.batch import Batch
from viewgap.training.runtime import Runtime
from viewgap.training.steps.look_ahead import capacities_ahead
from viewgap.training.steps.warm_up import Zeros, dry_step, in_background

CPU = Runtime(torch.device("cpu"))


def make_views() -> ViewSet:
    rng = np.random.default_rng(0)
    observed = rng.random((N, 3)) < 0.5
    observed[:, 0] |= ~observed.any(axis=1)
    return ViewSet({f"v{d}": rng.normal(size=(N, d)) for d in DIMS}, observed)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_dry_step_has_gradients_and_leaves_all_random_numbers_alone(name: str) -> None:
    settings = VARIANTS[name]
    network = SCSDNetwork(DIMS, 4, settings, torch.Generator().manual_seed(0))
    before = torch.get_rng_state()
    dry_step(network, Zeros(make_views(), 4, CPU), settings, torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), before)
    assert any(parameter.grad is not None for parameter in network.parameters())


USERS = ("nn.codebook", "nn.fusion", "nn.norm", "nn.losses", "nn.gather", "methods.scsd.network")


@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
@pytest.mark.parametrize("precision", ["highest", "bf16"])
@pytest.mark.parametrize("name", VARIANTS)
def test_a_dry_step_asks_for_kernels_and_computes_nothing_that_is_not_finite(
    name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, where an index out of range or a NaN would end the process."""
    from viewgap.nn.kernels import launch

    def load(x: torch.Tensor, name: str) -> object:
        return import_module(f"viewgap.nn.kernels.{name}")

    for user in USERS:
        monkeypatch.setattr(f"viewgap.{user}.kernels_for", load)
    asked = set()
    submit = launch._Compiler.submit

    def recorded(self: object, kernel: launch.Kernel, *rest: object) -> None:
        asked.add(kernel.function.__name__)
        submit(self, kernel, *rest)

    monkeypatch.setattr(launch._Compiler, "submit", recorded)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: None)
    monkeypatch.setattr(launch.Kernel, "compile", lambda *_, **__: None)
    settings, runtime = VARIANTS[name], Runtime(torch.device("cpu"), precision)
    network = SCSDNetwork(DIMS, 4, settings, torch.Generator().manual_seed(0))
    with launch.compile_only(torch.device("cuda")):
        rows = Zeros(make_views(), 4, runtime)
        dry_step(network, rows, settings, torch.Generator().manual_seed(1))
    assert {"_forward", "_backward", "_gather", "_loss_rows", "_loss_slopes"} <= asked
    assert settings.reconstruction == ("_error_slopes" in asked)
    assert settings.quantise == ("_quantise" in asked)
    for key, parameter in network.named_parameters():
        assert parameter.grad is None or bool(parameter.grad.isfinite().all()), key


def test_a_dry_step_has_the_shape_of_the_steps_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def loss_terms(self: SCSDNetwork, batch: Batch) -> dict[str, torch.Tensor]:
        sizes.append((batch.sizes, [len(target.source) for target in batch.targets]))
        return {"bias": self.encoders[0].output.bias.sum()}

    monkeypatch.setattr(SCSDNetwork, "loss_terms", loss_terms)
    settings, rows = replace(VARIANTS["default"], max_epochs=9), Zeros(make_views(), 4, CPU)
    network = SCSDNetwork(DIMS, 4, settings, torch.Generator().manual_seed(0))
    order = torch.Generator().manual_seed(1)
    (ahead,) = capacities_ahead(rows, network.layout, settings, order, 9)
    dry_step(network, rows, settings, order)
    assert sizes == [(ahead.views, ahead.pairs)]


def test_what_the_background_raises_comes_out() -> None:
    def broken() -> None:
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        in_background(broken).result()


def test_the_background_is_another_thread() -> None:
    assert in_background(threading.get_ident).result() != threading.get_ident()
