"""Views that share no sample id: refused with the ids of both sides and the likely cause."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.data.rows.ids import normal_form
from viewgap.data.validation import as_labels, as_viewset
from viewgap.data.viewset import ViewSet
from viewgap.errors import LabelError, ViewError, ViewgapWarning

IDS = [f"TCGA-0{i}" for i in range(6)]


def frame(ids: list[Any], columns: list[str] | None = None) -> pd.DataFrame:
    columns = columns or ["p", "q"]
    return pd.DataFrame(np.ones((len(ids), len(columns))), index=ids, columns=columns)


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ([i.replace("-", ".") for i in IDS], r"'TCGA\.00' here, 'TCGA-00' in view 'genes'"),
        ([i.replace("-", "") for i in IDS], "'TCGA00' here, 'TCGA-00' in view 'genes'"),
        ([i.lower() for i in IDS], "'tcga-00' here, 'TCGA-00' in view 'genes'"),
        ([f"{i} " for i in IDS], "'TCGA-00 ' here, 'TCGA-00' in view 'genes'"),
        ([i.replace("-0", "-") for i in IDS], "'TCGA-0' here, 'TCGA-00' in view 'genes'"),
        ([f"{i}-01A" for i in IDS], "'TCGA-00-01A' here, 'TCGA-00' in view 'genes'"),
        ([f"{i}\u200b" for i in IDS], r"'TCGA-00\\u200b' here, 'TCGA-00' in view 'genes'"),
    ],
)
def test_another_form_of_the_same_ids(ids: list[str], shown: str) -> None:
    with pytest.raises(ViewError, match=rf"no sample id in common.*likely cause: .*{shown}"):
        as_viewset({"proteins": frame(ids), "genes": frame(IDS)})


@pytest.mark.parametrize(
    ("ids", "others"),
    [([1, 2], ["1", "2"]), (["1.0", "2.0"], ["1", "2"]), ([1, 2], ["001", "002"])],
)
def test_numbers_and_text(ids: list[Any], others: list[Any]) -> None:
    with pytest.raises(ViewError, match=r"the same but for their form"):
        as_viewset({"a": frame(ids), "b": frame(others)})


def test_letters_that_unicode_writes_in_two_ways_are_shown_by_their_code_points() -> None:
    views = {"a": frame(["\xe91", "\xe92"]), "b": frame(["e\u03011", "e\u03012"])}
    with pytest.raises(ViewError, match=r"form: '\\xe91' here, 'e\\u03011' in view 'b'"):
        as_viewset(views)


def test_few_samples_in_common_and_a_reason() -> None:
    """One id happens to be written alike; the others are longer on one side."""
    longer = [IDS[0], *(f"{i}-01A" for i in IDS[1:])]
    with pytest.warns(ViewgapWarning, match="have only 1 samples in common: .*different length"):
        as_viewset({"proteins": frame(longer), "genes": frame(IDS)})


@pytest.mark.parametrize("order", [("genes", "proteins"), ("proteins", "genes")])
@pytest.mark.parametrize("names", [IDS, [i.replace("-", ".") for i in IDS]])
def test_a_transposed_table(order: tuple[str, str], names: list[str]) -> None:
    views = {"genes": frame(IDS), "proteins": frame(["P1", "P2", "P3"], names)}
    with pytest.raises(ViewError, match=r"'proteins'.*looks transposed.*samples must be rows"):
        as_viewset({name: views[name] for name in order})


def test_columns_that_look_like_ids_are_no_cause_where_the_ids_themselves_do() -> None:
    views = {"a": frame(["P00", "P01"], ["q"]), "b": frame(["p00", "p01"], ["p0", "p1"])}
    with pytest.raises(ViewError, match=r"likely cause: 2 ids are the same but for their form"):
        as_viewset(views)


def test_two_transposed_tables_are_told_by_their_columns() -> None:
    views = {"a": frame(["g1", "g2"], IDS[:4]), "b": frame(["p1", "p2", "p3"], IDS[1:])}
    with pytest.raises(ViewError, match=r"both look transposed: 'TCGA-01', .* in view 'b'"):
        as_viewset(views)


def test_one_of_three_views_is_a_stranger() -> None:
    with pytest.raises(ViewError, match=r"'c' has no sample id .*'x', 'y'; of 'a': 'TCGA-00'"):
        as_viewset({"a": frame(IDS), "b": frame(IDS[2:]), "c": frame(["x", "y"])})


def test_other_samples_can_be_meant() -> None:
    views = {"a": frame(["r", "s"]), "b": frame(["t"])}
    with pytest.raises(ViewError, match=r"no sample id in common.*sample_ids=all_ids"):
        as_viewset(views)
    expected = [[True, False], [False, True], [True, False]]
    declared = ViewSet(views, sample_ids=["s", "t", "r"])
    assert declared.observed.tolist() == expected
    spread = as_viewset({**views, "a": views["a"].reindex(["s", "t", "r"])})
    assert spread.observed.tolist() == expected


def test_chains_of_views_are_related() -> None:
    views = as_viewset({"a": frame(["r", "s"]), "b": frame(["t", "u"]), "c": frame(["s", "t"])})
    assert views.observed.sum() == 6


def test_some_ids_of_another_form_are_told() -> None:
    with pytest.warns(ViewgapWarning, match=r"1 samples of view 'a' .* 'S2' and 's2'"):
        views = as_viewset({"a": frame(["s1", "S2"]), "b": frame(["s1", "s2"])})
    assert len(views) == 3


def test_labels_of_other_ids() -> None:
    views = as_viewset({"a": frame(IDS), "b": frame(IDS)})
    labels = pd.DataFrame({"cat": [1] * 6}, index=[i.replace("-", ".") for i in IDS])
    with pytest.raises(LabelError, match=r"no id in common.*'TCGA\.00' here, 'TCGA-00' in the v"):
        as_labels(labels, views)
    with pytest.raises(LabelError, match=r"looks transposed"):
        as_labels(pd.DataFrame(np.ones((1, 6)), index=["cat"], columns=IDS), views)


def test_ids_that_differ_keep_different_forms() -> None:
    ids = ["1.1", "11", "s1", "s-1", "a10", "a1", "x", "0", "10"]
    assert len({normal_form(i) for i in ids}) == len(ids)
