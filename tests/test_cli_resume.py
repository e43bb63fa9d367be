"""`viewgap fit --checkpoint DIR --resume`, Ctrl-C and SIGTERM."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import viewgap
from viewgap.cli import run
from viewgap.model_file import load_model, save_model
from viewgap.training import checkpointing

SMALL = ["--method", "ddinet", "--set", "max_epochs=4", "--set", "device=cpu"]


@pytest.fixture(autouse=True)
def listening() -> Iterator[None]:
    """Ctrl-C as in a terminal: processes in the background may have been started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a fit on small data, without its model."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checkpointing, "SPACING", 0.0)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(40, 3)), rng.normal(size=(40, 2))
    np.savez("my  data.npz", view0=a, view1=b, labels=(a[:, :2] > 0).astype(float))
    return ["fit", "my  data.npz", *SMALL]


def send(monkeypatch: pytest.MonkeyPatch, *signals: int) -> None:
    """Send these signals to this process in the second epoch."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals come to the main thread")

    def on_epoch_begin(self: Any, context: Any) -> None:
        if context.epoch == 2:
            for number in signals:
                os.kill(os.getpid(), number)

    monkeypatch.setattr(checkpointing.StopOnSignal, "on_epoch_begin", on_epoch_begin)


def weights(path: str) -> dict[str, Any]:
    return {name: array.tolist() for name, array in load_model(path)._get_state().arrays.items()}


def test_a_checkpoint_is_continued_only_when_asked(
    data: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*data, "--out", "model", "--checkpoint", "run 1"]
    assert run(command) == 0
    first = weights("model")
    assert run([*data, "--out", "other", "--checkpoint", "run 1"]) == 1
    assert "run 1 already holds a checkpoint; --resume goes on" in capsys.readouterr().err
    assert not Path("other").exists()
    assert run([*command, "--resume", "--overwrite"]) == 0
    assert weights("model") == first
    assert run([*command, "--resume", "--overwrite", "--set", "alpha=0.5"]) == 1
    assert "--set alpha was None, and is 0.5 now" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--resume"], "--resume needs --checkpoint"),
        (
            ["--checkpoint", "run", "--method", "label_frequency"],
            "LabelFrequency has no epochs to keep: leave --checkpoint out",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused(
    data: list[str], options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = data[:2] if "--method" in options else data
    assert run([*kept, "--out", "model", *options]) == 2
    assert words in capsys.readouterr().err
    assert not Path("run").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_the_best_so_far_and_says_how_to_go_on(
    data: list[str], number: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*data, "--out", "whole"]) == 0
    capsys.readouterr()
    before = signal.getsignal(number)
    with pytest.MonkeyPatch.context() as patch:
        send(patch, number)
        assert run([*data, "--out", "model", "--checkpoint", "run"]) == code
    assert signal.getsignal(number) is before
    *_, saved, go_on, last = capsys.readouterr().err.splitlines()
    assert saved.startswith("model: saved as it was when the signal came")
    assert last == "viewgap: interrupted"
    early = load_model("model")
    assert early.interrupted_
    assert early.n_epochs_ == 2
    words = shlex.split(go_on.removeprefix("to go on: "))
    command = ["viewgap", *data, "--out", "model", "--checkpoint", "run"]
    assert words == [*command, "--resume", "--overwrite"]
    assert run(["info", "model"]) == 0
    told = re.findall("to go on, in the folder where it was begun: (.*)", capsys.readouterr().out)
    assert shlex.split(told[0]) == words
    save_model(early, "again")  # what is told of a model stays with it
    assert viewgap.info("again").resume == viewgap.info("model").resume == told[0]
    assert run(words[1:]) == 0
    assert not load_model("model").interrupted_
    assert weights("model") == weights("whole")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_without_a_checkpoint_the_model_is_saved_and_the_option_named(
    data: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    send(monkeypatch, signal.SIGINT)
    assert run([*data, "--out", "model"]) == 130
    assert "with --checkpoint DIR, a fit can go on" in capsys.readouterr().err
    assert load_model("model").interrupted_
    assert run(["info", "model"]) == 0
    assert "cannot go on: fit again, with --checkpoint DIR" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_fit_that_ends_with_that_epoch_was_not_interrupted(
    data: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    send(monkeypatch, signal.SIGINT)
    data[data.index("max_epochs=4")] = "max_epochs=2"
    assert run([*data, "--out", "model"]) == 0
    assert not load_model("model").interrupted_


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("options", "words"),
    [([], "nothing was saved"), (["--checkpoint", "run"], "--checkpoint run --resume")],
)
def test_the_second_signal_ends_at_once(
    data: list[str],
    options: list[str],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    send(monkeypatch, signal.SIGINT, signal.SIGTERM)
    assert run([*data, "--out", "model", *options]) == 143
    assert words in capsys.readouterr().err
    assert not Path("model").exists()
