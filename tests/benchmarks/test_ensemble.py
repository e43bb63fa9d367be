"""The benchmarks of the ensemble run, and the page shows the figures that they kept."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import autogluon_comparison, ensemble, stacking
from viewgap.datasets import make_synthetic

PAGE = Path(__file__).parents[2] / "docs" / "ensemble.md"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set of 90 rows in the place of those with a name."""
    data = make_synthetic(90, [4, 3], n_labels=3)
    train, test = slice(0, 60), slice(60, 90)
    split = SimpleNamespace(
        train=(data.views[train], data.labels[train]), test=(data.views[test], data.labels[test])
    )
    for module in (ensemble, stacking):
        monkeypatch.setattr(module, "split_of", lambda *_: split)


@pytest.mark.usefixtures("small")
def test_every_member_is_measured_on_test_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "lines.jsonl"
    members = ["late_fusion_ridge", "label_frequency"]
    ensemble.main(["small", "--folds", "3:5", "--methods", *members, "--out", str(out)])
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["fold"] for line in lines] == [3, 4]
    assert set(lines[0]["ap"]) == {"ensemble", *members}
    assert set(lines[0]["ap"]["ensemble"]) == {"clean", "field"}
    assert set(lines[0]["seconds"]) == {"ensemble", *members}
    printed = capsys.readouterr().out
    assert "small, 2 folds: clean AP" in printed
    assert "ensemble - late_fusion_ridge:" in printed


def test_ways_to_stack_agree_with_the_library() -> None:
    """The way that was chosen is what `Stacking` does, about the frequencies of the labels."""
    from viewgap.data.labels import Labels
    from viewgap.ensemble.stacking import Stacking

    rng = np.random.default_rng(0)
    P = rng.uniform(0.01, 0.99, size=(3, 50, 4))
    Y = (rng.random((50, 4)) < P[0]).astype(float)
    labels = Labels(Y.astype(np.uint8), np.ones(Y.shape, dtype=bool), tuple("abcd"))
    scores = np.log(P) - np.log1p(-P)
    way = stacking.Way(scores, Y, stacking.WAYS["about the frequencies, std 1"])
    np.testing.assert_allclose(way.weights[:, 0], Stacking.fit(P, labels).weights, rtol=1e-3)
    np.testing.assert_allclose(way(scores), Stacking.fit(P, labels)(P), atol=1e-3)


def test_the_page_shows_the_figures_that_were_kept() -> None:
    kept: dict[str, Any] = json.loads(stacking.KEPT.read_text())
    page = PAGE.read_text(encoding="utf-8").replace("*", "")
    for way in stacking.WAYS:
        ap, loss = (np.mean([f[way][kind] for f in kept.values()]) for kind in ("ap", "log_loss"))
        assert f"| {way} | {ap:.4f} | {loss:.4f} |" in page


@pytest.mark.skipif(
    importlib.util.find_spec("autogluon") is not None, reason="AutoGluon is installed"
)
def test_without_autogluon_there_is_nothing_to_compare(capsys: pytest.CaptureFixture[str]) -> None:
    autogluon_comparison.main([])
    assert "not installed" in capsys.readouterr().out
