"""Files that a user brings under a known name: right ones pass, others are refused with reasons."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import io, sparse

from data_files import cell
from viewgap.bench.results.record import read_records
from viewgap.cli import run
from viewgap.datasets import load_dataset
from viewgap.datasets.checks import check_dataset
from viewgap.datasets.named_sets import NAMED_SETS, NamedSet
from viewgap.datasets.sources import PUBLISHED, SIX_VIEWS
from viewgap.errors import DataFileError, ViewgapWarning

CONFIGS = Path(__file__).parents[2] / "configs"
FOUR = ("pascal07", "espgame", "iaprtc12", "mirflickr")


def labels_of(n: int, c: int, cardinality: float) -> np.ndarray[Any, Any]:
    """Labels with so many positives per sample, as equally spread as possible."""
    labels = np.zeros((n, c), dtype=np.uint8)
    total = round(n * cardinality)
    rows = np.arange(total) % n
    labels[rows, (rows + np.arange(total) // n) % c] = 1
    return labels


def sparse_view(n: int, width: int, seed: int) -> Any:
    """A view of the full shape with one number per sample: a few kilobytes."""
    columns = np.random.default_rng(seed).integers(width, size=n)
    return sparse.csc_array((np.ones(n), (np.arange(n), columns)), shape=(n, width))


def write_mat5(path: Path, views: list[Any], labels: Any) -> None:
    io.savemat(path, {"X": cell(*views), "label": labels})


def write_mat73(path: Path, views: list[Any], labels: Any) -> None:
    """As MATLAB's -v7.3 does: HDF5, matrices transposed, sparse ones in three parts."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        parts = []
        for number, view in enumerate(views):
            parts.append(_put(file, f"#refs#/{number}", view))
        cells = file.create_dataset("X", (len(parts), 1), dtype=h5py.ref_dtype)
        cells.attrs["MATLAB_class"] = np.bytes_("cell")
        for number, part in enumerate(parts):
            cells[number, 0] = part.ref
        _put(file, "label", labels)


def _put(file: Any, name: str, matrix: Any) -> Any:
    if not sparse.issparse(matrix):
        stored = file.create_dataset(name, data=np.asarray(matrix).T, compression="gzip")
        stored.attrs["MATLAB_class"] = np.bytes_("double")
        return stored
    group = file.create_group(name)
    group.attrs["MATLAB_sparse"] = np.uint64(matrix.shape[0])
    for key, values in (("data", matrix.data), ("ir", matrix.indices), ("jc", matrix.indptr)):
        group.create_dataset(key, data=values)
    return group


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("name", "write"), list(zip(FOUR, (write_mat5, write_mat73) * 2, strict=True))
)
def test_files_of_the_published_shapes_agree_with_table_1(
    data: Path, name: str, write: Callable[..., None]
) -> None:
    size = PUBLISHED[name]
    views = [sparse_view(size.n, width, width) for width in SIX_VIEWS.values()]
    labels = sparse.csc_array(labels_of(size.n, size.c, size.cardinality).astype(float))
    (data / name).mkdir()
    file = data / name / f"{name}_six_view.mat"
    write(file, views, labels)
    assert all(finding.agrees for finding in check_dataset(name, file))
    dataset = load_dataset(name)
    assert (len(dataset), dataset.views.dims) == (size.n, tuple(SIX_VIEWS.values()))


# ---------------------------------------------------------------------- a smaller Table 1

SMALL = NamedSet(
    90,
    5,
    1.3,
    {"DenseSift": 12, "Gist": 7, "Rgb": 9},
    dict.fromkeys(("DenseSift", "Gist", "Rgb"), (0.0, np.inf)),
    file="pascal07_six_view.mat",
    table1=True,
)


@pytest.fixture
def small(data: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes a file of pascal07, which is expected to be small."""
    monkeypatch.setitem(NAMED_SETS, "pascal07", SMALL)
    (data / "pascal07").mkdir()

    def make(
        n: int = 90,
        cardinality: float = 1.3,
        changed: Any = None,
        write: Callable[..., None] = write_mat5,
    ) -> Path:
        rng = np.random.default_rng(0)
        views = [rng.integers(9, size=(n, width)).astype(float) for width in (12, 7, 9)]
        if changed is not None:
            changed(views)
        path = data / "pascal07" / "pascal07_six_view.mat"
        write(path, views, labels_of(n, 5, cardinality))
        return path

    return make


def widen(views: list[Any]) -> None:
    views[1] = np.hstack([views[1], views[1]])


def turn_negative(views: list[Any]) -> None:
    views[2][4, 4] = -1


def erase(views: list[Any]) -> None:
    views[0][:] = 3


def lose_a_row(views: list[Any]) -> None:
    views[1][5] = np.nan


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"n": 91}, "samples 91, expected 90"),
        ({"cardinality": 1.4}, "labels per sample 1.400, expected 1.300"),
        ({"changed": widen}, "widths of the views 12 14 9, expected 12 7 9"),
        ({"changed": turn_negative}, "values of view2 -1 to 8, expected 0 and more"),
        ({"changed": erase}, "values of view0 all the same"),
        ({"changed": lose_a_row}, "views missing 0.37 %, expected 0.00 %"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(
    small: Callable[..., Path],
    wrong: dict[str, Any],
    reason: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = small(**wrong)
    assert run(["datasets", "check", "pascal07"]) == 1
    assert f"{path} is not pascal07: " in (error := capsys.readouterr().err)
    assert reason in error
    if "changed" not in wrong or wrong["changed"] is widen:
        with pytest.raises(DataFileError, match=r"this is not pascal07: .*rename its folder"):
            load_dataset("pascal07")


def test_a_right_file_passes_and_may_lie_elsewhere(
    small: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small().rename(tmp_path / "mine.mat")
    command = ["datasets", "check", "Pascal07", "--file", str(path), "--json"]
    assert run(command) == 0
    assert all(finding["agrees"] for finding in json.loads(capsys.readouterr().out))
    assert run(["datasets", "check", "pascal07"]) == 1
    assert "viewgap datasets info pascal07" in capsys.readouterr().err
    assert run(["datasets", "check", "tiny"]) == 1
    assert "nothing is known of 'tiny'" in capsys.readouterr().err


def test_another_version_of_a_set_beyond_table_1_is_told(data: Path) -> None:
    (data / "emotions").mkdir()
    np.savez(data / "emotions" / "e.npz", view0=np.eye(9), labels=np.eye(9, 6))
    with pytest.warns(ViewgapWarning, match="another emotions .* samples 9, expected 593"):
        assert len(load_dataset("emotions")) == 9


def test_fold_files_are_checked_too(
    small: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    folds = small().with_name(
        "pascal07_six_view_MaskRatios_0.5_LabelMaskRatio_0.5_TraindataRatio_0.7.mat"
    )
    order = np.arange(1, 91)[None, :]
    masks = {"folds_data": cell(np.ones((90, 6))), "folds_label": cell(np.ones((90, 5)))}
    io.savemat(folds, {**masks, "folds_sample_index": cell(order)})
    assert run(["datasets", "check", "pascal07"]) == 1
    assert "1 folds of 6 views, expected folds of 3 views" in capsys.readouterr().err
    io.savemat(folds, {**masks, "folds_sample_index": cell(order + 1)})
    assert run(["datasets", "check", "pascal07"]) == 1
    assert "is no order of 1 ... 90" in capsys.readouterr().err


@pytest.mark.parametrize("write", [write_mat5, write_mat73])
def test_table_2_runs_on_such_a_file_unchanged(
    small: Callable[..., Path],
    write: Callable[..., None],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    small(write=write)
    command = ["bench", "run", str(CONFIGS / "table2.toml"), "--out", str(tmp_path / "out")]
    part = ["--dataset", "pascal07", "--method", "imvwl", "--folds", "1"]
    assert run([*command, *part, "--json"]) == 0
    (record,) = read_records(tmp_path / "out")
    assert (record.dataset, record.method, record.profile) == ("pascal07", "imvwl", "paper")


@pytest.mark.parametrize("name", list(NAMED_SETS))
def test_info_says_what_is_expected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["datasets", "info", name]) == 0
    text = " ".join(capsys.readouterr().out.split())
    known = NAMED_SETS[name]
    for words in (f"$VIEWGAP_DATA/{name}/", f"({known.n}, {known.c})", f"datasets check {name}"):
        assert words in text
    assert all(str(width) in text for width in known.views.values())
    assert (f"{name}_six_view.mat" in text) == (name in PUBLISHED)
