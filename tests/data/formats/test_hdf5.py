"""HDF5 files: sample ids and names of labels belong to the data; nothing is left out unsaid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.data.formats import read_data
from viewgap.errors import InputError, ViewgapError, ViewgapWarning

h5py = pytest.importorskip("h5py")

IDS = [f"P{i:02d}" for i in range(20)]


def write(path: Path, **more: Any) -> Path:
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        file["views/genes"] = rng.normal(size=(20, 3))
        file["labels"] = (rng.random((20, 2)) < 0.5).astype(np.uint8)
        for name, values in more.items():
            kind = h5py.string_dtype() if isinstance(values[0], str) else None
            file.create_dataset(name, data=values, dtype=kind)
    return path


def test_ids_and_names_of_labels(tmp_path: Path) -> None:
    data = read_data(write(tmp_path / "a.h5", sample_ids=IDS, label_names=["sick", "old"]))
    assert data.views.sample_ids is not None
    assert list(data.views.sample_ids) == IDS
    assert data.label_names == ("sick", "old")
    numbers = read_data(write(tmp_path / "b.h5", sample_ids=np.arange(20)[::-1]))
    assert list(map(str, numbers.views.sample_ids)) == [str(i) for i in range(19, -1, -1)]


@pytest.mark.parametrize(
    "more", [{"sample_ids": IDS[:19]}, {"sample_ids": IDS[:19] * 2}, {"label_names": ["sick"]}]
)
def test_ids_and_names_that_do_not_fit(tmp_path: Path, more: dict[str, Any]) -> None:
    with pytest.raises(ViewgapError, match=r"a\.h5"):
        read_data(write(tmp_path / "a.h5", **more))


def test_ids_that_repeat_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="P00"):
        read_data(write(tmp_path / "a.h5", sample_ids=[IDS[0], *IDS[:19]]))


def test_what_is_not_read_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5", patients=IDS)
    with pytest.warns(ViewgapWarning, match="not read: patients; expected views, labels"):
        read_data(path)
