"""Callbacks: when they are called and with what, what they can stop, and what progress shows."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import viewgap
from viewgap.errors import RunError, SettingError
from viewgap.training.callbacks import Callback, Progress, TrainingContext, summary_line

DATA = np.random.default_rng(0)
X = {"a": DATA.normal(size=(40, 6)), "b": DATA.normal(size=(40, 3))}
Y = (X["a"][:, :3] > 0).astype(float)
SMALL = {"max_epochs": 4, "wide": 8, "embedding": 8, "random_state": 0, "device": "cpu"}


class Log(Callback):
    def __init__(self, stop_after: int = 100) -> None:
        self.calls: list[tuple[str, int]] = []
        self.losses: list[float] = []
        self.stop_after = stop_after
        self.closed = False

    def on_train_begin(self, context: TrainingContext) -> None:
        self.calls.append(("train begin", context.epoch))
        context.resources.callback(lambda: setattr(self, "closed", True))

    def on_epoch_begin(self, context: TrainingContext) -> None:
        self.calls.append(("epoch begin", context.epoch))

    def on_epoch_end(self, context: TrainingContext) -> None:
        self.calls.append(("epoch end", context.epoch))
        assert len(context.history["loss"]) == context.epoch
        assert context.score == context.history["validation_score"][-1]
        self.losses.append(context.metrics["loss"])
        if context.epoch == self.stop_after:
            context.request_stop()

    def on_train_end(self, context: TrainingContext) -> None:
        self.calls.append(("train end", context.epoch))
        kept = context.state.network.state_dict()
        for name, value in context.state.best_weights.items():
            assert np.array_equal(kept[name], value)


def test_callbacks_are_called_in_order_and_may_stop() -> None:
    log = Log(stop_after=2)
    model = viewgap.DICNet(callbacks=[log], **SMALL).fit(X, Y)
    epochs = [(when, epoch) for epoch in (1, 2) for when in ("epoch begin", "epoch end")]
    assert log.calls == [("train begin", 0), *epochs, ("train end", 2)]
    assert log.losses == model.history_["loss"]
    assert model.n_epochs_ == 2
    assert log.closed


def test_callbacks_that_only_look_change_nothing() -> None:
    plain = viewgap.DICNet(**SMALL).fit(X, Y).predict_proba(X)
    watched = viewgap.DICNet(callbacks=(Log(),), **SMALL).fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(plain, watched)


def test_what_a_callback_opened_is_closed_after_an_error() -> None:
    log = Log()
    with pytest.raises(RunError, match="diverged"):
        viewgap.DICNet(callbacks=[log], learning_rate=1e30, **SMALL).fit(X, Y)
    assert log.closed
    assert log.calls[-1][0] != "train end"


def test_callbacks_are_not_in_the_model_file(tmp_path: Path) -> None:
    model = viewgap.DICNet(callbacks=[Log()], **SMALL).fit(X, Y)
    viewgap.save_model(model, tmp_path / "model")
    loaded = viewgap.load_model(tmp_path / "model")
    assert loaded.callbacks is None
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("bad", [Log(), [Log], "log", [None]])
def test_anything_else_is_refused(bad: object) -> None:
    with pytest.raises(SettingError, match="callbacks must be a list of"):
        viewgap.DICNet(callbacks=bad, **SMALL).fit(X, Y)


# ---------------------------------------------------------------------- progress


def test_progress_has_no_best_score_before_scores_count() -> None:
    state = SimpleNamespace(
        best_epoch=0, best_score=-math.inf, history={"loss": [1.0], "validation_score": [0.5]}
    )
    assert summary_line(state) == "validation 0.5000 (best –) · loss 1.000"


def test_progress_shows_terms_score_and_codebook_use(capsys: pytest.CaptureFixture[str]) -> None:
    history = {"loss": [2.0, 1.5], "codebook_use": [0.1, 0.9], "validation_score": [0.75, 0.7]}
    state = SimpleNamespace(epoch=2, best_epoch=1, best_score=0.75, history=history)
    line = "validation 0.7000 (best 0.7500, epoch 1) · loss 1.500 · codebook use 0.900"
    assert summary_line(state) == line
    context, bar = TrainingContext(state, SimpleNamespace(max_epochs=3)), Progress("SCSD")
    with context.resources:
        bar.on_train_begin(context)
        bar.on_epoch_end(context)
    out = capsys.readouterr()
    assert out.out == ""
    assert "SCSD" in out.err
    assert "2/3" in out.err
