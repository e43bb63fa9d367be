"""The loop stops on numbers that are not numbers, and the runtime leaves no trace."""

import math
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch
from torch.nn import functional as F

from viewgap.errors import RunError, SettingError
from viewgap.training.loop import _refuse_divergence, _run_epoch
from viewgap.training.progress import _line, progress
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


def test_progress_has_no_best_score_before_scores_count() -> None:
    state = SimpleNamespace(
        best_epoch=0, best_score=-math.inf, history={"loss": [1.0], "validation_score": [0.5]}
    )
    assert _line(state) == "validation 0.5000 (best –) · loss 1.000"


def test_progress_shows_terms_score_and_codebook_use(capsys: pytest.CaptureFixture[str]) -> None:
    class Fake:
        epoch, best_epoch, best_score = 2, 1, 0.75

        def __init__(self) -> None:
            self.history = {
                "loss": [2.0, 1.5],
                "codebook_use": [0.1, 0.9],
                "validation_score": [0.75, 0.7],
            }

    assert (
        _line(Fake())
        == "validation 0.7000 (best 0.7500, epoch 1) · loss 1.500 · codebook use 0.900"
    )
    with progress("SCSD", 3, show=True) as show:
        show(Fake())
    out = capsys.readouterr()
    assert out.out == ""
    assert "SCSD" in out.err
