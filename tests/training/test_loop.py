"""The loop stops on numbers that are not numbers, and the runtime leaves no trace."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from small_batches import make_source
from viewgap.errors import RunError, SettingError
from viewgap.training.batches.batch import Batch
from viewgap.training.callbacks import Callback, TrainingContext
from viewgap.training.fit_state import FitState
from viewgap.training.loop import train
from viewgap.training.network import DeepNetwork
from viewgap.training.runtime import choose_runtime
from viewgap.training.settings import TrainingSettings
from viewgap.training.steps.epoch import make_optimiser

Loss = Callable[[Tensor], dict[str, Tensor]]


class OneWeight(DeepNetwork):
    """A loss of its only weight; in the third epoch with the terms that `broken` gives."""

    def __init__(self, broken: Loss) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))
        self.epochs, self.broken = 0, broken

    def begin_epoch(self) -> None:
        self.epochs += 1

    def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
        terms = {"classification": self.weight.square(), "reconstruction": self.weight.abs()}
        return terms | (self.broken(self.weight) if self.epochs == 3 else {})

    def predict_batch(self, batch: Batch) -> Tensor:
        raise NotImplementedError


def fit(broken: Loss) -> None:
    fit_network(OneWeight(broken))


def fit_network(network: OneWeight, callbacks: Sequence[Callback] = ()) -> None:
    settings = TrainingSettings(max_epochs=5)  # one batch: a step breaks all terms
    state = FitState(network, make_optimiser(network, settings), torch.Generator(), None)
    train(state, make_source(), settings, callbacks=callbacks)


def mismatch(weight: Tensor) -> dict[str, Tensor]:
    raise RuntimeError("shapes do not match")


def test_divergence_names_the_term() -> None:
    with pytest.raises(RunError, match="epoch 3: the reconstruction loss is nan"):
        fit(lambda weight: {"reconstruction": weight * torch.nan})


def test_a_probability_that_is_no_number_is_a_divergence() -> None:
    with pytest.raises(RunError, match=r"diverged in epoch 3.*lower learning_rate"):
        fit(lambda w: {"classification": F.binary_cross_entropy(w * torch.nan, torch.ones(()))})


def test_divergence_names_batch_and_samples() -> None:
    expected = r"the reconstruction loss is nan in batch 1 of 1 \(samples \d+, \d+, .*in all\)"
    with pytest.raises(RunError, match=expected):
        fit(lambda weight: {"reconstruction": weight * torch.nan})


def test_weights_that_are_no_numbers_reach_no_callback() -> None:
    """A checkpoint of them could never be gone on from."""
    seen: list[int] = []

    class Look(Callback):
        def on_epoch_end(self, context: TrainingContext) -> None:
            seen.append(context.epoch)

    class LossIsFine(OneWeight):
        def loss_terms(self, batch: Batch) -> dict[str, Tensor]:
            if self.epochs == 3:  # a loss of 0, a gradient of infinity
                return {
                    "classification": torch.where(self.weight > -1, (self.weight * 0).sqrt(), 0)
                }
            return super().loss_terms(batch)

    with pytest.raises(RunError, match="epoch 3: some weights are not finite"):
        fit_network(LossIsFine(lambda weight: {}), [Look()])
    assert seen == [1, 2]


def test_other_errors_of_torch_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="shapes do not match"):
        fit(mismatch)


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
