"""The benchmarks of kills, threads and processes, with small counts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="no fork"),
]


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout


def test_writers_that_are_killed_leave_what_can_be_read() -> None:
    found = json.loads(run("kill_writes", "--kills", "8"))
    assert (found["neither"], found["errors"]) == (0, [])
    assert sum(found["found"]["model"].values()) == 8


def test_any_network_loses_one_epoch_at_most_when_killed() -> None:
    found = run("resume", "--methods", "sip", "--kills", "2", "--small")
    assert found.splitlines()[-1] == "2 of 2 bit-equal"
