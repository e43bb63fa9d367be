"""A fit depends on no order of a set: processes with other hash seeds fit the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import viewgap.methods as methods

FIT_ALL = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("contract", sys.argv[1])
contract = importlib.util.module_from_spec(spec)
sys.modules["contract"] = contract
spec.loader.exec_module(contract)
problem = contract.make_problem(80)
for name in contract.methods.names():
    model = contract.methods.get(name)(**contract.small_settings(name))
    print(name, contract.bits(model.fit(problem.views(), problem.Y)))
"""


@pytest.mark.slow
def test_same_bits_in_processes_with_other_hash_seeds() -> None:
    place = Path(__file__).with_name("conftest.py")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", FIT_ALL, str(place)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    first, second = (process.communicate()[0] for process in running)
    assert [process.returncode for process in running] == [0, 0]
    assert first.count(b"\n") == len(methods.names())
    assert first == second
