"""`python -m benchmarks.evidence`: what it says without data, and how it measures far values."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import evidence
from viewgap.data.preprocessing import ColumnRanges
from viewgap.data.viewset import ViewSet


def test_parts_without_data_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VIEWGAP_DATA", raising=False)
    out = tmp_path / "evidence.json"
    assert evidence.main(["missing_cells", "far_values", "--out", str(out)]) == 0
    assert capsys.readouterr().out.count("set VIEWGAP_DATA") == 2
    assert not out.exists()


def test_a_part_replaces_its_own_figures_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "evidence.json"
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    for name, value in [("golden", 1), ("far_values", 2), ("golden", 3)]:
        monkeypatch.setitem(evidence.PARTS, name, lambda value=value: {"x": value})
        evidence.main([name, "--out", str(out)])
    kept = json.loads(out.read_text())
    assert {name: part["figures"]["x"] for name, part in kept.items()} == {
        "golden": 3,
        "far_values": 2,
    }


def test_the_factor_is_that_of_the_warning() -> None:
    """The same value as the search for far values finds, where there is one."""
    rng = np.random.default_rng(0)
    train = ViewSet({"a": rng.normal(size=(50, 3))})
    values = rng.normal(size=(20, 3))
    values[7, 1] = -1e4
    test = ViewSet({"a": values})
    ranges = ColumnRanges.fit(train)
    farthest = ranges.farthest(test)
    assert farthest is not None
    assert evidence._factor(ranges.views[0], test, "a") == pytest.approx(farthest.factor)
