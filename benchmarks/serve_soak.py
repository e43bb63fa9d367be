"""Does an hour of service cost anything? `python -m benchmarks.serve_soak [--seconds 3600]`.

`viewgap serve` in a process of its own is asked without a pause, by one client at a time: right
requests, each compared with its first answer, and malformed ones (`benchmarks.serve_fuzz`). In
every tenth part 1,000 connections are opened at once, half of which send half a request, and the
model is replaced by one that answers alike. After every part, memory, threads and open files of the
service are noted, and judged as in `benchmarks.soak`. Needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import re
import socket
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import viewgap
from benchmarks.machine import machine_name
from benchmarks.record import ROOT
from benchmarks.serve_fuzz import PATHS, request, right, send, service
from benchmarks.soak import LIMITS, PARTS, judge, measure

OUT = ROOT / "benchmarks" / "serve_soak.json"
CONNECTIONS = 1000
VERSION = re.compile(r'"(model_)?version":"?\d+"?')
JSON = {"Content-Type": "application/json"}


class Load:
    """What is asked of the service on a port, and what it answered."""

    def __init__(self, port: int, seed: int) -> None:
        self.port, self.draw = port, random.Random(seed)
        self.statuses: Counter[str] = Counter()
        self.wrong: list[Any] = []
        self.first: dict[str, Any] = {}

    def _send(self, path: str, headers: dict[str, str], body: bytes) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        answer = send(connection, path, headers, body)
        self.statuses["closed" if answer is None else str(answer[0])] += 1
        return answer

    def ask_right(self) -> None:
        """A right request: 200, with the answer of the first time."""
        path = self.draw.choice(PATHS)
        answer = self._send(path, JSON, json.dumps(right(path)).encode())
        status, text = (0, "") if answer is None else answer
        text = VERSION.sub("", text)  # counts how often the model was replaced
        if status != 200 or text != self.first.setdefault(path, text):
            self.wrong.append([path, answer])

    def ask_wrong(self) -> None:
        """A malformed request: no error of the server."""
        kind, path, headers, body = request(self.draw)
        if kind == "length":  # is waited for until the time limit
            return
        answer = self._send(path, headers, body)
        if answer is not None and (answer[0] == 0 or (answer[0] >= 500 and answer[0] != 503)):
            self.wrong.append([kind, path, headers, repr(body[:500]), answer])

    def crowd(self) -> None:
        """Many connections at once, and a right request among them."""
        with contextlib.ExitStack() as stack:
            for number in range(CONNECTIONS):
                address = ("127.0.0.1", self.port)
                one = stack.enter_context(socket.create_connection(address, timeout=60))
                if number % 2:
                    one.sendall(b"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
            self.ask_right()


def soak(seconds: float, seed: int) -> dict[str, Any]:
    """Ask for so long; what was held after every part, and what was wrong."""
    course = []
    with tempfile.TemporaryDirectory() as name, service(Path(name)) as (process, port):
        load, end = Load(port, seed), time.monotonic()
        model = viewgap.load_model(Path(name) / "m")
        for part in range(PARTS):
            end += seconds / PARTS
            if part % 10 == 5:
                load.crowd()
                viewgap.save_model(model, Path(name) / "m", overwrite=True)
            while time.monotonic() < end:
                load.ask_right()
                load.ask_wrong()
            time.sleep(min(3.0, seconds / PARTS))  # what was closed is gone
            course.append(measure(process.pid))
        alive = process.poll() is None
    result = {"requests": load.statuses.total(), "statuses": dict(sorted(load.statuses.items()))}
    return result | {"alive": alive, "wrong": load.wrong[:20]} | judge(course) | {"course": course}


def main() -> int:
    """Run, keep the figures, and tell by the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    found = soak(options.seconds, options.seed)
    command = f"python -m benchmarks.serve_soak --seconds {options.seconds:g}"
    kept = {"command": command, "machine": machine_name("cpu"), "limits": LIMITS} | found
    options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print({key: kept[key] for key in ("requests", "statuses", "growth", "flat", "alive")})
    return 0 if found["flat"] and found["alive"] and not found["wrong"] else 1


if __name__ == "__main__":
    sys.exit(main())
