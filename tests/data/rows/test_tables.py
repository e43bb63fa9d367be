"""Tables of pandas, polars and pyarrow: the same views and labels, ids by the name of a column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import viewgap
from viewgap.data import ViewSet, as_labels, as_viewset
from viewgap.errors import LabelError, ViewError
from written_data import small_cll

pytest.importorskip("narwhals")
DATA = small_cll()


def to_pandas(frame: pd.DataFrame) -> Any:
    return frame.reset_index(names="patient")


def to_polars(frame: pd.DataFrame) -> Any:
    polars = pytest.importorskip("polars")
    columns = {n: [None if v != v else v for v in frame[n].tolist()] for n in frame}
    return polars.DataFrame({"patient": list(frame.index), **columns})


def to_pyarrow(frame: pd.DataFrame) -> Any:
    pyarrow = pytest.importorskip("pyarrow")
    columns = {name: pyarrow.array(frame[name], from_pandas=True) for name in frame}
    return pyarrow.table({"patient": list(frame.index), **columns})


KINDS = [to_pandas, to_polars, to_pyarrow]
Convert = Callable[[pd.DataFrame], Any]


@pytest.mark.parametrize("convert", KINDS)
def test_every_library_holds_the_same(convert: Convert) -> None:
    expected = ViewSet(DATA.views)
    views = as_viewset({n: convert(t) for n, t in DATA.views.items()}, id_column="patient")
    assert views.sample_ids.tolist() == expected.sample_ids.tolist()
    assert views.feature_names == expected.feature_names
    assert np.array_equal(views.to_array(), expected.to_array(), equal_nan=True)
    labels = as_labels(convert(DATA.labels[::-1]), views, id_column="patient")
    assert np.array_equal(labels.as_float(), DATA.labels.to_numpy(), equal_nan=True)


@pytest.mark.parametrize("convert", KINDS)
def test_one_table_cut_by_columns(convert: Convert) -> None:
    table = convert(pd.concat(list(DATA.views.values()), axis=1))
    columns = {name: list(frame) for name, frame in DATA.views.items()}
    views = as_viewset(table, views=columns, id_column="patient")
    assert np.array_equal(views.to_array(), ViewSet(DATA.views).to_array(), equal_nan=True)


@pytest.mark.parametrize("convert", KINDS[1:])
def test_a_method_takes_tables_without_ids(convert: Convert) -> None:
    def rows(frame: pd.DataFrame) -> Any:
        table = convert(frame.loc[DATA.views["drugs"].index])
        return table.drop("patient") if convert is to_polars else table.drop_columns("patient")

    views = {"drugs": rows(DATA.views["drugs"])}
    model = viewgap.LateFusionRidge(random_state=0).fit(views, rows(DATA.labels))
    plain = viewgap.LateFusionRidge(random_state=0).fit(
        {"drugs": DATA.views["drugs"]}, DATA.labels.loc[DATA.views["drugs"].index]
    )
    assert np.array_equal(
        model.predict_proba(views), plain.predict_proba({"drugs": DATA.views["drugs"]})
    )


@pytest.mark.parametrize("convert", KINDS)
def test_words_lists_and_whole_numbers(convert: Convert) -> None:
    frame = pd.DataFrame({"x": [1, 2, 3]}, index=["a", "b", "c"])
    views = as_viewset({"v": convert(frame)}, id_column="patient")
    assert views.stored("v").dtype.kind == "i"
    words = convert(pd.DataFrame({"y": ["yes", None, "no"]}, index=["a", "b", "c"]))
    with pytest.warns(viewgap.errors.ViewgapWarning, match="read 'yes' as 1"):
        labels = as_labels(words, views, id_column="patient")
    np.testing.assert_array_equal(labels.as_float(), [[1], [np.nan], [0]])


@pytest.mark.parametrize("convert", KINDS)
def test_tables_that_are_refused(convert: Convert) -> None:
    table = convert(DATA.views["drugs"])
    twice = convert(pd.concat([DATA.views["drugs"][:2], DATA.views["drugs"][:1]]))
    for views, message in (
        ({"a": table}, "view 'a': column 'patient'.*sample ids.*id_column="),
        ({"a": table, "b": DATA.views["drugs"].to_numpy()}, "needs a table with columns"),
        ({"a": convert(DATA.views["drugs"].assign(sex="f"))}, "column 'sex' has dtype"),
        ({"a": twice}, "must be unique.*'?H000"),
    ):
        wanted = None if message.startswith("view 'a': column") else "patient"
        with pytest.raises(ViewError, match=message):
            as_viewset(views, id_column=wanted)
    with pytest.raises(ViewError, match=r"view 'a': no column is named 'id' \(id_column\)"):
        as_viewset({"a": table}, id_column="id")


@pytest.mark.parametrize("convert", KINDS[1:])
def test_labels_need_the_name_of_their_ids(convert: Convert) -> None:
    views = ViewSet(DATA.views)
    with pytest.raises(LabelError, match=r"id_column=\.\.\.\), one of patient"):
        as_labels(convert(DATA.labels), views)


def test_a_lazy_frame_is_refused() -> None:
    table = to_polars(DATA.views["drugs"]).lazy()
    with pytest.raises(ViewError, match=r"collect\(\)"):
        as_viewset({"a": table}, id_column="patient")
