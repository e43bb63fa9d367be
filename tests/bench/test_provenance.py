from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from viewgap.bench.run import provenance as module
from viewgap.bench.run.execute import run_task
from viewgap.bench.run.provenance import commit, data_checksum
from viewgap.bench.run.task import Task
from viewgap.datasets import load_dataset

pytestmark = pytest.mark.slow


@pytest.fixture
def fresh_commit() -> None:
    commit.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    command = ["git", *identity, *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.usefixtures("fresh_commit")
def test_the_commit_of_a_source_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "package"
    (package / "bench" / "run").mkdir(parents=True)
    monkeypatch.setattr(module, "__file__", str(package / "bench" / "run" / "provenance.py"))
    assert commit() is None  # no repository

    git(tmp_path, "init")
    (tmp_path / "notes").write_text("1")
    git(tmp_path, "add", "notes")
    git(tmp_path, "commit", "-m", "first")
    commit.cache_clear()
    assert commit() is None  # a repository, but not of this package

    (package / "__init__.py").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "second")
    (tmp_path / "notes").write_text("2")  # is no source
    commit.cache_clear()
    assert commit() == git(tmp_path, "rev-parse", "HEAD")

    (package / "__init__.py").write_text("changed = True")
    commit.cache_clear()
    assert commit() == git(tmp_path, "rev-parse", "HEAD") + "-dirty"
    commit.cache_clear()


def test_the_checksum_is_of_the_content() -> None:
    first, same = (load_dataset("synthetic", n_samples=50, seed=1) for _ in range(2))
    other = load_dataset("synthetic", n_samples=50, seed=2)
    assert data_checksum(first) == data_checksum(first) == data_checksum(same)
    assert data_checksum(first) != data_checksum(other)
    assert data_checksum(first).startswith("sample-sha256:")


_MEASURE_TWICE = """
import json
import numpy as np
from viewgap.bench.run.provenance import PeakMemory

first = PeakMemory()
before = first.peak()
block = np.ones(16 << 20)
during = first.peak()
del block
print(json.dumps([before, during, PeakMemory().peak()]))
"""


def test_peak_memory_is_that_of_the_time_since() -> None:
    # In an interpreter of its own: other threads of the test run allocate and free meanwhile.
    command = [sys.executable, "-c", _MEASURE_TWICE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, during, after = json.loads(done.stdout)
    assert during["host"] >= before["host"] + (96 << 20)
    if after["host_of"] == "task":  # the system can forget
        assert after["host"] < before["host"] + (32 << 20)


def test_a_record_says_where_it_comes_from(tiny_dataset: str) -> None:
    params = {"max_epochs": 2, "embedding": 16, "codebook_size": 8}
    record = run_task(Task(tiny_dataset, "scsd", params=params))
    found = record.provenance
    assert {"python", "viewgap", "torch", "numpy"} <= set(found["versions"])
    assert found["device"] == "cpu"
    assert found["cpu"]
    assert found["data"].startswith("sample-sha256:")
    assert found["memory"]["host"] > 1 << 20
    assert len(found["history"]["codebook_use"]) == record.epochs == 2
    plain = run_task(Task(tiny_dataset, "label_frequency"))
    assert "history" not in plain.provenance
