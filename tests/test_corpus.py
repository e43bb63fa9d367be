"""Files that coverage-guided fuzzing kept are read or refused; a few more are made from them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.coverage_fuzz import CORPUS, TARGETS, attempt

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", TARGETS)
def test_kept_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    target = TARGETS[name](tmp_path)
    assert attempt(target, target.right)
    kept = sorted((CORPUS / name.replace(" ", "_")).iterdir())
    assert [attempt(target, path.read_bytes()) for path in kept].count(False) > 0
    assert attempt(target, target.right)  # nothing of the others stays


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="atheris is not installed")
def test_a_bounded_run_of_atheris(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.coverage_fuzz", "--child", "mat", "-runs=300"]
    command += ["-seed=1", f"-artifact_prefix={tmp_path}/", str(tmp_path)]
    command.append(str(CORPUS / "mat"))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "Done 300 runs" in done.stderr
