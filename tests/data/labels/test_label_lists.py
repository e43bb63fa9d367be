"""Columns of lists of labels: blank is unknown, and nothing is guessed about the rest."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.data.labels import split_label_lists
from viewgap.errors import LabelError


def table(*values: Any) -> pd.DataFrame:
    return pd.DataFrame({"tags": values}, index=[f"s{i}" for i in range(len(values))])


def test_lists_become_columns() -> None:
    found = split_label_lists(table("b; a", "a;", "", None, np.nan, "?", "[]", "a;a"), ";")
    assert list(found) == ["a", "b"]
    unknown = [np.nan, np.nan]
    expected = [[1, 1], [1, 0], unknown, unknown, unknown, unknown, [0, 0], [1, 0]]
    np.testing.assert_array_equal(found.to_numpy(), expected)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (("a", "none"), "sample 's1': 'none'.*no label or unknown.*write \\[\\]"),
        (("a;b", "A"), "'A' and 'a' differ in upper and lower case"),
        (("a|b", "c|d"), r"every label holds '\|'.*label_separator='\|'"),
        (("", "[]"), "holds no label"),
    ],
)
def test_lists_that_are_refused(values: tuple[str, ...], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        split_label_lists(table(*values), ";")


def test_several_columns_are_refused() -> None:
    with pytest.raises(LabelError, match="expected one column of lists, found 2"):
        split_label_lists(pd.DataFrame({"a": ["x"], "b": ["y"]}), ";")
