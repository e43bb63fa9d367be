"""A model is measured in blocks where labels are kept sparse, on the command line, too."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import viewgap
from viewgap.cli import run
from viewgap.data import SparseLabels, as_labels
from viewgap.data.labels import sparse_labels
from viewgap.errors import LabelError
from viewgap.prediction import blocks


def test_the_command_measures_sparse_labels_as_dense_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    views, Y = {"a": rng.normal(size=(90, 4))}, (rng.random((90, 6)) < 0.3).astype(float)
    names = list("fedcba")
    parts = {f"labels_{k}": getattr(sparse.csr_array(Y), k) for k in ("data", "indices", "indptr")}
    parts |= {"labels_shape": np.array(Y.shape), "label_names": np.array(names)}
    np.savez(tmp_path / "data.npz", a=views["a"], **parts)
    model = viewgap.LateFusionRidge().fit(views, as_labels(Y, viewgap.ViewSet(views), names[::-1]))
    viewgap.save_model(model, tmp_path / "model")
    words = ["evaluate", str(tmp_path / "model"), str(tmp_path / "data.npz"), "--json"]
    assert run(words) == 0
    dense = json.loads(capsys.readouterr().out)
    monkeypatch.setattr(sparse_labels, "MOST_DENSE", 10)
    monkeypatch.setattr(blocks, "rows_of_a_block", lambda model: 32)
    assert run(words) == 0
    found = json.loads(capsys.readouterr().out)
    for name, value in dense["metrics"].items():
        assert found["metrics"][name] == pytest.approx(value, abs=1e-12)
    assert {k: v for k, v in found.items() if k != "metrics"} == {
        k: v for k, v in dense.items() if k != "metrics"
    }


def test_rows_have_to_fit() -> None:
    views = viewgap.ViewSet({"a": np.random.default_rng(0).normal(size=(40, 3))})
    Y = (views.rows("a")[:, :2] > 0).astype(float)
    model = viewgap.LateFusionRidge().fit(views, Y)
    labels = SparseLabels.from_labels(as_labels(Y, views))
    with pytest.raises(LabelError, match="one row of labels per sample: 40"):
        blocks.evaluate_in_blocks(model, views, labels[:39])


def test_labels_stay_sparse_from_the_file_to_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    Y = sparse.csr_array((rng.random((190, 6)) < 0.3).astype(float))
    parts = {f"labels_{k}": getattr(Y, k) for k in ("data", "indices", "indptr")}
    parts |= {"labels_shape": np.array(Y.shape), "label_names": np.array(list("fedcba"))}
    np.savez(tmp_path / "data.npz", a=rng.normal(size=(190, 4)), **parts)
    monkeypatch.setattr(sparse_labels, "MOST_DENSE", Y.shape[0] * Y.shape[1] // 2)
    data, model = str(tmp_path / "data.npz"), str(tmp_path / "model")
    settings = ["max_epochs=1", "hidden=[8]", "n_networks=1", "cross_fit=false"]
    words = ["fit", data, "--out", model, "--method", "scsd", "--device", "cpu"]
    assert run([*words, *(w for s in settings for w in ("--set", s))]) == 0
    assert "100% of their entries observed" in capsys.readouterr().err
    for command in (["evaluate", model, data], ["check", model, data], ["info", model]):
        assert run(command) == 0
    capsys.readouterr()
    assert run(["inspect", data, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert "sparse_labels" in {finding["kind"] for finding in found}
