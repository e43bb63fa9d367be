"""Finding, loading and listing data sets; folds of a Dataset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import io, sparse

from data_files import cell
from viewgap.data.viewset import ViewSet
from viewgap.datasets import Dataset, describe, load_dataset
from viewgap.datasets.sources import PUBLISHED, SOURCES, Checksum, Published, RemoteFile, Source
from viewgap.errors import DataFileError, InputError, LabelError, SettingError

FOLDS = "{}_six_view_MaskRatios_0.5_LabelMaskRatio_0.5_TraindataRatio_0.7.mat"
N, C = 30, 4


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with a set in the field's layout ("tiny") and one in an archive ("box")."""
    rng = np.random.default_rng(0)
    labels = (rng.random((N, C)) < 0.4).astype(np.uint8)
    (tmp_path / "tiny").mkdir()
    views = cell(rng.random((N, 3)), rng.random((N, 2)))
    io.savemat(tmp_path / "tiny" / "tiny_six_view.mat", {"X": views, "label": labels})
    orders = [rng.permutation(N) for _ in range(3)]
    label_masks = []
    for order in orders:
        mask = np.zeros((N, C))
        mask[order[:21]] = rng.random((21, C)) < 0.5
        label_masks.append(mask)
    ready_made = {
        "folds_data": cell(*(np.ones((N, 2)) for _ in orders)),
        "folds_label": cell(*label_masks),
        "folds_sample_index": cell(*(order[None] + 1 for order in orders)),
    }
    io.savemat(tmp_path / "tiny" / FOLDS.format("tiny"), ready_made)
    (tmp_path / "box").mkdir()
    archive = {"a": rng.random((N, 3)), "labels": labels, "label_names": np.array(list("wxyz"))}
    np.savez(tmp_path / "box" / "anything.npz", **archive)  # type: ignore[arg-type]
    (tmp_path / "README.md").write_text("not a data set")
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    return tmp_path


def test_field_layout_with_its_fold_file(folder: Path) -> None:
    dataset = load_dataset("Tiny")
    assert dataset.name == "tiny"
    assert dataset.views.dims == (3, 2)
    expected = io.loadmat(folder / "tiny" / FOLDS.format("tiny"))["folds_sample_index"]
    folds = dataset.folds(2)
    assert len(folds) == 2
    for k, fold in enumerate(folds):
        np.testing.assert_array_equal(fold.train, expected[0, k].ravel()[:21] - 1)
        assert fold.view_mask.all()


def test_other_rates_than_the_file_are_made(folder: Path) -> None:
    dataset = load_dataset("tiny")
    (made,) = dataset.folds(1, view_rate=0.3)
    assert dataset.fold_file(0.5, 0.5, 0.7) is not None
    assert dataset.fold_file(0.3, 0.5, 0.7) is None
    assert (~made.view_mask).sum(axis=0).tolist() == [9, 9]


def test_more_folds_than_the_file_holds(folder: Path) -> None:
    with pytest.raises(SettingError, match=r"4 folds .* holds 3"):
        load_dataset("tiny").folds(4)


def test_archive_without_fold_file_gets_seeded_folds(folder: Path) -> None:
    dataset = load_dataset("box")
    assert dataset.label_names == tuple("wxyz")
    first, again = dataset.folds(3, view_rate=0.0), dataset.folds(2, view_rate=0.0)
    assert [fold.name for fold in first] == [0, 1, 2]
    np.testing.assert_array_equal(first[1].test, again[1].test)
    assert not np.array_equal(first[0].test, first[1].test)
    with pytest.raises(SettingError, match="at least 1"):
        dataset.folds(0)


def test_options_of_files_and_generators_are_checked(folder: Path) -> None:
    with pytest.raises(SettingError, match=r"'tiny' has no option 'seed'; its options are: none"):
        load_dataset("tiny", seed=1)
    with pytest.raises(SettingError, match=r"no option 'size'; its options are: n_samples, seed"):
        load_dataset("multidigits", size=1)


def test_unknown_name_lists_what_there_is(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_dataset("nowhere")
    for text in ("multidigits", "synthetic", "tiny", "box", "VIEWGAP_DATA", str(folder)):
        assert text in str(caught.value)


@pytest.mark.parametrize("value", [None, "", "/no/such/folder"])
def test_without_a_data_folder(value: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is None:
        monkeypatch.delenv("VIEWGAP_DATA", raising=False)
    else:
        monkeypatch.setenv("VIEWGAP_DATA", value)
    text = "is not a folder" if value else "is not set"
    with pytest.raises(InputError, match=text):
        load_dataset("corel5k")
    assert {row["name"] for row in describe()} == {"multidigits", "synthetic", *SOURCES}


@pytest.mark.parametrize("name", ["../tiny", "tiny/../box", "/etc", ".", ""])
def test_a_name_is_not_a_path(name: str, folder: Path) -> None:
    with pytest.raises(InputError, match="no dataset named"):
        load_dataset(name)


def test_folder_without_a_clear_data_file(folder: Path) -> None:
    np.savez(folder / "box" / "second.npz", a=np.zeros((2, 2)))
    with pytest.raises(DataFileError, match=r"exactly one \.npz.*anything\.npz, second\.npz"):
        load_dataset("box")


def test_archive_without_labels(folder: Path) -> None:
    np.savez(folder / "box" / "anything.npz", a=np.zeros((2, 2)))
    with pytest.raises(DataFileError, match="needs labels"):
        load_dataset("box")


def test_describe_lists_everything_with_sizes(folder: Path) -> None:
    rows = {row["name"]: row for row in describe()}
    assert {"multidigits", "synthetic", "tiny", "box", *SOURCES} == set(rows)
    tiny, corel = rows["tiny"], rows["corel5k"]
    labels = load_dataset("tiny").labels
    assert (tiny["n"], tiny["c"], tiny["views"], tiny["present"]) == (N, C, None, True)
    rates = {"view_rate": 0.5, "label_rate": 0.5, "train_share": 0.7}
    assert tiny["fold_files"] == [{"name": FOLDS.format("tiny"), **rates}]
    assert rows["box"]["views"] == {"a": 3}
    assert tiny["cardinality"] == pytest.approx(labels.sum() / N)
    assert rows["box"]["cardinality"] == pytest.approx(labels.sum() / N)
    assert (corel["present"], corel["path"], corel["n"]) == (False, None, None)
    assert "viewgap datasets download corel5k" in corel["how"]
    assert "READMEs" in rows["mirflickr"]["how"]
    assert corel["published"] == {"n": 4999, "c": 260, "cardinality": 3.396}
    assert (rows["synthetic"]["n"], rows["multidigits"]["c"]) == (600, 10)


def test_describe_compares_with_table_1(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    per_sample = load_dataset("tiny").statistics()["cardinality"]
    monkeypatch.setitem(PUBLISHED, "tiny", Published(N, C, round(per_sample, 3)))
    assert row_of("tiny")["differences"] == []
    assert row_of("box")["differences"] is None
    monkeypatch.setitem(PUBLISHED, "tiny", Published(40, 5, 9.0))
    assert row_of("tiny")["differences"] == [
        "30 samples, published 40",
        "4 labels, published 5",
        f"{per_sample:.3f} per sample, published 9.000",
    ]


def test_describe_verifies_when_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "tiny" / "tiny_six_view.mat"
    right = Checksum("gitblob", "").of(file)
    published = (RemoteFile(file.name, right), RemoteFile("other.mat", right))
    monkeypatch.setitem(SOURCES, "tiny", Source("", published))
    assert row_of("tiny")["files"] == {file.name: "not verified", "other.mat": "not here"}
    row = row_of("tiny", verify=True)
    assert row["files"][file.name] == "published"
    assert row["views"] == {"view0": 3, "view1": 2}
    file.write_bytes(file.read_bytes() + bytes(8))
    assert row_of("tiny", verify=True)["files"][file.name] == "not the published file"
    assert load_dataset("tiny").views.dims == (3, 2), "a file of one's own can be used"
    monkeypatch.setattr("viewgap.datasets.listing.VERIFIED_BYTES", 10)
    row = row_of("tiny", verify=True)
    assert (row["views"], row["files"][file.name][:12]) == (None, "not verified")


def row_of(name: str, verify: bool = False) -> dict[str, Any]:
    return next(row for row in describe(verify) if row["name"] == name)


def test_describe_reports_an_archive_that_cannot_be_used(folder: Path) -> None:
    np.savez(folder / "box" / "anything.npz", a=np.eye(3))
    assert "needs labels" in row_of("box")["problem"]
    np.savez(folder / "box" / "anything.npz", a=np.eye(3), labels=np.full((3, 2), 7))
    assert row_of("box")["problem"] is None
    assert "found 7.0" in row_of("box", verify=True)["problem"]


def test_describe_reports_a_damaged_file_and_goes_on(folder: Path) -> None:
    (folder / "tiny" / "tiny_six_view.mat").write_bytes(b"MATLAB 5.0 and then nothing")
    rows = {row["name"]: row for row in describe()}
    assert "tiny_six_view.mat" in rows["tiny"]["problem"]
    assert rows["tiny"]["n"] is None
    assert rows["box"]["problem"] is None


def test_describe_turns_labels_stored_the_other_way(folder: Path) -> None:
    path = folder / "tiny" / "tiny_six_view.mat"
    stored = io.loadmat(path)
    turned = np.where(stored["label"].T == 1, 1, -1)
    io.savemat(path, {"X": stored["X"], "label": turned})
    row = next(row for row in describe() if row["name"] == "tiny")
    assert (row["n"], row["c"]) == (N, C)
    assert row["cardinality"] == pytest.approx(stored["label"].sum() / N)


def test_describe_reads_no_view_of_an_archive(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the whole file was read")

    monkeypatch.setattr("viewgap.datasets.listing.load_file", refuse)
    row = row_of("box")
    assert (row["n"], row["c"], row["views"], row["problem"]) == (N, C, {"a": 3}, None)


def test_dataset_is_frozen_and_consistent() -> None:
    dataset = load_dataset("synthetic", n_samples=20)
    assert len(dataset) == 20
    assert repr(dataset).startswith("Dataset('synthetic': 20 samples, 3 views, 12 labels")
    with pytest.raises(AttributeError):
        dataset.name = "other"  # type: ignore[misc]
    with pytest.raises(ValueError, match="read-only"):
        dataset.labels[0, 0] = 1
    with pytest.raises(LabelError, match=r"expected labels of shape \(2, 3\)"):
        Dataset("x", ViewSet({"a": np.zeros((2, 1))}), np.zeros((2, 2)), ("p", "q", "r"))


def test_statistics_count_missing_values() -> None:
    views = ViewSet({"a": np.zeros((4, 2)), "b": np.zeros((4, 1))}, observed=np.eye(4, 2) == 0)
    labels = np.array([[1, np.nan], [1, 1], [0, 0], [np.nan, 0]])
    facts = Dataset("x", views, labels, ("p", "q")).statistics()
    assert facts == {
        "n": 4,
        "m": 2,
        "dims": {"a": 2, "b": 1},
        "c": 2,
        "cardinality": 0.75,
        "percent_missing": 25.0,
    }


# ------------------------------------------------------------------------------ natural gaps


@pytest.fixture
def three_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    """Sixty stories in the layout of 3sources, with 1, 2 or 3 of their views."""
    rng = np.random.default_rng(0)
    gaps = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1], [1, 1, 1]])[
        rng.integers(6, size=60)
    ]
    arrays: dict[str, Any] = {
        "view_mask": gaps,
        "labels": (rng.random((60, 4)) < 0.4).astype(np.uint8),
        "guardian": rng.random((60, 5)),
        "reuters": rng.random((60, 4)),
    }
    counts = sparse.random(60, 7, density=0.3, random_state=0, format="csr")
    for part in ("data", "indices", "indptr", "shape"):
        arrays[f"bbc_{part}"] = np.asarray(getattr(counts, part))
    (tmp_path / "stories").mkdir()
    np.savez(tmp_path / "stories" / "stories.npz", **arrays)
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    return load_dataset("stories")


def test_natural_gaps_stay_under_the_protocol(three_sources: Dataset) -> None:
    natural = three_sources.views.observed
    assert set(natural.sum(axis=1)) == {1, 2, 3}
    for view_rate in (0.0, 0.5, 0.65):
        for fold in three_sources.folds(5, view_rate=view_rate):
            split = fold.split(three_sources.views, three_sources.labels)
            parts = zip((fold.train, fold.validation, fold.test), split, strict=True)
            for rows, (views, _) in parts:
                assert not (views.observed & ~natural[rows]).any(), "a missing view came back"
                assert views.has_view.all(), "a sample lost its last view"
    seen = three_sources.folds(1)[0].view_mask & natural
    assert seen.sum() < natural.sum(), "the protocol takes views on top"


# ------------------------------------------------------------------------------ real files


def real(name: str) -> pytest.MarkDecorator:
    root = Path(os.environ.get("VIEWGAP_DATA") or "/nonexistent")
    return pytest.mark.skipif(
        not (root / name).is_dir(), reason=f"$VIEWGAP_DATA/{name} is not here"
    )


@real("corel5k")
def test_corel5k_agrees_with_the_published_table() -> None:
    row = next(row for row in describe() if row["name"] == "corel5k")
    published = PUBLISHED["corel5k"]
    assert (row["n"], row["c"]) == (published.n, published.c)
    assert row["cardinality"] == pytest.approx(published.cardinality, abs=5e-4)
    dataset = load_dataset("corel5k")
    assert dataset.statistics()["cardinality"] == row["cardinality"]
    folds = dataset.folds(10)
    assert [(len(f.train), len(f.validation), len(f.test)) for f in folds] == [
        (3500, 750, 749)
    ] * 10
    for fold in folds[:2]:
        assert (~fold.view_mask).sum(axis=0).tolist() == [2499] * 6
        assert fold.view_mask.any(axis=1).all()


@real("3sources")
def test_3sources_is_incomplete_by_nature() -> None:
    dataset = load_dataset("3sources")
    facts = dataset.statistics()
    assert (facts["n"], facts["m"], facts["c"]) == (416, 3, 6)
    assert facts["percent_missing"] == pytest.approx(24.0, abs=0.1)
    assert facts["cardinality"] == pytest.approx(1.123, abs=1e-3)


@real("emotions")
def test_emotions_has_two_views() -> None:
    facts = load_dataset("emotions").statistics()
    assert facts["dims"] == {"view0": 8, "view1": 64}
    assert facts["cardinality"] == pytest.approx(1.868, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "n", "widths", "n_labels", "percent_missing"),
    [
        pytest.param("birds", 645, [153, 105, 12], 19, 17.4, marks=real("birds")),
        pytest.param("scene", 2407, [98, 196], 6, 0.0, marks=real("scene")),
        pytest.param("plant", 978, [3091, 20, 20, 400], 12, 0.0, marks=real("plant")),
        pytest.param("cll", 254, [320, 315, 11], 39, 32.2, marks=real("cll")),
    ],
)
@pytest.mark.filterwarnings("ignore:.*arrays not read. is_test")
def test_archives_with_names_and_gaps(
    name: str, n: int, widths: list[int], n_labels: int, percent_missing: float
) -> None:
    dataset = load_dataset(name)
    size = dataset.statistics()
    assert (size["n"], list(size["dims"].values()), size["c"]) == (n, widths, n_labels)
    assert size["percent_missing"] == pytest.approx(percent_missing, abs=0.05)
    row = row_of(name)
    assert (row["n"], row["views"], row["c"]) == (n, size["dims"], n_labels)
    assert row["cardinality"] == pytest.approx(size["cardinality"])


@real("cll")
def test_cll_has_gaps_of_every_kind() -> None:
    dataset = load_dataset("cll")
    assert dataset.views.n_missing_values["seahorse"] == 102
    assert np.isnan(dataset.labels).mean() == pytest.approx(0.155, abs=1e-3)
    assert dataset.views.has_ids
