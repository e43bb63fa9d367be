"""A service whose answers can be held and broken by the values of a request: `main` is its process.

Held requests wait until the file `gate` exists, so that no test has to guess how long a prediction
takes.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

import viewgap

HELD, BROKEN = 7777.0, 6666.0
COLUMNS = 3
LONG = 60.0  # seconds after which something is wrong; nothing is expected to take so long


def train(seed: int) -> Any:
    """A model of the view a; another one for every seed."""
    rng = np.random.default_rng(seed)
    X = {"a": rng.normal(size=(40, COLUMNS))}
    y = (X["a"] @ rng.normal(size=(COLUMNS, 2)) > 0).astype(float)
    return viewgap.LateFusionRidge(random_state=seed, on_empty="prior").fit(X, y)


def body(value: float) -> dict[str, Any]:
    """One row; HELD and BROKEN are special."""
    return {"rows": [{"views": {"a": [value, 0.5, -0.5]}}]}


def main() -> None:
    """Serve the folder `argv[1]` until a signal; the gate and settings are the other arguments."""
    from viewgap.serve import ServiceSettings, create_app, run_server

    folder, gate, settings = (
        sys.argv[1],
        Path(sys.argv[2]),
        ServiceSettings(**json.loads(sys.argv[3])),
    )
    answer = viewgap.LateFusionRidge._predict_proba

    def guarded(self: Any, views: Any) -> Any:
        first = np.asarray(views.stored("a"))[:, 0]
        if (first == BROKEN).any():
            raise MemoryError("no room for /secret/path")
        end = time.monotonic() + LONG
        while (first == HELD).any() and not gate.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return answer(self, views)

    viewgap.LateFusionRidge._predict_proba = guarded  # type: ignore[method-assign]

    def started(host: str, port: int) -> None:
        print(f"port {port}", file=sys.stderr, flush=True)

    run_server(create_app({"m": folder}, settings), settings, port=0, on_start=started)


class Running:
    """The process, as the tests see it."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, gate: Path, port: int) -> None:
        self.process, self.folder, self.gate, self.port = process, folder, gate, port
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONG)

    def post(self, value: float) -> httpx.Response:
        """Ask for one row over a connection of its own."""
        return httpx.post(f"http://127.0.0.1:{self.port}/predict", json=body(value), timeout=LONG)

    def metric(self, name: str) -> float:
        """A figure of `/metrics`."""
        found = re.search(
            rf"^viewgap_{name}(?:{{.*}})? ([\d.]+)$", self.client.get("/metrics").text, re.M
        )
        assert found
        return float(found[1])

    def stop(self, kind: int = signal.SIGTERM) -> None:
        """Send a signal."""
        self.process.send_signal(kind)


def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def service(folder: Path, **settings: Any) -> Iterator[Running]:
    """A process that serves the model `folder / "m"`."""
    viewgap.save_model(train(0), folder / "m")
    gate = folder / "gate"
    command = [sys.executable, __file__, str(folder / "m"), str(gate), json.dumps(settings)]
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stderr=log, text=True) as process,
    ):
        try:
            until(lambda: process.poll() is not None or "port " in (folder / "log").read_text())
            found = re.search(r"port (\d+)", (folder / "log").read_text())
            assert found, (folder / "log").read_text()
            yield Running(process, folder, gate, int(found[1]))
        finally:
            process.kill()


if __name__ == "__main__":
    main()
