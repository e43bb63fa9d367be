"""Settings for the whole suite: few threads, no deadlines, and where real data may lie."""

import os
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
