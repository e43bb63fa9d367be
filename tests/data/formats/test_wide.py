"""One table with the columns of all views: every column has one owner, or is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run
from viewgap.data.formats import read_data, read_views
from viewgap.errors import DataFileError, LabelError, SettingError, ViewError, ViewgapWarning

TEXT = "id,g_a,g_b,p_a,sex,IGHV,tags\nP1,1,2,3,f,yes,A;B\nP2,,,4,m,no,\nP3,5,,6,f,,B\n"
VIEWS = {"genes": "g_*", "proteins": "p_*"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "all.csv").write_text(TEXT)
    return tmp_path / "all.csv"


def test_patterns_choose_columns_and_name_the_others(path: Path) -> None:
    with pytest.warns(ViewgapWarning) as caught:
        raw = read_data(path, views=VIEWS, label_columns="IGHV")
    assert any(
        "2 columns belong to no view and are not read: sex, tags" in str(w.message) for w in caught
    )
    assert raw.views.feature_names == {"genes": ("g_a", "g_b"), "proteins": ("p_a",)}
    assert raw.views.observed.tolist() == [[True, True], [False, True], [True, True]]
    np.testing.assert_array_equal(raw.labels, [[1], [0], [np.nan]])


@pytest.mark.filterwarnings("ignore:.*belong to no view")
def test_a_column_of_lists(path: Path) -> None:
    raw = read_data(path, views=VIEWS, label_columns="tags", label_separator=";")
    assert raw.label_names == ("A", "B")
    np.testing.assert_array_equal(raw.labels, [[1, 1], [np.nan, np.nan], [0, 1]])


def test_the_advice_names_patterns_that_fit_the_views_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("id,g1,g2,age,p_a\nP1,1,2,3,4\n")
    known = {"genes": ("g1", "g2"), "proteins": ("p_a",)}
    with pytest.raises(DataFileError, match=r"'genes': 'g\*', 'proteins': 'p_a\*'"):
        read_views(path, known=known)
    with pytest.raises(DataFileError, match=r"'genes': 'genes_\*'"):  # nothing fits
        read_views(path, known={"genes": ("g1", "age")})


def test_views_and_columns_that_a_model_does_not_know_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("id,g:a,g:remark,clinic:sex\nP1,1,good,f\nP2,2,,m\n")
    with pytest.raises(ViewError, match=r"'g:remark'.*found 'good'"):
        read_views(path)
    with pytest.warns(ViewgapWarning) as caught:
        views = read_views(path, known={"g": ("a",), "p": ("b",)})
    told = " ".join(str(one.message) for one in caught)
    assert "view 'clinic' is not read: the model has no view of this name" in told
    assert "columns that the model was not fitted on are left out: remark" in told
    assert views.feature_names == {"g": ("a",)}


@pytest.mark.filterwarnings("ignore:.*belong to no view")
def test_labels_of_the_model_are_no_columns_of_new_data(path: Path) -> None:
    path.write_text("id,x,y,IGHV\nP1,1,2,yes\nP2,3,4,\n")
    assert read_views(path, views={"all": "*"}, label_names=["IGHV"]).dims == (2,)
    assert read_views(path, views={"all": "*"}, label_columns="IG*").dims == (2,)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, DataFileError, r"which of them make up which view\?.*views=\{'g': 'g_\*'\}"),
        ({"views": {"a": "g_*", "b": "*_a"}}, DataFileError, "two views, 'a' and 'b': g_a"),
        ({"views": {"a": "h_*"}}, DataFileError, r"no column is named 'h_\*' \(of view 'a'\)"),
        ({"views": VIEWS, "label_columns": "er"}, DataFileError, r"'er' \(label_columns\)"),
        ({"views": VIEWS, "id_column": "pid"}, DataFileError, r"'pid' \(id_column\); found id"),
        ({"views": {"a": "sex"}}, ViewError, "column 'sex', sample 'P1'.*found 'f'"),
        ({"views": VIEWS, "label_columns": "sex"}, LabelError, "sample 'P2', label 'sex'"),
        ({"views": VIEWS, "label_separator": " "}, SettingError, "label_separator"),
        ({"views": {"a": []}, "decimal": "x"}, SettingError, "decimal"),
        ({"views": VIEWS, "id_column": "sex"}, DataFileError, r"id column \('sex'\).*'f' 2 times"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*belong to no view")
def test_tables_that_are_refused(
    path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read_data(path, **options)


def test_options_without_use_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(3), labels=np.eye(3))
    with pytest.raises(SettingError, match="views has no use here"):
        read_data(tmp_path / "a.npz", views=VIEWS)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "genes.csv").write_text("id,x\na,1\n")
    with pytest.raises(SettingError, match="in this folder every file is a view"):
        read_data(tmp_path / "tables", views=VIEWS)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["genes"], "--views takes name=pattern"),
        (["a=g_*", "a=p_*"], "--views gives 'a' twice"),
        (["a=g_*", "b=*_a"], "two views"),
        ([], '--views "g=g_*"'),
    ],
)
def test_the_command_line_speaks_of_options(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: list[str], message: str
) -> None:
    arguments = [text for entry in entries for text in ("--views", entry)]
    assert run(["fit", str(path), *arguments, "--out", str(tmp_path / "model")]) in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
@pytest.mark.parametrize("n_rows", [2, 3])
def test_a_column_of_a_view_is_not_taken_for_the_ids(
    suffix: str, n_rows: int, tmp_path: Path
) -> None:
    # Without ids, a first column of whole numbers that differ would be lost to its view.
    pytest.importorskip({".parquet": "pyarrow", ".xlsx": "openpyxl"}.get(suffix, "pandas"))
    path = tmp_path / f"all{suffix}"
    write = {".csv": "to_csv", ".parquet": "to_parquet", ".xlsx": "to_excel"}[suffix]
    ages = [61, 55, 70][:n_rows]
    table = pd.DataFrame({"g:age": ages, "g:b": 0.5, "labels:l": [1, 0, 1][:n_rows]})
    getattr(table, write)(path, index=False)
    with pytest.raises(DataFileError, match=r"'g:age'\).*column of view 'g'.*id_column"):
        read_data(path)
    with pytest.raises(DataFileError, match="column of view 'g'"):
        read_views(path)
    getattr(table.assign(**{"g:age": [f"P{age}" for age in ages]}), write)(path, index=False)
    assert read_data(path).views.sample_ids[0] == "P61"  # text is no value of a view


@pytest.mark.parametrize(
    ("options", "owner"),
    [
        ({"views": {"g": "nu*"}}, "view 'g'"),
        ({"views": {"g": "g"}, "label_columns": ["number", "l"]}, "the labels"),
        ({"views": {"g": "g"}}, None),
        ({"views": {"all": "*"}}, None),
        ({"views": {"g": "nu*"}, "id_column": "number"}, None),
    ],
)
@pytest.mark.filterwarnings("ignore:.*belong to no view")
def test_patterns_that_mean_the_ids_too(
    options: dict[str, Any], owner: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "all.csv"
    path.write_text("number,g,nurse,l\n1,0.5,2,1\n2,0.4,3,0\n")
    if owner is None:
        assert read_views(path, **options).sample_ids.tolist() == ["1", "2"]
    else:
        with pytest.raises(DataFileError, match=f"by its name, a column of {owner}"):
            read_views(path, **options)
