"""The table of trusted views: weights that sum to one, colder ones in the same order."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import viewgap
from benchmarks import view_trust


def test_colder_weights_are_those_of_the_same_qualities() -> None:
    quality = np.array([-1.0, -1.2, -1.1])
    at = {t: np.exp(quality / t) / np.exp(quality / t).sum() for t in (5.0, view_trust.COLD)}
    found = view_trust.colder(dict(zip("abc", at[5.0], strict=True)), 5.0)
    assert list(found) == ["a", "b", "c"]
    np.testing.assert_allclose(list(found.values()), at[view_trust.COLD])


def test_every_view_gets_its_figures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = viewgap.load_dataset("synthetic", n_samples=80, seed=0)
    monkeypatch.setattr(view_trust, "load_dataset", lambda name: data)
    small = ["hidden=[8]", "embedding=8", "codebook_size=8", "max_epochs=1", "n_networks=2"]
    options = [word for setting in small for word in ("--set", setting)]
    out = tmp_path / "lines.jsonl"
    monkeypatch.setattr("sys.argv", ["view_trust", "small", *options, "--out", str(out)])
    view_trust.main()
    columns = json.loads(out.read_text())["columns"]
    assert all(set(column) == set(data.views.names) for column in columns.values())
    for name in ("weight", f"weight, tau {view_trust.COLD}", "its weight"):
        assert sum(columns[name].values()) == pytest.approx(1)
    assert "rank correlation" in capsys.readouterr().out
