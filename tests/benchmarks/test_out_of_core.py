"""The benchmarks of data on disk run and print what they measured."""

from __future__ import annotations

import json

import pytest

from benchmarks import out_of_core, sparse_first_layer


def test_figures_of_a_file_are_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: pytest.TempPathFactory
) -> None:
    base = ["--quick", "--folder", str(tmp_path), "--kind", "npy"]
    options = out_of_core.parse(base)
    out_of_core.make("npy", tmp_path, options)  # type: ignore[arg-type]
    assert out_of_core.main([*base, "--one", "ratio"]) == 0
    assert json.loads(capsys.readouterr().out)["ratio"] > 0


def test_figures_that_were_not_measured_again_stay() -> None:
    kept = {"rows": 5, "fits": {"npy": 1, "h5": 2}, "ratios": {"npy": 3}}
    found = out_of_core.joined(kept, {"rows": 5, "fits": {}, "ratios": {"npy": 4, "h5": 5}})
    assert found == {"rows": 5, "fits": {"npy": 1, "h5": 2}, "ratios": {"npy": 4, "h5": 5}}
    with pytest.raises(SystemExit, match="rows differ"):
        out_of_core.joined(kept, {"rows": 6, "fits": {}, "ratios": {}})


def test_sparse_products_agree_with_dense_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert sparse_first_layer.main(["--quick"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["cases"]
    assert found["largest_relative_difference"] < 1e-4
