"""The fused update is clipping, AdamW and averaging by torch (run by Triton's interpreter)."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_kernels(run_interpreted: Callable[[Path], None]) -> None:
    run_interpreted(Path(__file__).with_name("update_kernel_cases.py"))
