"""A table folder with labels for samples that no view describes."""

from pathlib import Path

import pytest

from viewgap.data.formats import read_table_folder
from viewgap.errors import ViewgapWarning


def test_samples_with_labels_only_are_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,x\ns1,1.0\ns2,2.0\n")
    (tmp_path / "labels.csv").write_text("id,red\ns2,1\nlost,0\ns1,0\n")
    with pytest.warns(ViewgapWarning, match=r"1 samples have labels but no view.*\(lost\)"):
        raw = read_table_folder(tmp_path)
    assert raw.views.sample_ids.tolist() == ["s1", "s2"]
    assert raw.labels is not None
    assert raw.labels.tolist() == [[0.0], [1.0]]
