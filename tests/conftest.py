"""Settings for the whole suite: few threads, no deadlines, and where real data may lie."""

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("thorough", deadline=None, max_examples=5000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(scope="session")
def benchmark_data() -> Path:
    """The folder $VIEWGAP_DATA with the benchmark sets; tests that need it skip without it."""
    folder = os.environ.get("VIEWGAP_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("set VIEWGAP_DATA to the folder of the benchmark data to run this test")
    return Path(folder)


@pytest.fixture(scope="session")
def run_interpreted() -> Callable[[Path], None]:
    """Run a file of tests of Triton kernels on the CPU; skips where Triton is not installed.

    In a process of its own: Triton's interpreter is chosen when Triton is imported.
    """
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")

    def run(cases: Path) -> None:
        command = [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", str(cases)]
        environment = {**os.environ, "TRITON_INTERPRET": "1"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, env=environment, check=False
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]

    return run
