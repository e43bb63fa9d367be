"""A fit that cannot go on says what to change, and what it had kept is not mixed with that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viewgap
from viewgap.errors import CheckpointError, RunError
from viewgap.training import checkpointing
from viewgap.training.steps import epoch as steps

RNG = np.random.default_rng(0)
X = {"a": RNG.normal(size=(30, 4)), "b": RNG.normal(size=(30, 3))}
Y = (X["a"][:, :2] > 0).astype(float)


def make(**params: Any) -> viewgap.DDINet:
    small = {"max_epochs": 3, "random_state": 0, "device": "cpu", "batch_size": 8}
    return viewgap.DDINet(**small | params)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"),
    ],
)
def test_the_end_of_memory_in_training_says_what_to_lower(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(checkpointing, "SPACING", 0.0)
    whole = make().fit(X, Y)
    real, calls = steps.find_gradients, iter(range(100))

    def third_epoch(*arguments: Any) -> Any:
        if next(calls) >= 2 * 4:
            raise error
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(steps, "find_gradients", third_epoch)
        words = r"not enough memory to fit on 30 samples.*; lower batch_size or n_networks"
        with pytest.raises(RunError, match=words):
            make().fit(X, Y, checkpoint_dir=tmp_path / "run")
    resumed = make().fit(X, Y, checkpoint_dir=tmp_path / "run", resume=True)  # with more memory
    assert np.array_equal(resumed.predict_proba(X), whole.predict_proba(X))


def test_a_method_without_batches_speaks_of_samples_and_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(viewgap.LateFusionRidge, "_fit", full)
    with pytest.raises(RunError, match="fit fewer samples or columns") as told:
        viewgap.LateFusionRidge().fit(X, Y)
    assert "batch" not in str(told.value)


def test_with_another_learning_rate_a_fit_is_another_fit(tmp_path: Path) -> None:
    """What a diverged fit advises cannot be mixed with the epochs it had kept."""
    make(max_epochs=1).fit(X, Y, checkpoint_dir=tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"learning_rate was .*, and is 0\.0001 now"):
        make(max_epochs=1, learning_rate=1e-4).fit(
            X, Y, checkpoint_dir=tmp_path / "run", resume=True
        )
