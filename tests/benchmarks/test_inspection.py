"""The benchmark of `viewgap.inspect` runs and prints what it measured."""

from __future__ import annotations

import json

import pytest

from benchmarks import inspection


@pytest.mark.parametrize("name", ["wide", "long", "chance"])
def test_figures_are_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspection.main([name, "--quick"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.get("seconds", found.get("sets", 0)) > 0
