"""A process that was forked after torch had used its threads predicts, and does not wait."""

from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path

import pytest
import torch

import viewgap
from keep_models import data

KEPT = Path(__file__).parents[1] / "models" / "format_3"


def exit_code(process: int, seconds: float) -> int | None:
    """Of a child; None where it had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("method", ["scsd", "extra_trees", "ensemble"])
def test_a_forked_process_predicts_what_its_parent_does(method: str) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.rand(600, 600) @ torch.rand(600, 600)  # its threads are there from now on
    try:
        model, (X, _) = viewgap.load_model(KEPT / method), data(300, 3)
        expected = model.predict_proba(X).tobytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about fork
            process = os.fork()
        if process == 0:
            code = 1
            try:
                code = int(model.predict_proba(X).tobytes() != expected)
            finally:
                os._exit(code)
        assert exit_code(process, 120.0) == 0
    finally:
        torch.set_num_threads(before)
