"""Folders of tables: labels are never a view, every file is read or named, ids must meet."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.data.formats import RawData, read_data, read_table_folder, read_views
from viewgap.errors import DataFileError, LabelError, ViewError, ViewgapWarning

IDS = [f"s{i}" for i in range(8)]
RNG = np.random.default_rng(0)
GENES = pd.DataFrame(RNG.normal(size=(8, 3)), index=IDS, columns=["g1", "g2", "g3"])
PROTEINS = pd.DataFrame(RNG.normal(size=(8, 2)), index=IDS, columns=["p1", "p2"])
LABELS = pd.DataFrame({"er": [0, 1] * 4, "pr": [0, 0, 1, 1] * 2}, index=IDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    GENES.to_csv(tmp_path / "genes.csv", index_label="id")
    PROTEINS.to_csv(tmp_path / "proteins.tsv", index_label="id", sep="\t")
    return tmp_path


def write(path: Path, table: pd.DataFrame = LABELS) -> Path:
    if path.suffix.lower() == ".parquet":
        table.to_parquet(path)
    else:
        separator = "\t" if path.suffix.lower() == ".tsv" else ","
        table.to_csv(path, index_label="id", sep=separator)
    return path


def check(raw: RawData) -> None:
    assert raw.views.names == ("genes", "proteins")
    assert raw.views.sample_ids.tolist() == IDS
    assert raw.label_names == ("er", "pr")
    assert np.array_equal(raw.labels, LABELS)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- labels are never a view


@pytest.mark.parametrize(
    "name", ["labels.csv", "Labels.csv", "LABELS.parquet", "labels.TSV", "label.csv", "Label.csv"]
)
def test_tables_of_labels_by_name(folder: Path, name: str) -> None:
    write(folder / name)
    check(read_data(folder))
    assert read_views(folder).names == ("genes", "proteins")


@pytest.mark.parametrize("name", ["outcomes.csv", "er_status.parquet", "labels.csv"])
def test_a_given_table_is_no_view(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(folder / name)
    check(read_data(folder, labels=path))
    check(read_table_folder(folder, labels=path))
    monkeypatch.chdir(folder.parent)
    check(read_data(folder, labels=f"{folder.name}/{name}"))


def test_a_link_to_the_given_table_is_no_view(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("elsewhere") / "er_status.csv")
    (folder / "other.csv").symlink_to(path)
    check(read_data(folder, labels=path))


def test_labels_given_from_elsewhere(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    write(folder / "labels.csv", LABELS.rename(columns={"er": "old"}))
    path = write(tmp_path_factory.mktemp("elsewhere") / "x.csv")
    with pytest.warns(ViewgapWarning, match=r"labels\.csv is not read: the labels are those of"):
        check(read_data(folder, labels=path))


@pytest.mark.parametrize(
    "name",
    [
        "outcomes",
        "Targets",
        "y",
        "y_train",
        "classes",
        "annotations",
        "my-tags",
        "labels2",
        "trainLabels",
    ],
)
@pytest.mark.parametrize("given", [False, True])
def test_a_table_that_looks_like_labels_is_asked_about(
    folder: Path, name: str, given: bool
) -> None:
    if given:
        write(folder / "labels.csv", LABELS.add_suffix("2"))
    write(folder / f"{name}.csv", LABELS.astype(float).where(LABELS["er"] == 1))
    with pytest.raises(LabelError, match=rf"{name}\.csv.*one of labels\?.*labels=.*_view\.csv"):
        read_data(folder)
    (folder / f"{name}.csv").rename(folder / f"{name}_view.csv")
    assert f"{name}_view" in read_data(folder).views.names


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"class": [0, 1, 2, 3] * 2}, index=IDS),
        pd.DataFrame({"class": ["ALL", "AML"] * 4}, index=IDS),
        LABELS.replace({0: "no", 1: "yes"}),
    ],
)
def test_classes_and_words_are_asked_about(folder: Path, table: pd.DataFrame) -> None:
    write(folder / "class.csv", table)
    with pytest.raises(LabelError, match=r"class\.csv.*one of labels\?"):
        read_data(folder)


@pytest.mark.parametrize("name", ["mutations", "targets_of_drugs"])
def test_a_view_of_zeros_and_ones_or_of_numbers_is_a_view(folder: Path, name: str) -> None:
    table = LABELS if name == "mutations" else GENES.add_prefix("t")
    write(folder / f"{name}.csv", table)
    assert name in read_data(folder).views.names


def test_a_copy_of_the_labels_is_no_view(folder: Path) -> None:
    write(folder / "labels.csv")
    write(folder / "status.csv")
    with pytest.raises(LabelError, match=r"column '(er|pr)' of view 'status' holds the label"):
        read_data(folder)
    write(folder / "status.csv", pd.DataFrame({"age": range(8), "pr": LABELS["pr"]}))
    with pytest.raises(LabelError, match=r"column 'pr' of view 'status' holds the label"):
        read_data(folder)
    write(folder / "status.csv", PROTEINS.set_axis(["er", "pr"], axis=1))  # only names are shared
    assert "status" in read_data(folder).views.names


def test_several_tables_of_labels(folder: Path) -> None:
    write(folder / "labels.csv")
    write(folder / "Label.tsv")
    with pytest.raises(DataFileError, match=r"several tables of labels"):
        read_data(folder)


def test_predictions_are_no_view(folder: Path) -> None:
    table = LABELS.assign(no_view=0)[["no_view", "er", "pr"]]
    table.to_csv(folder / "predictions.csv", index_label="sample")
    with pytest.raises(DataFileError, match=r"predictions\.csv: this table holds predictions"):
        read_data(folder)


# ---------------------------------------------------------------------- views alone


@pytest.mark.parametrize("content", ["id,er,er\ns0,1,1\n", "", "id,er\ns0,perhaps\n", "x\n"])
def test_views_do_not_need_labels_to_be_right(folder: Path, content: str) -> None:
    (folder / "labels.csv").write_text(content)
    assert read_views(folder).names == ("genes", "proteins")


def test_labels_of_the_model_are_no_view(folder: Path) -> None:
    write(folder / "status.csv")
    with pytest.warns(ViewgapWarning, match=r"status\.csv is not read: its columns are labels"):
        views = read_views(folder, label_names=["pr", "er", "her2"])
    assert views.names == ("genes", "proteins")
    assert read_views(folder).names == ("genes", "proteins", "status")


# ---------------------------------------------------------------------- ids of tables


def test_labels_of_other_samples(folder: Path) -> None:
    write(folder / "labels.csv", LABELS.rename(lambda i: i.replace("s", "S-")))
    with pytest.raises(LabelError, match=r"labels\.csv: .*no id in common.*'S-0', .*'s0'"):
        read_data(folder)
    write(folder / "labels.csv", LABELS.rename(str.upper))
    with pytest.raises(LabelError, match=r"likely cause: .*'S0' here, 's0' in view 'genes'"):
        read_data(folder)


def test_transposed_tables(folder: Path) -> None:
    write(folder / "proteins.tsv", PROTEINS.T)
    with pytest.raises(ViewError, match=r"'proteins' has no sample id.*looks transposed"):
        read_data(folder)
    write(folder / "genes.csv", GENES.T)
    (folder / "proteins.tsv").unlink()
    write(folder / "labels.csv")
    with pytest.raises(LabelError, match=r"no id in common.*'genes': it looks transposed"):
        read_data(folder)


def test_every_table_transposed(folder: Path) -> None:
    for path, table in (("genes.csv", GENES), ("labels.csv", LABELS)):
        write(folder / path, table.T)
    (folder / "proteins.tsv").unlink()
    with pytest.raises(LabelError, match=r"'genes': both look transposed: 's0', 's1', "):
        read_data(folder)


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("changed", ["genes", "labels"])
def test_single_ids_in_another_form_are_told(folder: Path, changed: str) -> None:
    for name, table in (("genes", GENES), ("labels", LABELS)):
        write(folder / f"{name}.csv", table.rename({"s1": "S1"}) if name == changed else table)
    with pytest.warns(ViewgapWarning, match=r"labels\.csv: 1 samples of the labels .*'[sS]1' and"):
        read_data(folder)


def test_rows_that_are_only_counted_do_not_meet(tmp_path: Path) -> None:
    """As pandas writes tables by default: row numbers first, without a name."""
    tables = {"genes": GENES, "proteins": PROTEINS[::-1], "labels": LABELS}
    for name, table in tables.items():
        ids = table.index.str.replace("s", "10").astype(int)
        table.reset_index(drop=True).assign(pid=ids).to_csv(tmp_path / f"{name}.csv")
    with pytest.raises(ViewError, match=r"only counts the rows \(8 of them\).*id_column='pid'"):
        read_data(tmp_path)
    with pytest.raises(ViewError, match="'genes', view 'proteins': the first column has no name"):
        read_views(tmp_path)
    with pytest.warns(ViewgapWarning, match=r"the first column \(''\) has no name of its own"):
        raw = read_data(tmp_path, id_column="pid")
    assert raw.views.feature_names["genes"] == ("g1", "g2", "g3")
    np.testing.assert_array_equal(raw.views.rows("proteins", dtype=float), PROTEINS)


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "...1", "id"])
def test_tables_of_different_length_need_ids(tmp_path: Path, name: str) -> None:
    for stem, table in {"genes": GENES, "proteins": PROTEINS[2:], "labels": LABELS}.items():
        table.reset_index(drop=True).to_csv(tmp_path / f"{stem}.csv", index_label=name)
    if name == "id":  # the user says that equal numbers are equal samples
        assert read_data(tmp_path).views.observed.sum(axis=0).tolist() == [8, 6]
        return
    with pytest.raises(ViewError, match=r"only counts the rows \(6 and 8 of them\).*such as id"):
        read_data(tmp_path)


def test_numbers_of_shuffled_rows_do_not_meet(tmp_path: Path) -> None:
    ids = GENES.index.str.replace("s", "10").astype(int)
    for stem, table in {"genes": GENES, "labels": LABELS}.items():
        rows = table.reset_index(drop=True).assign(pid=ids).sample(frac=1, random_state=len(stem))
        rows.to_parquet(tmp_path / f"{stem}.parquet")
    with pytest.raises(ViewError, match="has no name and only counts"):
        read_data(tmp_path)
    with pytest.warns(ViewgapWarning, match="'__index_level_0__'.*is not read"):
        raw = read_data(tmp_path, id_column="pid")
    assert raw.views.feature_names == {"genes": ("g1", "g2", "g3")}


def test_rows_that_are_counted_alike_everywhere_meet(tmp_path: Path) -> None:
    for stem, table in {"genes": GENES, "proteins": PROTEINS, "labels": LABELS}.items():
        table.reset_index(drop=True).rename(columns={"g1": "x", "p1": "x"}).to_csv(
            tmp_path / f"{stem}.csv"
        )
    assert read_data(tmp_path).views.observed.all()


def test_text_after_row_numbers_may_be_the_ids(tmp_path: Path) -> None:
    for stem, table in {"genes": GENES, "labels": LABELS}.items():
        table.rename_axis("pid").reset_index().to_csv(tmp_path / f"{stem}.csv")
    with pytest.raises(ViewError, match=r"'pid', sample '0'.*holds the sample ids.*id_column="):
        read_data(tmp_path)


def test_tables_without_ids(folder: Path) -> None:
    GENES.to_csv(folder / "genes.csv", index=False)
    with pytest.raises(DataFileError, match=r"genes\.csv: the first column \('g1'\) must hold"):
        read_data(folder)
    GENES.round().astype(int).to_csv(folder / "genes.csv", index=False)
    with pytest.raises(DataFileError, match=r"genes\.csv: the first column \('g1'\) must hold"):
        read_data(folder)
    GENES.to_parquet(folder / "genes.parquet", index=False)
    (folder / "genes.csv").unlink()
    with pytest.raises(DataFileError, match=r"genes\.parquet: the first column \('g1'\) must"):
        read_data(folder)


def test_every_sample_may_have_one_view_only(folder: Path) -> None:
    write(folder / "genes.csv", GENES[:5])
    write(folder / "proteins.tsv", PROTEINS[5:])
    with pytest.raises(ViewError, match=r"no sample id in common.*table of labels.*only the id"):
        read_data(folder)
    write(folder / "labels.csv", LABELS[::-1])
    for views in (read_data(folder).views, read_views(folder)):
        assert sorted(views.sample_ids) == IDS
        assert views.observed.sum(axis=0).tolist() == [5, 3]
        assert views.observed.sum(axis=1).tolist() == [1] * 8
    raw = read_data(folder)
    expected = LABELS.loc[raw.views.sample_ids.tolist()].to_numpy()
    assert np.array_equal(raw.labels, expected)  # type: ignore[arg-type]
    (folder / "labels.csv").unlink()
    with (folder / "genes.csv").open("a") as file:
        file.write("".join(f"{i},,,\n" for i in IDS[5:]))
    assert read_data(folder).views.observed.sum(axis=0).tolist() == [5, 3]


def test_ids_of_parquet_files(tmp_path: Path) -> None:
    pd.DataFrame({"id": [1.0, 2.0], "p": [1, 2]}).to_parquet(tmp_path / "a.parquet")
    pd.DataFrame({"id": ["1", "2"], "q": [3, 4]}).to_parquet(tmp_path / "b.parquet")
    assert read_data(tmp_path).views.observed.all()
    pd.DataFrame({"id": ["1", None], "q": [3, 4]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(DataFileError, match=r"b\.parquet: .*must hold the sample ids.*row 2"):
        read_data(tmp_path)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["low", "high"], "'low'; encode text as numbers"),
        (["45%", "3%"], "'45%'; write the number alone"),
        (["1.5", "2"], r"'1\.5'; it is a number stored as text"),
        ([datetime.date(2020, 1, 2)] * 2, "'2020-01-02'; a date or a time of day"),
        ([datetime.timedelta(1)] * 2, "a date or a time of day"),
        ([[1.0], [2.0]], r"column 'p' holds list.*label_separator=';'"),
    ],
)
def test_columns_of_parquet_files_that_are_no_numbers(
    tmp_path: Path, values: list[Any], message: str
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": ["s1", "s2"], "p": values})
    pyarrow.parquet.write_table(table, tmp_path / "genes.parquet")
    with pytest.raises((ViewError, DataFileError), match=message) as caught:
        read_data(tmp_path)
    assert "genes.parquet" in str(caught.value)
    if "list" not in message:
        assert "view 'genes': column 'p', sample 's1'" in str(caught.value)


@pytest.mark.parametrize("in_memory", [2**28, 0])
def test_decimal_numbers_and_empty_columns_of_parquet_files(
    tmp_path: Path, in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    monkeypatch.setattr("viewgap.data.rows.on_disk.IN_MEMORY_BYTES", in_memory)
    values = [decimal.Decimal("1.5"), None]
    columns = {"id": ["s1", "s2"], "p": values, "q": [None, None], "r": [1, 2]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "genes.parquet")
    views = read_data(tmp_path).views
    np.testing.assert_array_equal(views.rows("genes"), [[1.5, np.nan, 1], [np.nan, np.nan, 2]])


def test_labels_of_words_name_sample_and_label(folder: Path) -> None:
    words = LABELS.replace({0: "negative", 1: "positive"})
    write(folder / "labels.csv", words)
    with pytest.warns(ViewgapWarning, match=r"'positive' as 1, 'negative' as 0"):
        check(read_data(folder))
    words.iloc[3, 1] = "perhaps"
    write(folder / "labels.csv", words)
    with pytest.raises(LabelError, match=r"labels\.csv: sample 's3', label 'pr': found 'perhaps'"):
        read_data(folder)
    write(folder / "labels.csv", LABELS * 2)
    with pytest.raises(LabelError, match=r"labels\.csv: .*found 2 in sample 's1', label 'er'"):
        read_data(folder)


# ---------------------------------------------------------------------- labels beside other files


def test_a_table_of_labels_for_arrays(tmp_path: Path) -> None:
    path = write(tmp_path / "status.csv", LABELS[::-1])
    np.savez(tmp_path / "a.npz", genes=GENES.to_numpy(), sample_ids=np.array(IDS))
    raw = read_data(tmp_path / "a.npz", labels=path)
    assert np.array_equal(raw.labels, LABELS)  # type: ignore[arg-type]
    np.savez(tmp_path / "a.npz", genes=GENES.to_numpy(), sample_ids=np.arange(8))
    write(path, LABELS.set_axis(range(8)))
    assert np.array_equal(read_data(tmp_path / "a.npz", labels=path).labels, LABELS)  # type: ignore[arg-type]
    write(path, LABELS.set_axis(range(2, 10)))
    with pytest.warns(ViewgapWarning) as caught:
        raw = read_data(tmp_path / "a.npz", labels=path)
    assert any("2 samples have labels but no view" in str(w.message) for w in caught)
    assert np.array_equal(raw.labels[2:], LABELS[:6])  # type: ignore[index]
    write(path, LABELS.set_axis(range(50, 58)))
    with pytest.raises(LabelError, match=r"no id in common.*'50', .*'0'"):
        read_data(tmp_path / "a.npz", labels=path)


def test_rows_that_are_only_counted(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", genes=GENES.to_numpy())
    path = write(tmp_path / "status.csv", LABELS.set_axis(range(8))[::-1])
    raw = read_data(tmp_path / "a.npz", labels=path)
    assert np.array_equal(raw.labels, LABELS)  # type: ignore[arg-type]
    write(path, LABELS.set_axis(range(1, 9)))  # counted from one: shifted by a row, not refused
    with pytest.raises(LabelError, match=r"count from 0 to 7.*must be just these"):
        read_data(tmp_path / "a.npz", labels=path)


def test_samples_with_labels_only_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\ns1,1.0\ns2,2.0\n")
    (tmp_path / "labels.csv").write_text("id,red\ns2,1\nlost,0\ns1,0\n")
    with pytest.warns(ViewgapWarning, match=r"1 sample has labels but .*is left out \(lost\)"):
        raw = read_table_folder(tmp_path)
    assert raw.views.sample_ids.tolist() == ["s2", "s1"]
    assert raw.labels is not None
    assert raw.labels.tolist() == [[1.0], [0.0]]
