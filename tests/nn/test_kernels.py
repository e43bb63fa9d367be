"""The Triton kernels compute what the plain code beside them does (run by Triton's interpreter)."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from viewgap.nn.kernels import kernels_for


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed")
def test_kernels() -> None:
    """In a process of its own: Triton's interpreter is chosen when Triton is imported."""
    cases = map(str, Path(__file__).parent.glob("*_kernel_cases.py"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *cases],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ["norm", "bias_relu", "codebook", "fusion"])
def test_cpu_tensors_have_no_kernels(name: str, dtype: torch.dtype) -> None:
    assert kernels_for(torch.zeros(1, dtype=dtype), name) is None


@pytest.mark.slow
def test_a_fit_on_the_cpu_imports_neither_the_kernels_nor_the_compiler_of_torch() -> None:
    """Whether Triton is installed or not, a CPU runs the same code; and nothing here uses the
    compiler, which takes one to two seconds of the first fit of a process."""
    code = """
import sys, numpy as np, viewgap
rng = np.random.default_rng(0)
X, Y = {"a": rng.normal(size=(40, 6))}, rng.integers(0, 2, size=(40, 3))
for profile in ("default", "paper"):
    viewgap.SCSD(profile=profile, max_epochs=1, device="cpu").fit(X, Y).predict_proba(X)
unwanted = ("viewgap.nn.kernels.", "torch._dynamo", "sympy")
print([name for name in sys.modules if name.startswith(unwanted)])
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.strip() == "[]"
