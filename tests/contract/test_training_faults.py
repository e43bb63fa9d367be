"""Batches with almost nothing in them, and fits whose numbers break: for every network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import viewgap.methods as methods
from viewgap.checkpoints import CheckpointFolder
from viewgap.errors import RunError, SettingError
from viewgap.training import checkpointing
from viewgap.training.callbacks import Callback, TrainingContext


@pytest.fixture(autouse=True)
def _network(method: str, make: Any) -> None:
    if not (methods.get(method).keeps_checkpoints and "callbacks" in make.known):
        pytest.skip("not a network")


def test_batches_without_a_view_and_without_labels(make: Any, tools: Any) -> None:
    """Most batches hold no row of a view, and no observed label; all losses stay numbers."""
    problem = tools.make_problem(34)
    problem.observed[:, 0] = False
    problem.observed[[3, 20], 0] = True
    problem.observed[:, 1] = True
    problem.Y[6:30] = np.nan
    model = make(batch_size=3, max_epochs=2).fit(problem.views(), problem.Y)
    for name, values in model.history_.items():
        if name != "validation_score":
            assert np.isfinite(np.asarray(values, dtype=float)).all(), name
    assert np.isfinite(model.predict_proba(problem.views())).all()


def test_a_batch_size_of_one_is_refused(make: Any, problem: Any) -> None:
    """A last batch of one is folded into the one before; batches of one cannot be normalised."""
    with pytest.raises(SettingError, match="batch_size must be a whole number from 2"):
        make(batch_size=1).fit(problem.views(), problem.Y)


def test_fewer_vectors_than_codes(make: Any, tools: Any) -> None:
    if "codebook_size" not in make.known:
        pytest.skip("no codebook")
    problem = tools.make_problem(9)
    problem.Y[np.isnan(problem.Y)] = 0.0
    same = {name: np.ones_like(block) for name, block in problem.blocks.items()}
    for views in (problem.views(), same):  # the second: one vector, again and again
        model = make(codebook_size=200, max_epochs=2, validation_fraction=0.0).fit(views, problem.Y)
        assert np.isfinite(model.predict_proba(views)).all()


class Broken(Callback):
    """Weights are no numbers when the second epoch begins."""

    def on_epoch_begin(self, context: TrainingContext) -> None:
        if context.epoch == 2:
            with torch.no_grad():
                for weight in context.state.network.parameters():
                    weight.fill_(torch.nan)


def test_a_fit_that_diverges_says_where_and_keeps_the_epoch_before(
    make: Any, problem: Any, tools: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointing, "SPACING", 0.0)
    data, run = (problem.views(), problem.Y), tmp_path / "run"
    words = r"diverged in epoch 2: .* in batch 1 of \d+ \(samples \d+.*lower learning_rate"
    with pytest.raises(RunError, match=words):
        make(callbacks=[Broken()]).fit(*data, checkpoint_dir=run)
    step, state = CheckpointFolder(run).load() or ("", None)
    assert step == "epoch-000001"
    assert state is not None
    weights = [array for name, array in state.arrays.items() if name.startswith("network/")]
    assert weights
    assert all(np.isfinite(array).all() for array in weights if array.dtype.kind == "f")
    again = make().fit(*data, checkpoint_dir=run, resume=True)  # without the fault
    assert tools.bits(again) == tools.bits(make().fit(*data))
