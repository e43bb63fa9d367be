"""The Triton kernels of the transformer layers compute what the plain code beside them does."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_kernels(run_interpreted: Callable[[Path], None]) -> None:
    run_interpreted(Path(__file__).with_name("attention_kernel_cases.py"))
