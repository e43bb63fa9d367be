"""`viewgap serve` as a process on 127.0.0.1, for the time of a test."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def running(*arguments: str) -> Iterator[int]:
    """The port of a service that was started with these arguments."""
    command = [sys.executable, "-m", "viewgap", "serve", *arguments, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            assert found, line
            yield int(found[1])
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=30)
            finally:
                process.kill()


def post(port: int, path: str, value: Any) -> tuple[int, bytes]:
    """Status and body of the answer to a JSON body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(value), headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
