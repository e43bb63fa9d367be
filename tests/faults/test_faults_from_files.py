"""F01 to F27 at the command line, from every format: the documented answer, nothing half-written.

What only arrays in memory can do (dtypes, layouts, threads) is tested beside this file.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from viewgap.cli import run
from written_data import NEEDS, WRITERS, Tables, small_cll

pytestmark = pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")

RIDGE = ["--method", "late_fusion_ridge"]
# Formats that hold a row for each sample, whatever it has.
WITH_ALL_ROWS = {"wide_parquet", "prefixes", "patterns"}
WITH_ALL_ROWS |= {"npz", "hdf5", "zarr", "mat", "arff", "h5ad", "one_sheet"}
# One kind of files for each reader; that all kinds hold the same is tested in data/formats.
KINDS = ("csv", "parquet", "excel", "npy", "sparse", "prefixes", "wide_parquet", "patterns")
KINDS += ("npz", "hdf5", "zarr", "mat", "arff", "h5ad", "h5mu", "one_sheet")
Change = Callable[[Tables], Tables]


def cell(value: float, where: str = "drugs") -> Change:
    """One value of a view, or of the labels, in the third sample."""

    def change(data: Tables) -> Tables:
        views, labels = dict(data.views), data.labels.copy()
        frame = labels if where == "labels" else views[where].copy()
        frame.iloc[2, 0] = value
        return Tables(views if where == "labels" else views | {where: frame}, labels)

    return change


def without_views(data: Tables) -> Tables:
    """The third sample has labels and no view."""
    views = {name: frame.drop("H002", errors="ignore") for name, frame in data.views.items()}
    return Tables(views, data.labels)


def never_observed(data: Tables) -> Tables:
    """A view of which every value is blank."""
    return Tables(data.views | {"mrna": data.views["mrna"] * np.nan}, data.labels)


def no_rows(data: Tables) -> Tables:
    return Tables({name: frame[:0] for name, frame in data.views.items()}, data.labels[:0])


@dataclass(frozen=True)
class Refused:
    """A fault that `fit` refuses: what its message names, where the files hold the names."""

    change: Change
    always: tuple[str, ...] = ()
    ids: str = ""
    columns: str = ""
    labels: str = ""
    options: tuple[str, ...] = ()
    kinds: frozenset[str] = frozenset(KINDS)


REFUSED = {
    "F01 infinity": Refused(cell(np.inf), ("drugs",), "H002", "dr_0"),
    "F01 NaN, an error": Refused(
        lambda data: data, ("drugs",), "H003", "dr_1", options=("--missing", "error")
    ),
    "F03 no view": Refused(
        without_views, ("no observed view",), "H002", kinds=frozenset(WITH_ALL_ROWS | {"h5mu"})
    ),
    "F06 a view without values": Refused(never_observed, ("mrna",)),
    "F18 half a label": Refused(
        cell(0.5, "labels"),
        ("0.5",),
        "H002",
        labels="IGHV",
        kinds=frozenset(KINDS) - {"h5mu"},  # a category cannot be a half
    ),
    "F23 no rows": Refused(no_rows),
    "F27 beyond float32": Refused(cell(1e300), ("drugs",), "H002", "dr_0"),
}
CASES = [(name, kind) for name, fault in REFUSED.items() for kind in KINDS if kind in fault.kinds]


def written(kind: str, data: Tables, place: Path) -> tuple[list[str], tuple[str, ...]]:
    """What is typed for the data, and the names that the files hold."""
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    place.mkdir()
    files = WRITERS[kind](place, data)
    return files.arguments(), files.names


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_refused(name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fault = REFUSED[name]
    typed, names = written(kind, fault.change(small_cll()), tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    code = run(["fit", *typed, *RIDGE, *fault.options, "--out", str(tmp_path / "model")])
    error = capsys.readouterr().err
    assert code == 1, error
    assert "Traceback" not in error
    line = " ".join(error.splitlines()[-1:])
    assert line.startswith("viewgap: ")
    wanted = [*fault.always, *(getattr(fault, each) for each in names)]
    assert all(word in line for word in wanted), line
    assert sorted(tmp_path.rglob("*")) == before


class Twice(Tables):
    """A sample with two rows."""

    def wide(self, sign: str) -> pd.DataFrame:
        table = Tables(self.views, self.labels[:-1]).wide(sign)
        return pd.concat([table, table.iloc[[1]]])


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"hdf5", "zarr", "mat", "arff", "patterns"}))
def test_f13_an_id_twice(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = small_cll()
    twice = Twice(data.views, pd.concat([data.labels, data.labels.iloc[[1]]]))
    typed, _ = written(kind, twice, tmp_path / "data")
    before = sorted(tmp_path.rglob("*"))
    assert run(["fit", *typed, *RIDGE, "--out", str(tmp_path / "model")]) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("viewgap: ")
    assert "H001" in line
    assert sorted(tmp_path.rglob("*")) == before


BINARY = ["parquet", "wide_parquet", "gzip", "wide_gzip", "excel", "npy", "sparse", "npz"]
BINARY += ["hdf5", "mat", "h5ad", "h5mu"]


@pytest.mark.parametrize("kind", BINARY)
def test_f25_half_a_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    typed, _ = written(kind, small_cll(), tmp_path / "data")
    views = [
        p for p in (tmp_path / "data").iterdir() if p.suffix != ".txt" and "label" not in p.name
    ]
    path = max(views, key=lambda path: path.stat().st_size)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run(["fit", *typed, *RIDGE, "--out", str(tmp_path / "model")]) == 1
    error = capsys.readouterr().err
    assert path.name in error.splitlines()[-1]
    assert "Traceback" not in error
    assert not (tmp_path / "model").exists()


# ---------------------------------------------------------------------- answers


class Model:
    """A model of the clean data, and what it says of other data in the same format."""

    def __init__(self, kind: str, place: Path, data: Tables) -> None:
        self.kind, self.place, self.data = kind, place, data
        self.typed, self.names = written(kind, data, place / "data")
        self.folder = str(place / "model")
        assert run(["fit", *self.typed, *RIDGE, "--out", self.folder]) == 0
        code, self.whole = self.predict(data, "whole")
        assert code == 0

    def predict(self, data: Tables, name: str) -> tuple[int, pd.DataFrame | None]:
        """Exit code and predictions by sample; None where no file was written."""
        typed, _ = written(self.kind, data, self.place / name)
        out = self.place / f"{name}.csv"
        code = run(["predict", self.folder, *typed, "--out", str(out)])
        if not out.exists():
            return code, None
        found = pd.read_csv(out, dtype={"sample": str}, index_col="sample")
        if "ids" not in self.names:  # samples are counted
            found.index = data.labels.index
        return code, found


@pytest.fixture(scope="module")
def models() -> dict[str, Model]:
    return {}


@pytest.fixture(params=KINDS)
def model(
    request: pytest.FixtureRequest,
    models: dict[str, Model],
    tmp_path_factory: pytest.TempPathFactory,
) -> Model:
    kind = request.param
    if kind not in models:
        models[kind] = Model(kind, tmp_path_factory.mktemp(kind), small_cll())
    return models[kind]


def changed_view(model: Model, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Tables:
    data = model.data
    return Tables(data.views | {"mrna": change(data.views["mrna"])}, data.labels)


def same(found: pd.DataFrame | None, right: pd.DataFrame | None) -> None:
    assert found is not None
    assert right is not None
    pd.testing.assert_frame_equal(found, right.loc[found.index], rtol=0, atol=1e-9)


def test_f04_a_new_sample_without_any_view(model: Model) -> None:
    code, found = model.predict(without_views(model.data), "no view")
    assert code == 0
    assert found is not None
    if model.kind in WITH_ALL_ROWS | {"h5mu"}:
        assert found.pop("no_view")["H002"] == 1
        frequency = model.data.labels.mean().to_numpy()
        np.testing.assert_allclose(found.loc["H002"], frequency, rtol=0, atol=1e-6)
    else:
        assert "H002" not in found.index


def test_f11_a_column_that_is_not_there(model: Model, capsys: pytest.CaptureFixture[str]) -> None:
    data = changed_view(model, lambda frame: frame.iloc[:, 1:])
    capsys.readouterr()
    code, found = model.predict(data, "narrow")
    error = capsys.readouterr().err.splitlines()[-1]
    assert code == 1
    assert found is None
    assert "mrna" in error
    assert ("mr_0" if "columns" in model.names else "5") in error


def test_f12_columns_in_another_order_and_others_beside(model: Model) -> None:
    if "columns" not in model.names and model.kind != "arff":
        return  # nothing tells the columns of these files apart
    code, found = model.predict(
        changed_view(model, lambda frame: frame.iloc[:, ::-1].assign(mr_new=1.0)), "other order"
    )
    assert code == 0
    same(found, model.whole)


def test_f12_a_view_that_is_not_there_for_anybody(model: Model) -> None:
    gone = {name: frame for name, frame in model.data.views.items() if name != "mrna"}
    if model.kind in ("patterns", "h5ad"):  # where an option names the view, it is blank
        gone["mrna"] = model.data.views["mrna"] * np.nan
    code, found = model.predict(Tables(gone, model.data.labels), "view gone")
    assert code == 0
    assert found is not None
    here = pd.concat(list(model.data.views.values())).index.difference(
        model.data.views["mrna"].index
    )
    same(found.loc[here], model.whole)


def only(model: Model, sample: str) -> Tables:
    own = {name: frame[frame.index == sample] for name, frame in model.data.views.items()}
    return Tables(own, model.data.labels.loc[[sample]])


def test_f15_one_sample_with_all_views(model: Model) -> None:
    everywhere = set.intersection(*(set(frame.index) for frame in model.data.views.values()))
    code, found = model.predict(only(model, min(everywhere)), "one")
    assert code == 0
    same(found, model.whole)


def test_f15_one_sample_and_a_view_without_rows(
    model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody has the view: said by a matrix of no rows, or refused with what to do."""
    sample = "H004"
    assert sample not in model.data.views["methylation"].index
    capsys.readouterr()
    code, found = model.predict(only(model, sample), "lonely")
    if model.kind in WITH_ALL_ROWS | {"h5mu"}:
        assert code == 0
        same(found, model.whole)
        return
    error = capsys.readouterr().err.splitlines()[-1]
    assert code == 1
    assert found is None
    assert "methylation" in error
    assert any(words in error for words in ("move the file", "remove the sheet", "leave it out"))


@pytest.mark.parametrize("kind", ["csv", "wide_parquet", "npz", "arff", "h5ad"])
def test_f07_f08_f10_labels_and_columns_of_one_value(kind: str, tmp_path: Path) -> None:
    data = small_cll()
    drugs = data.views["drugs"].assign(dr_2=3.0)
    labels = data.labels.assign(trisomy12=0.0, del17p=1.0, TP53=np.nan)
    found = Model(kind, tmp_path, Tables(data.views | {"drugs": drugs}, labels)).whole
    assert found is not None
    assert np.isfinite(found.iloc[:, 1:4]).all(axis=None)
    assert found.iloc[:, 4].isna().all()


# ---------------------------------------------------------------------- under a mask


@pytest.mark.parametrize("garbage", [np.nan, np.inf, 1e30])
def test_f02_values_under_the_mask_of_an_archive(garbage: float, tmp_path: Path) -> None:
    data = small_cll()
    observed = np.column_stack([f.notna().any(axis=1) for f in data.full().values()])
    answers = []
    for name, value in (("zeros", 0.0), ("garbage", garbage)):
        arrays = {n: f.to_numpy().copy() for n, f in data.full().items()}
        for seen, values in zip(observed.T, arrays.values(), strict=True):
            values[~seen] = value
        path = tmp_path / f"{name}.npz"
        np.savez(path, **arrays, view_mask=observed, labels=data.labels.to_numpy())
        assert run(["fit", str(path), *RIDGE, "--out", str(tmp_path / name)]) == 0
        out = tmp_path / f"{name}.csv"
        assert run(["predict", str(tmp_path / name), str(path), "--out", str(out)]) == 0
        answers.append(out.read_bytes())
    assert answers[0] == answers[1]


# ---------------------------------------------------------------------- networks, metrics, many

SMALL = {"max_epochs": 2, "n_networks": 1, "hidden": "[8]", "embedding": 8}
SCSD = ["--method", "scsd", *(w for k, v in SMALL.items() for w in ("--set", f"{k}={v}"))]


@pytest.mark.parametrize("kind", ["csv", "h5mu"])
def test_f05_f16_batches_without_a_view_and_a_last_batch_of_one(kind: str, tmp_path: Path) -> None:
    """Of 25 samples in batches of 8, one is left over; one of them has the view `drugs`."""
    data = small_cll(25)
    drugs = data.views["drugs"].iloc[:1]
    typed, _ = written(kind, Tables(data.views | {"drugs": drugs}, data.labels), tmp_path / "data")
    folder, out = str(tmp_path / "model"), tmp_path / "answers.csv"
    assert run(["fit", *typed, *SCSD, "--set", "batch_size=8", "--out", folder]) == 0
    assert run(["predict", folder, *typed, "--out", str(out)]) == 0
    assert run(["verify", folder]) == 0
    found = pd.read_csv(out, index_col="sample")
    assert len(found) == 25
    assert np.isfinite(found.to_numpy()).all()


def test_f09_samples_without_a_positive_label_count_in_no_ranking_metric(
    model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run(["evaluate", model.folder, *model.typed, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    positive = (model.data.labels == 1).any(axis=1)
    assert found["without_positives"] == int((~positive).sum()) > 0


def test_f19_a_sparse_file_says_what_a_dense_one_does(tmp_path: Path) -> None:
    """From scipy's files and from dense ones: the same answers; zeros are values, not gaps."""
    answers = []
    data = small_cll()
    views = {name: frame.fillna(0.0) for name, frame in data.views.items()}
    for kind in ("npy", "sparse"):
        (tmp_path / kind).mkdir()
        found = Model(kind, tmp_path / kind, Tables(views, data.labels)).whole
        assert found is not None
        answers.append(found)
    same(answers[1], answers[0])


def test_f20_files_that_cannot_be_written_stay_as_they_are(tmp_path: Path) -> None:
    typed, _ = written("npy", small_cll(), tmp_path / "data")
    files = [path for path in sorted((tmp_path / "data").iterdir()) if path.is_file()]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.chmod(0o444)
    assert run(["fit", *typed, *RIDGE, "--out", str(tmp_path / "model")]) == 0
    assert [path.read_bytes() for path in files] == before


def test_f21_too_many_labels_are_refused_before_the_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "many.npz"
    labels = (rng.random((6, 40_000)) < 0.5).astype(float)
    np.savez(path, a=rng.normal(size=(6, 3)), labels=labels)
    before = sorted(tmp_path.rglob("*"))
    assert run(["fit", str(path), "--method", "naim3l", "--out", str(tmp_path / "model")]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "GiB for 40000 labels" in error
    assert sorted(tmp_path.rglob("*")) == before


def test_f22_an_archive_that_unpacks_to_more_than_memory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The header of an array promises a million million values; the file has a few bytes."""
    path = tmp_path / "huge.npz"
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", header.getvalue() + b"\0" * 64)
        buffer = io.BytesIO()
        np.save(buffer, np.ones((10**6, 1)))
        archive.writestr("labels.npy", buffer.getvalue())
    assert run(["fit", str(path), *RIDGE, "--out", str(tmp_path / "model")]) == 1
    error = capsys.readouterr().err
    assert "Traceback" not in error
    assert "huge.npz" in error.splitlines()[-1]
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("kind", ["csv", "wide_parquet", "h5mu"])
def test_f24_samples_twice_are_told_by_inspect(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small_cll()
    views = {}
    for name, frame in data.views.items():
        copies = frame[frame.index.isin(["H000", "H002"])].rename(index=lambda i: f"{i}b")
        views[name] = pd.concat([frame, copies])
    more = data.labels.loc[["H000", "H002"]].rename(index=lambda i: f"{i}b")
    typed, _ = written(kind, Tables(views, pd.concat([data.labels, more])), tmp_path / "data")
    assert run(["inspect", *typed, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    texts = [one for one in found if one["kind"] == "duplicated_samples"]
    assert len(texts) == 1
    assert {"H000", "H000b"} <= set(texts[0]["ids"])


def test_f26_a_fit_does_not_go_on_with_a_changed_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small_cll()
    kept = ["--checkpoint", str(tmp_path / "kept")]
    typed, _ = written("csv", data, tmp_path / "data")
    assert run(["fit", *typed, *SCSD, *kept, "--out", str(tmp_path / "model")]) == 0
    typed, _ = written("csv", cell(9.0)(data), tmp_path / "changed")
    before = sorted(tmp_path.rglob("*"))
    capsys.readouterr()
    assert run(["fit", *typed, *SCSD, *kept, "--resume", "--out", str(tmp_path / "other")]) == 1
    assert "belongs to another fit" in capsys.readouterr().err.splitlines()[-1]
    assert sorted(tmp_path.rglob("*")) == before
