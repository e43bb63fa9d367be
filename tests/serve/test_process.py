"""`viewgap serve` as a process: a request over a socket, and the end by SIGTERM (F72, F76)."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import numpy as np

import viewgap
from viewgap.cli.program import run
from viewgap.serve.server import _listen


def test_the_service_answers_and_ends_in_order(tmp_path: Path) -> None:
    X = {"a": np.random.default_rng(0).normal(size=(30, 2))}
    model = viewgap.LateFusionRidge().fit(X, (X["a"] > 0).astype(float))
    viewgap.save_model(model, tmp_path / "m")
    command = [sys.executable, "-m", "viewgap", "serve", "x=" + str(tmp_path / "m")]
    with subprocess.Popen(
        [*command, "--port", "0", "--timeout", "2"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"x at http://127\.0\.0\.1:(\d+)", process.stderr.readline())
            assert found
            port = int(found[1])
            body = {"rows": [{"views": {"a": X["a"][3].tolist()}}]}
            answer = httpx.post(f"http://127.0.0.1:{port}/predict", json=body, timeout=30)
            expected = model.predict_proba({"a": X["a"][3:4]})[0].tolist()
            assert list(answer.json()["rows"][0]["probabilities"].values()) == expected
            with socket.create_connection(("127.0.0.1", port), timeout=30) as slow:
                slow.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\n")  # headers that never end
                assert slow.recv(1000) == b""
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0
        finally:
            process.kill()


def test_misuse_is_said(tmp_path: Path) -> None:
    assert run(["serve", str(tmp_path / "absent")]) == 1
    assert run(["serve"]) == 2
    assert run(["serve", str(tmp_path), "--max-rows", "0"]) == 2
    assert run(["serve", str(tmp_path), "--token-file", str(tmp_path / "absent")]) == 2


def test_answers_do_not_wait_for_acknowledgements() -> None:
    """asyncio switches off Nagle's algorithm only for sockets that say that they are TCP."""
    with _listen("127.0.0.1", 0) as listening:
        assert listening.proto == socket.IPPROTO_TCP
