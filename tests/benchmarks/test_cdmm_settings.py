"""One fit of CDMM gives the figures of all its weights of views and correlations of labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import viewgap
from benchmarks import cdmm_settings
from viewgap.metrics.evaluation import field_metrics


def test_figures_are_those_of_a_fit_with_these_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = viewgap.load_dataset("synthetic", n_samples=200, seed=0)
    monkeypatch.setattr(cdmm_settings, "load_dataset", lambda name: data)
    out = tmp_path / "lines.jsonl"
    monkeypatch.setattr("sys.argv", ["cdmm_settings", "small", "--out", str(out)])
    cdmm_settings.main()
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    grid = [line for line in lines if "weights" in line]
    assert len(grid) == 7 * 4
    assert len(lines) == 7 * 4 + 2 * data.views.n_views
    fold = data.fold(0, view_rate=0.0, label_rate=0.0, train_share=0.8)
    split = fold.split(data.views, data.labels)
    # The smallest λ, with which weights are cut off at nearly nothing, one between, the largest.
    for line in (grid[0], grid[9], grid[-1]):
        names = ("weight_smoothness", "label_share")
        params = {**line["params"], **{name: line[name] for name in names}}
        model = viewgap.CDMM(profile="paper", random_state=1, **params).fit(*split.train)
        assert line["weights"] == pytest.approx(model.view_weights_, abs=1e-4)
        found = field_metrics(split.validation[1], model.predict_proba(split.validation[0]))
        assert line["metrics"] == pytest.approx(found, abs=1e-4)
    best = max(grid, key=lambda line: line["metrics"]["AP"])
    assert all(
        (line["weight_smoothness"], line["label_share"])
        == (best["weight_smoothness"], best["label_share"])
        for line in lines[28:]
    )
    assert "AP" in capsys.readouterr().out
