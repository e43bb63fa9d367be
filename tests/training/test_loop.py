"""The loop stops on numbers that are not numbers, and the runtime leaves no trace."""

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from torch.nn import functional as F

from viewgap.errors import RunError, SettingError
from viewgap.training.loop import _refuse_divergence, _run_epoch
from viewgap.training.runtime import choose_runtime


def test_divergence_names_the_term() -> None:
    _refuse_divergence({"classification": 0.1}, 3)
    with pytest.raises(RunError, match="epoch 3: the reconstruction loss is nan"):
        _refuse_divergence({"classification": 0.1, "reconstruction": float("nan")}, 3)


def test_a_probability_that_is_no_number_is_a_divergence() -> None:
    class Refusing:
        def run(self, batches: object) -> dict[str, torch.Tensor]:
            F.binary_cross_entropy(torch.tensor([float("nan")]), torch.tensor([1.0]))
            return {}

    class Broken:
        def run(self, batches: object) -> dict[str, torch.Tensor]:
            raise RuntimeError("shapes do not match")

    state, settings = SimpleNamespace(network=MagicMock(), order=None, epoch=4), MagicMock()
    settings.shuffle, settings.batch_size = False, 2
    with pytest.raises(RunError, match=r"diverged in epoch 4.*lower learning_rate"):
        _run_epoch(state, 4, Refusing(), settings)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        _run_epoch(state, 4, Broken(), settings)


def test_runtime_restores_the_precision_of_the_process() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with choose_runtime("cpu").active():
            assert torch.get_float32_matmul_precision() == "highest"
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(
    "bad", [{"device": "gpu"}, {"device": "meta"}, {"device": "cpu", "precision": "int4"}]
)
def test_unknown_device_or_precision(bad: dict[str, str]) -> None:
    with pytest.raises(SettingError, match="must be"):
        choose_runtime(**bad)


def test_missing_cuda_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert choose_runtime("auto").device.type == "cpu"
    with pytest.raises(SettingError, match="no CUDA device"):
        choose_runtime("cuda")


def test_a_cuda_device_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(SettingError, match=r"has only 'cuda:0', 'cuda:1'; use device='auto'"):
        choose_runtime("cuda:99")
