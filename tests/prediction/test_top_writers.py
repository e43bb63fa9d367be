"""The most probable labels of every sample, in every kind of file."""

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viewgap
from viewgap.cli import run
from viewgap.prediction.blocks import Answers
from viewgap.prediction.top_writers import TopCsvWriter, TopJsonWriter, top_labels, top_writer_for
from viewgap.prediction.writers import write_answers

NAMES = ["sea", "=1+1", "sun", "sky"]
ANSWERS = Answers(
    np.array(["a", "+b"]),
    np.array([False, True]),
    np.array([[0.2, 0.9, np.nan, 0.9], [np.nan, 0.25, np.nan, np.nan]]),
    np.array([[0, 1, 0, 1], [0, 0, 0, 0]]),
)


@given(st.integers(1, 12), st.integers(1, 14), st.integers(0, 99))
def test_top_labels_are_the_first_ones_of_a_stable_sort(c: int, top: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = np.round(rng.random((5, c)), 1)
    scores[rng.random((5, c)) < 0.2] = np.nan
    found = top_labels(scores, top)
    known = np.where(np.isnan(scores), -1.0, scores)
    expected = [sorted(range(c), key=lambda j: (-row[j], j))[:top] for row in known]
    assert found.tolist() == expected


def written(kind: Any, what: str) -> str:
    file = io.BytesIO()
    assert write_answers(partial(kind, top=2), file, NAMES, what, [ANSWERS, ANSWERS]) == 4
    return file.getvalue().decode()


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
def test_csv_has_a_line_for_every_label_and_no_formula() -> None:
    lines = list(csv.reader(io.StringIO(written(TopCsvWriter, "both"))))
    first = [
        ["sample", "no_view", "rank", "label", "probability", "decision"],
        ["a", "0", "1", "'=1+1", "0.9", "1"],
        ["a", "0", "2", "sky", "0.9", "1"],
        ["'+b", "1", "1", "'=1+1", "0.25", "0"],
    ]
    assert lines == [*first, *first[1:]]
    assert "probability" not in written(TopCsvWriter, "decisions")


def test_json_has_a_list_of_labels_for_every_sample() -> None:
    found = json.loads(written(TopJsonWriter, "probabilities"))
    assert found[2:] == found[:2]
    assert found[0]["labels"] == [
        {"label": "=1+1", "probability": 0.9},
        {"label": "sky", "probability": 0.9},
    ]
    assert found[1] == {
        "sample": "+b",
        "no_view": True,
        "labels": [{"label": "=1+1", "probability": 0.25}],
    }


def test_the_command_writes_them(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    data = viewgap.load_dataset("synthetic")
    model = viewgap.LateFusionRidge().fit(data.views[:40], data.labels[:40])
    viewgap.save_model(model, tmp_path / "model")
    expected = np.asarray(model.predict_proba(data.views))
    for ending in ("parquet", "jsonl"):
        words = ["predict", str(tmp_path / "model"), "synthetic", "--top", "3"]
        assert run([*words, "--out", str(tmp_path / f"top.{ending}")]) == 0
    table = parquet.read_table(tmp_path / "top.parquet").to_pydict()
    assert table["rank"][:4] == [1, 2, 3, 1]
    order = top_labels(expected, 3)
    names = np.array(model.label_names_)
    assert table["label"] == names[order].ravel().tolist()
    lines = (tmp_path / "top.jsonl").read_text().splitlines()
    assert [own["label"] for own in json.loads(lines[0])["labels"]] == table["label"][:3]
    assert run(["predict", str(tmp_path / "model"), "synthetic", "--top", "0"]) != 0
    with pytest.raises(viewgap.errors.SettingError, match="predictions are written as"):
        top_writer_for(Path("top.txt"), False, 3)
