"""Whose row is it, and which column: ids and names decide, and what they leave open is refused."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from data_files import same
from viewgap.data.labels import Labels
from viewgap.data.splits import amputate
from viewgap.data.validation import as_labels, as_viewset, match_views
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError, ViewgapWarning

NAN = np.nan


def frame(ids: list[str], **columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns or {"p": range(len(ids))}, index=pd.Index(ids, name="patient"))


def test_one_frame_with_all_samples_gives_the_order() -> None:
    part, whole = frame(["k", "i"]), frame(["i", "j", "k"])
    for views in ({"x": part, "y": whole}, {"x": whole, "y": part}):
        found = as_viewset(views)
        assert found.sample_ids.tolist() == ["i", "j", "k"]
        assert found.row_order_known
        assert as_labels([[1], [0], [1]], found).values.ravel().tolist() == [1, 0, 1]


def test_without_such_a_frame_the_order_is_not_known() -> None:
    differ = {"x": frame(["i", "j"]), "y": frame(["j", "k"])}
    turned = {"x": frame(["i", "j", "k"]), "y": frame(["k", "j", "i"])}
    for views in (differ, turned):
        found = as_viewset(views)
        assert not found.row_order_known
        assert not found[[1, 2]].row_order_known
        for labels in (
            np.ones((3, 1)),
            [[1], [0], [1]],
            Labels(*2 * [np.ones((3, 1), bool)], ("a",)),
        ):
            with pytest.raises(
                LabelError, match="no sample ids, and the views are DataFrames that"
            ):
                as_labels(labels, found)
        with pytest.raises(ViewError, match="rows of the mask are not defined"):
            ViewSet(views, observed=np.ones((3, 2)))
        assert as_labels(frame(["k", "j", "i"], a=[0, 1, 0]), found).values.sum() == 1


def test_sample_ids_give_the_order_of_frames() -> None:
    views = {"x": frame(["i", "j"]), "y": frame(["j", "k"])}
    found = ViewSet(views, sample_ids=["k", "j", "i", "h"])
    assert found.row_order_known
    assert found.sample_ids.tolist() == ["k", "j", "i", "h"]
    assert same(found, [[NAN, 1], [1, 0], [0, NAN], [NAN, NAN]])
    with pytest.raises(ViewError, match=r"view 'y': 1 samples are not among sample_ids .*'k'"):
        ViewSet(views, sample_ids=["i", "j"])
    with pytest.raises(ViewError, match="sample_ids must be unique"):
        ViewSet(views, sample_ids=["i", "j", "j", "k"])


def test_counted_rows_of_different_lengths_are_refused() -> None:
    counted = {"x": pd.DataFrame({"p": range(3)}), "y": pd.DataFrame({"q": range(2)})}
    with pytest.raises(ViewError, match=r"'x': 3, 'y': 2.* no sample ids.*set_index"):
        as_viewset(counted)


def test_answers_are_indexed_as_the_frames_were() -> None:
    views = as_viewset({"x": frame(["i", "j"])})
    assert views.from_frames
    assert views.frame_index().equals(pd.Index(["i", "j"], name="patient"))
    assert views[[1]].frame_index().name == "patient"
    pairs = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["clinic", "patient"])
    several = as_viewset({"x": pd.DataFrame({"p": [1, 2]}, index=pairs)})
    assert several.frame_index().equals(pairs)
    assert not as_viewset({"x": np.ones((2, 1))}).from_frames


def test_columns_keep_their_names() -> None:
    views = as_viewset({"x": frame(["i", "j"], p=[1, 2], q=[3, 4]), "y": np.ones((2, 3))})
    assert views.feature_names == {"x": ("p", "q"), "y": None}
    assert pickle.loads(pickle.dumps(views)).feature_names == views.feature_names
    turned = views.select_columns("x", [1, 0])
    assert turned.feature_names["x"] == ("q", "p")
    assert turned.rows("x").tolist() == [[3, 1], [4, 2]]
    assert turned[[1]].rows("x").tolist() == [[4, 2]]
    assert as_viewset({"x": pd.DataFrame(np.ones((2, 2)))}).feature_names["x"] is None
    doubled = pd.DataFrame(np.ones((2, 2)), columns=["p", "p"])
    with pytest.raises(ViewError, match=r"'x': column names must be unique; .*: p"):
        as_viewset({"x": doubled})


@pytest.mark.parametrize("kind", ["dense", "sparse", "hdf5"])
def test_columns_are_put_in_the_order_of_the_model(kind: str, tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    if kind == "hdf5":
        h5py = pytest.importorskip("h5py")
        file = h5py.File(tmp_path / "x.h5", "w")
        stored: Any = file.create_dataset("x", data=values)
    else:
        stored = sparse.csr_array(values) if kind == "sparse" else values
    views = ViewSet({"x": stored})._replace(columns={"x": ("d", "b", "a", "c")})
    found = match_views(views, ["x"], [4], {"x": ("a", "b", "c", "d")})
    assert found.rows("x", [2, 0]).tolist() == [[10, 9, 11, 8], [2, 1, 3, 0]]
    with pytest.warns(ViewgapWarning, match="left out: d"):
        found = match_views(views, ["x"], [3], {"x": ("a", "b", "c")})
    assert found[[1]].rows("x").tolist() == [[6, 5, 7]]


def test_numbered_columns_are_put_in_order_even_after_arrays() -> None:
    table = pd.DataFrame(np.arange(6.0).reshape(2, 3))
    found = match_views(as_viewset({"x": table[[2, 0, 1]]}), ["x"], [3], {})
    assert found.rows("x").tolist() == table.to_numpy().tolist()


def test_amputated_labels_keep_ids_and_names() -> None:
    ids = [f"s{i}" for i in range(20)]
    views = {"x": frame(ids[:12]), "y": frame(ids[8:])}
    labels = frame(ids[::-1], a=[0, 1] * 10, b=[1, 1, 0, 0] * 5)
    fewer, left = amputate(views, labels, view_rate=0.0, label_rate=0.5)
    assert left.index.tolist() == fewer.sample_ids.tolist()
    known = left.notna()
    assert known.to_numpy().sum() == 20
    assert ((left == labels.loc[left.index]) & known).to_numpy().sum() == 20
