"""Labels written as words are read, said how, and refused where they are not clear."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

from viewgap.data.labels.labels import PAIRS
from viewgap.data.validation import as_labels, as_viewset
from viewgap.errors import LabelError, ViewgapWarning

NAN = np.nan
IDS = ["s1", "s2", "s3"]
VIEWS = as_viewset({"x": pd.DataFrame({"p": [1.0, 2.0, 3.0]}, index=IDS)})


def read(*cells: Any, **options: Any) -> list[float]:
    frame = pd.DataFrame({"er": list(cells)}, index=IDS, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ViewgapWarning)
        found: list[float] = as_labels(frame, VIEWS).as_float()[:, 0].tolist()
    return found


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("unknown", ["", "?", "NA", "n/a", "nan", "NULL", "Unknown", None, NAN])
@pytest.mark.parametrize("write", [str, str.upper, " {} ".format])
def test_pairs_of_words(pair: tuple[str, str], unknown: Any, write: Any) -> None:
    there, absent = map(write, pair)
    np.testing.assert_equal(read(there, absent, unknown, dtype=object), [1, 0, NAN])


def test_a_word_alone() -> None:
    np.testing.assert_equal(read("yes", None, "yes"), [1, NAN, 1])
    np.testing.assert_equal(read("absent", "", "absent"), [0, NAN, 0])
    np.testing.assert_equal(read("+", "", "?"), [1, NAN, NAN])


def test_numbers_beside_words_for_unknown() -> None:
    np.testing.assert_equal(read("1", "0.0", "?"), [1, 0, NAN])
    np.testing.assert_equal(read(1, 0, "NA", dtype=object), [1, 0, NAN])
    np.testing.assert_equal(read(True, False, pd.NA, dtype=object), [1, 0, NAN])


def test_kinds_of_columns() -> None:
    frame = pd.DataFrame(
        {
            "text": pd.array(["yes", "no", None], dtype="string"),
            "kind": pd.Categorical(["neg", "pos", None]),
            "flag": [True, False, True],
            "number": [1.0, NAN, 0.0],
            "nullable": pd.array([1, None, 0], dtype="Int64"),
        },
        index=IDS,
    )
    with pytest.warns(ViewgapWarning) as caught:
        labels = as_labels(frame, VIEWS)
    expected = [[1, 0, 1, 1, 1], [0, 1, 0, NAN, NAN], [NAN, NAN, 1, 0, 0]]
    np.testing.assert_equal(labels.as_float(), expected)
    assert [str(w.message) for w in caught] == [
        "labels: label 'text': read 'yes' as 1, 'no' as 0; label 'kind': read 'pos' as 1, "
        "'neg' as 0"
    ]


def test_it_is_said_how_words_were_read() -> None:
    frame = pd.DataFrame({c: ["Positive", "negative", "?"] for c in "abcde"}, index=IDS)
    with pytest.warns(ViewgapWarning) as caught:
        as_labels(frame, VIEWS)
    assert [str(w.message) for w in caught] == [
        "labels: label 'a', label 'b', label 'c' and 2 more: read 'Positive' as 1, 'negative' "
        "as 0, '?' as unknown"
    ]


def test_plain_labels_need_no_words() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_labels(pd.DataFrame({"a": ["0", "1", ""], "b": [1, 0, None]}, index=IDS), VIEWS)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (("yes", "no", "maybe"), "sample 's3', label 'er': found 'maybe'.*0, 1 or NaN.*yes/no"),
        (("none", "yes", "no"), "sample 's1', label 'er': found 'none'"),
        (("tall;wide", "wide", ""), "found 'tall;wide'.*lists as A;B, becomes.*split_label_lists"),
        (("tall, wide", "wide", ""), "found 'tall, wide'.*as A,B, becomes"),
        (("yes", "no", "negative"), "sample 's3', label 'er': found 'negative' .* of yes/no"),
        (("yes", "n", ""), "sample 's2', label 'er': found 'n' in a column of yes/no"),
        (("yes", "0", ""), "sample 's2', label 'er': found '0' in a column of yes/no"),
        (("1", "no", ""), "sample 's2', label 'er': found 'no' in a column of numbers"),
        (("-", "?", "-"), "sample 's1', label 'er': '-' without any '\\+'"),
        (("1", "2", "0"), "found 2 in sample 's2', label 'er'.*class numbers"),
        (("1", "1_0", "0"), "sample 's2', label 'er': found '1_0'"),
        (("1", "x" * 500, "0"), "found 'x{37}\\.\\.\\.'"),
    ],
)
def test_what_is_not_clear_is_refused(cells: tuple[str, ...], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        read(*cells)


@pytest.mark.parametrize("value", [2, -1, 0.5])
def test_numbers_are_refused_by_id_and_name(value: float) -> None:
    frame = pd.DataFrame({"er": [0, 1, 1], "pr": [0.0, value, 1]}, index=IDS)
    with pytest.raises(LabelError, match=rf"found {value:g} in sample 's2', label 'pr'"):
        as_labels(frame, VIEWS)
    with pytest.raises(LabelError, match=rf"found {value:g} in sample 's2', column 1"):
        as_labels(frame.to_numpy(), VIEWS)
    with pytest.raises(LabelError, match=rf"found {value:g} in sample 's2', label 'b'"):
        as_labels(frame.to_numpy(), VIEWS, names=["a", "b"])


def test_arrays_of_text() -> None:
    with pytest.warns(ViewgapWarning, match=r"column 0: read 'y' as 1, 'n' as 0"):
        labels = as_labels(np.array([["y"], ["n"], ["y"]]), VIEWS)
    assert labels.values[:, 0].tolist() == [1, 0, 1]
