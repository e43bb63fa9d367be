"""The same data in every format: the same views, gaps and labels, and a model from either."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run
from viewgap.data.formats import RawData, read_data, read_views
from written_data import WRITERS, Tables, small_cll

DATA = small_cll()
NEEDS = {
    "parquet": "pyarrow",
    "wide_parquet": "pyarrow",
    "excel": "openpyxl",
    "h5ad": "h5py",
    "h5mu": "h5py",
}


def check(raw: RawData, expected: Tables) -> None:
    ids = raw.views.sample_ids.tolist()
    assert sorted(ids) == sorted(expected.labels.index)
    assert sorted(raw.views.names) == sorted(expected.views)
    for j, name in enumerate(raw.views.names):
        given = expected.views[name].reindex(ids)
        assert raw.views.feature_names[name] == tuple(given.columns)
        assert np.array_equal(raw.views.observed[:, j], ~given.isna().all(axis=1))
        found = raw.views.rows(name, dtype=np.float64)
        found[~raw.views.observed[:, j]] = np.nan
        assert np.array_equal(found, given.to_numpy(), equal_nan=True)
    assert raw.labels is not None
    labels = pd.DataFrame(raw.labels, index=ids, columns=list(raw.label_names))
    pd.testing.assert_frame_equal(labels[list(expected.labels)], expected.labels.loc[ids])


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.filterwarnings("ignore:labels.*read 'yes' as 1:viewgap.errors.ViewgapWarning")
def test_every_format_holds_the_same(kind: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    written = WRITERS[kind](tmp_path, DATA)
    check(read_data(written.path, **written.options), DATA)
    views = read_views(written.path, label_names=tuple(DATA.labels), **written.options)
    assert sorted(views.names) == sorted(DATA.views)


@pytest.mark.parametrize("kind", WRITERS)
def test_from_each_format_to_predictions(kind: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    folder = tmp_path / "data"
    folder.mkdir()
    arguments = WRITERS[kind](folder, DATA).arguments()
    model, out = str(tmp_path / "model"), tmp_path / "predictions.csv"
    assert run(["inspect", *arguments]) == 0
    assert run(["fit", *arguments, "--method", "late_fusion_ridge", "--out", model]) == 0
    assert run(["predict", model, *arguments, "--out", str(out)]) == 0
    predictions = pd.read_csv(out, index_col=0)
    assert sorted(predictions.index) == sorted(DATA.labels.index)
    assert sorted(predictions) == sorted(["no_view", *DATA.labels])
