"""The same data in every format: the same views, gaps and labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.data.formats import RawData, read_data, read_views
from viewgap.data.formats.registry import all_formats, format_of
from viewgap.errors import ViewgapWarning
from written_data import NEEDS, WRITERS, Tables, Written, small_cll

DATA = small_cll()


def check(raw: RawData, expected: Tables, written: Written) -> None:
    """Rows are those of the labels, in their order, whatever the order in the files of views."""
    order = expected.labels.index
    if "ids" in written.names:
        assert raw.views.sample_ids.tolist() == order.tolist()
    assert sorted(raw.views.names) == sorted(expected.views)
    for j, name in enumerate(raw.views.names):
        given = expected.views[name].reindex(order)
        if "columns" in written.names:
            assert raw.views.feature_names[name] == tuple(given.columns)
        assert np.array_equal(raw.views.observed[:, j], ~given.isna().all(axis=1))
        found = raw.views.rows(name, dtype=np.float64)
        found[~raw.views.observed[:, j]] = np.nan
        assert np.array_equal(found, given.to_numpy(), equal_nan=True)
    assert raw.labels is not None
    if "labels" in written.names:
        assert list(raw.label_names) == list(expected.labels)
    assert np.array_equal(raw.labels, expected.labels.to_numpy(), equal_nan=True)


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.filterwarnings("ignore:labels.*read 'yes' as 1:viewgap.errors.ViewgapWarning")
@pytest.mark.filterwarnings("ignore:.*(no name of its own|hidden sheets)")
def test_every_format_holds_the_same(kind: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    written = WRITERS[kind](tmp_path, DATA)
    check(read_data(written.path, **written.options), DATA, written)
    views = read_views(written.path, label_names=tuple(DATA.labels), **written.options)
    assert sorted(views.names) == sorted(DATA.views)


def test_samples_without_labels_come_after_the_others(tmp_path: Path) -> None:
    some = Tables(DATA.views, DATA.labels.iloc[5:12])
    for kind in ("csv", "npy", "sparse"):
        folder = tmp_path / kind
        folder.mkdir()
        WRITERS[kind](folder, some)
        with pytest.warns(ViewgapWarning, match="17 samples have no row of labels"):
            found = read_data(folder).views.sample_ids.tolist()
        assert found[:7] == some.labels.index.tolist()
        assert sorted(found) == sorted(pd.concat(list(DATA.views.values())).index.unique())


def test_every_registered_format_is_written_here(tmp_path: Path) -> None:
    used = set()
    for kind, write in WRITERS.items():
        pytest.importorskip(NEEDS.get(kind, "numpy"))
        folder = tmp_path / kind
        folder.mkdir()
        write(folder, DATA)
        used |= {format_of(path) for path in folder.iterdir()}
    assert {one.name for one in used if one} == {one.name for one in all_formats()}
