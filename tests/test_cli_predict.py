"""`viewgap predict`, `check` and `info`, and what `fit` says."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.test_import import modules_after

import viewgap
from viewgap.cli import run
from viewgap.prediction import blocks

IDS = [f"s{i:03d}" for i in range(300)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("data")
    index = pd.Index(IDS, name="id")
    size = pd.DataFrame(rng.normal(size=(300, 3)), index=index, columns=list("abc"))
    colour = pd.DataFrame(rng.normal(size=(300, 2)), index=index, columns=list("rg"))
    size.iloc[:250].to_csv(folder / "size.csv")
    colour.iloc[50:].to_csv(folder / "colour.csv")
    labels = pd.DataFrame({"big": size["a"] > 0, "red": colour["r"] > 0}).astype(float)
    labels["never"] = np.nan
    labels.to_csv(folder / "labels.csv")
    return folder


@pytest.fixture(scope="module")
def model(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("models") / "model"
    params = ["--method", "extra_trees", "--set", "n_estimators=3", "--set", "n_jobs=1"]
    assert run(["fit", str(folder), *params, "--out", str(out)]) == 0
    return out


def copy_of(folder: Path, place: Path) -> Path:
    place.mkdir()
    for file in folder.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    return place


def predict(model: Path, data: Path, out: Path, *more: str) -> int:
    return run(["predict", str(model), str(data), "--out", str(out), *more])


# ---------------------------------------------------------------------------------- files


def test_every_kind_of_file_holds_the_answers_of_the_model(
    model: Path, folder: Path, tmp_path: Path
) -> None:
    views = viewgap.data.formats.read_views(folder, label_names=["big", "red", "never"])
    fitted = viewgap.load_model(model)
    expected = np.asarray(fitted.predict_proba(views))[:, :2]
    decided = np.asarray(fitted.predict(views))[:, :2]
    for name in ("p.csv", "p.parquet", "p.json", "p.jsonl"):
        assert predict(model, folder, tmp_path / name, "--what", "both") == 0
    tables = [pd.read_csv(tmp_path / "p.csv"), pd.read_parquet(tmp_path / "p.parquet")]
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "p.json").read_text()) == lines
    for table in tables:
        assert table["sample"].tolist() == list(views.sample_ids)
        assert table[["never", "decision:never"]].isna().all(axis=None)
        np.testing.assert_allclose(table[["big", "red"]], expected, rtol=1e-5)
        assert (table[["decision:big", "decision:red"]].to_numpy() == decided).all()
    assert lines[0]["probabilities"]["never"] is None
    found = [[line["probabilities"][label] for label in ("big", "red")] for line in lines]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_decisions_alone(model: Path, folder: Path, tmp_path: Path) -> None:
    assert predict(model, folder, tmp_path / "p.csv", "--what", "decisions") == 0
    rows = list(csv.DictReader((tmp_path / "p.csv").open()))
    assert list(rows[0]) == ["sample", "no_view", "big", "red", "never"]
    assert {row["big"] for row in rows} == {"0", "1"}
    assert {row["never"] for row in rows} == {""}


def test_blocks_give_the_same_answers_as_one_piece(
    model: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert predict(model, folder, tmp_path / "one.json") == 0
    monkeypatch.setattr(blocks, "rows_of_a_block", lambda _: 7)
    for name in ("many.json", "many.parquet"):
        assert predict(model, folder, tmp_path / name) == 0
    one, many = (json.loads((tmp_path / name).read_text()) for name in ("one.json", "many.json"))
    assert [row["sample"] for row in one] == [row["sample"] for row in many]
    values = [[row["probabilities"]["big"] for row in rows] for rows in (one, many)]
    np.testing.assert_allclose(*values, rtol=1e-6)
    np.testing.assert_allclose(
        pd.read_parquet(tmp_path / "many.parquet")["big"], values[0], rtol=1e-6
    )


def test_a_file_is_complete_or_the_old_one(
    model: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "p.csv"
    out.write_text("precious")
    answer, calls = blocks._answer, iter(range(3))

    def fail(*args: Any) -> Any:
        if next(calls) == 2:
            raise viewgap.errors.RunError("the end")
        return answer(*args)

    monkeypatch.setattr(blocks, "rows_of_a_block", lambda _: 100)
    monkeypatch.setattr(blocks, "_answer", fail)
    assert predict(model, folder, out) == 1
    assert out.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["p.csv"]


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [("p.txt", [], "ending '.txt'"), ("p.csv", ["--json"], "leave one of them out")],
)
def test_endings_that_are_not_written(
    model: Path,
    folder: Path,
    tmp_path: Path,
    name: str,
    more: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert predict(model, folder, tmp_path / name, *more) == 2
    assert words in capsys.readouterr().err


def test_nothing_is_printed_where_the_data_are_refused(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_of(folder, tmp_path / "data")
    pd.read_csv(data / "size.csv", index_col=0).drop(columns="b").to_csv(data / "size.csv")
    assert run(["predict", str(model), str(data)]) == 1
    printed = capsys.readouterr()
    assert "absent: b" in printed.err
    assert printed.out == ""


def test_columns_in_another_unit_are_told(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_of(folder, tmp_path / "data")
    assert predict(model, data, tmp_path / "one.csv") == 0
    assert "outside" not in capsys.readouterr().err
    table = pd.read_csv(data / "size.csv", index_col=0)
    table.assign(b=1.8 * table["b"] + 32).to_csv(data / "size.csv")
    assert predict(model, data, tmp_path / "two.csv") == 0
    said = capsys.readouterr().err
    assert "note: view 'size': 1 column with all values outside of what training had" in said


def test_a_method_that_answers_batches_is_not_cut(folder: Path) -> None:
    class Batchwise:
        settings_ = type("Settings", (), {"prediction": "batch"})()

    assert blocks.answers_by_batch(Batchwise())  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------- the contract


def test_what_the_model_does_not_know_is_left_out_with_a_note(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_of(folder, tmp_path / "data")
    (data / "notes.csv").write_text("id,remark\ns000,hello\n")
    table = pd.read_csv(data / "size.csv", index_col=0)
    table.assign(more="text")[["c", "more", "b", "a"]].to_csv(data / "size.csv")
    for out, source in (("one.csv", folder), ("two.csv", data)):
        assert predict(model, source, tmp_path / out) == 0
    said = capsys.readouterr().err
    assert "notes.csv is not read: the model has no view of this name" in said
    assert "left out: more" in said
    assert (tmp_path / "one.csv").read_text() == (tmp_path / "two.csv").read_text()
    assert run(["check", str(model), str(data)]) == 0
    table.drop(columns="b").to_csv(data / "size.csv")
    capsys.readouterr()
    assert predict(model, data, tmp_path / "p.csv") == 1
    assert "absent: b" in capsys.readouterr().err
    assert run(["check", str(model), str(data), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "refused"
    assert "missing_columns" in {finding["kind"] for finding in found["findings"]}


def test_extra_views_of_a_file_with_all_views(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    views = {"view0": rng.normal(size=(40, 3)), "view1": rng.normal(size=(40, 2))}
    np.savez(tmp_path / "d.npz", **views, labels=(views["view0"] > 0).astype(float))
    np.savez(tmp_path / "more.npz", **views, view2=views["view1"])
    out = str(tmp_path / "m")
    fit = ["fit", str(tmp_path / "d.npz"), "--method", "late_fusion_ridge", "--out", out]
    assert run(fit) == 0
    assert predict(Path(out), tmp_path / "more.npz", tmp_path / "p.csv") == 0
    assert "not fitted on are left out: view2" in capsys.readouterr().err
    assert run(["check", out, str(tmp_path / "more.npz")]) == 0
    assert "no out-of-fold scores" not in capsys.readouterr().err


def test_exit_codes_of_check(
    model: Path, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = copy_of(folder, tmp_path / "data")
    table = pd.read_csv(data / "size.csv", index_col=0)
    (1000 * table).to_csv(data / "size.csv")
    assert run(["check", str(model), str(data)]) == 3
    assert "suspicious: 300 samples" in capsys.readouterr().out
    pd.concat([table, table.iloc[:1]]).to_csv(data / "size.csv")
    assert run(["check", str(model), str(data)]) == 1
    assert "each of them once" in " ".join(capsys.readouterr().out.split())
    assert run(["check", str(tmp_path), str(data)]) == 1
    assert run(["check", str(model)]) == 2


# ---------------------------------------------------------------------------------- info and fit


def test_info_shows_data_settings_scores_and_labels(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["info", str(model)]) == 0
    shown = capsys.readouterr().out
    for word in ("extra_trees", "300 samples", "n_estimators=3", "out of fold", "size", "never"):
        assert word in shown
    assert run(["info", str(model), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_samples"] == 300
    assert found["patterns"] == {"11": 200, "10": 50, "01": 50}


def test_info_imports_no_torch(model: Path) -> None:
    loaded = modules_after(
        f"from viewgap.cli import run\nassert run(['info', {str(model)!r}]) == 0"
    )
    assert "torch" not in loaded


def test_fit_counts_the_labels_that_have_both_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lines = [f"s{i},{i % 7}.5" for i in range(30)]
    (data / "a.csv").write_text("\n".join(["id,x", *lines]))
    labels = [f"s{i},{i % 2},0" for i in range(30)]
    (data / "labels.csv").write_text("\n".join(["id,ill,dead", *labels]))
    command = ["fit", str(data), "--method", "late_fusion_ridge", "--out", str(tmp_path / "m")]
    assert run(command) == 0
    told = capsys.readouterr().err
    assert "30 samples, 1 view (columns: a 1)" in told
    assert "2 labels (1 of them with both values, 0 and 1)" in told


def test_fit_says_what_it_chose_and_what_to_expect(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", str(folder), "--method", "scsd", "--set", "max_epochs=1"]
    small = ["--set", "n_networks=2", "--set", "hidden=[8]", "--device", "cpu", "--per-label"]
    assert run([*command, *small, "--out", str(tmp_path / "m")]) == 0
    shown = capsys.readouterr()
    for words in (
        "method: scsd (as asked for)",
        "data: 300 samples, 2 views (columns: colour 2, size 3)",
        "by the size of the data: ",
        "max_epochs=1",
        "parts: 2 networks",
        "device: cpu (as set)",
        "SCSD: epoch 1, ",
        "SCSD: ended after 1 epochs",
        "out of fold: average precision 0.",
    ):
        assert words in shown.err
    assert "precision" in shown.out
    assert "never" in shown.out


def test_scores_of_a_fit_as_json(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", str(folder), "--method", "extra_trees", "--set", "n_estimators=3"]
    assert run([*command, "--out", str(tmp_path / "m"), "--per-label", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["out_of_fold"]["n_labels"] == 2
    assert [line["label"] for line in found["per_label"]] == ["big", "red", "never"]
    assert found["per_label"][2]["AUC"] is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "extra_trees", "--device", "cuda"], "computes on the CPU only"),
        (["--device", "cpu", "--set", "device=cpu"], "not both"),
        (["--device", "moon"], "device"),
    ],
)
def test_devices_that_are_refused(
    folder: Path,
    tmp_path: Path,
    options: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["fit", str(folder), "--out", str(tmp_path / "m"), *options]) == 2
    assert words in capsys.readouterr().err
