"""The Triton kernels compute what the plain code beside them does (run by Triton's interpreter)."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("cases", ["kernel_cases.py", "fusion_kernel_cases.py"])
def test_kernels(cases: str, run_interpreted: Callable[[Path], None]) -> None:
    run_interpreted(Path(__file__).with_name(cases))
