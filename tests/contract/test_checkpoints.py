"""A fit that is interrupted and continued ends in the bits of one that never was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import viewgap.methods as methods
from viewgap.errors import SettingError
from viewgap.training import checkpointing
from viewgap.training.callbacks import Callback


class PowerCut(Callback):
    """Ends the process, as far as a test can, before epoch `before`; the last one: after all."""

    def __init__(self, before: int) -> None:
        self.before = before

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch == self.before:
            raise KeyboardInterrupt

    def on_train_end(self, context: Any) -> None:
        raise KeyboardInterrupt


def test_interrupted_after_every_epoch_a_fit_ends_in_the_same_bits(
    method: str, make: Any, problem: Any, tools: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    kind = methods.get(method)
    if not (kind.keeps_checkpoints and "callbacks" in make.known):
        pytest.skip("not a network")
    monkeypatch.setattr(checkpointing, "SPACING", 0.0)
    data, epochs = (problem.views(), problem.Y), 3
    whole = make(max_epochs=epochs).fit(*data)
    for before in range(2, epochs + 2):
        model = make(max_epochs=epochs, callbacks=[PowerCut(before)])
        with pytest.raises(KeyboardInterrupt):
            model.fit(*data, checkpoint_dir=tmp_path / "run", resume=before > 2)
    resumed = make(max_epochs=epochs).fit(*data, checkpoint_dir=tmp_path / "run", resume=True)
    assert tools.bits(resumed) == tools.bits(whole)
    assert resumed.history_ == whole.history_


def test_a_method_without_epochs_refuses_checkpoints(
    method: str, make: Any, problem: Any, tmp_path: Path
) -> None:
    if methods.get(method).keeps_checkpoints:
        pytest.skip("has checkpoints")
    with pytest.raises(SettingError, match="leave checkpoint_dir out"):
        make().fit(problem.views(), problem.Y, checkpoint_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()
