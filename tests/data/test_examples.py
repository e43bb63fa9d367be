"""The examples in the docstrings of `viewgap.data` run as they are printed."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["viewset", "missing"])
def test_examples(module: str) -> None:
    result = doctest.testmod(importlib.import_module(f"viewgap.data.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
