"""Emotions, scene and birds as Mulan hands them out are the same data as the archives."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from viewgap.datasets import load_dataset
from viewgap.datasets.checks import check_dataset

ROOT = Path(os.environ.get("VIEWGAP_DATA") or "/nonexistent")
SITES = ("1", "2", "4", "5", "7", "8", "10", "11", "13", "15", "16", "17")
DECLARED = ("2", "10", "1", "7", "5", "4", "17", "15", "16", "8", "13", "11")
NAMES = "Centroid Rolloff Flux " + " ".join(f"MFCC_{i}" for i in range(13))
TIMBRE = [
    f"{outer}_Acc1298_{inner}_Mem40_{name}"
    for outer in ("Mean", "Std")
    for inner in ("Mean", "Std")
    for name in NAMES.split()
]

Columns = dict[str, Any]


def texts(names: list[str], values: Any) -> Columns:
    return dict(zip(names, values.astype(np.float32).T, strict=True))


def emotions(views: dict[str, Any], labels: Columns) -> Columns:
    rhythm = [f"BH_{i}" for i in range(5)] + ["BHSUM1", "BHSUM2", "BHSUM3"]
    return labels | texts(TIMBRE, views["view1"]) | texts(rhythm, views["view0"])


def scene(views: dict[str, Any], labels: Columns) -> Columns:
    side_by_side = np.hstack(list(views.values()))
    return texts([f"Att{i}" for i in range(1, 295)], side_by_side) | labels


def birds(views: dict[str, Any], labels: Columns) -> Columns:
    """A recording without segments has zeros there, and says so in a column of its own."""
    segments = views["segments"]
    gone = np.isnan(segments).all(axis=1)
    names = [f"cluster{i}" for i in range(98)] + ["segments"]
    names += [f"{a}_rect_{b}" for b in ("width", "height", "volume") for a in ("mean", "std")]
    places = views["recorder_site"].argmax(axis=1)
    return (
        texts([f"audio-ssd{i}" for i in range(153)], views["audio_ssd"])
        | texts(names, np.nan_to_num(segments))
        | {"hasSegments": np.where(gone, "0", "1"), "location": np.array(SITES)[places]}
        | labels
    )


def write(folder: Path, name: str, columns: Columns, labels: list[str]) -> None:
    folder.mkdir()
    kinds = dict.fromkeys(labels, "{0,1}") | {"hasSegments": "{0,1}"}
    kinds["location"] = f"{{{','.join(DECLARED)}}}"
    lines = ["@relation x"]
    lines += [f"@attribute '{key}' {kinds.get(key, 'numeric')}" for key in columns]
    rows = zip(*(map(str, column.tolist()) for column in columns.values()), strict=True)
    lines += ["@data", *(",".join(row) for row in rows)]
    (folder / f"{name}.arff").write_text("\n".join(lines))
    listed = "".join(f'<label name="{label}"/>' for label in labels)
    (folder / f"{name}.xml").write_text(f"<labels>{listed}</labels>")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*arrays not read. is_test")
@pytest.mark.parametrize(("name", "columns"), [(f.__name__, f) for f in (emotions, scene, birds)])
def test_the_same_data(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    columns: Callable[[dict[str, Any], Columns], Columns],
) -> None:
    if not (ROOT / name).is_dir():
        pytest.skip(f"$VIEWGAP_DATA/{name} is not here")
    archive = load_dataset(name)
    labels = [label.replace("'", "") for label in archive.label_names]
    numbers = dict(zip(labels, archive.labels.astype(int).T, strict=True))
    arrays = {own: archive.views.rows(own) for own in archive.views.names}
    for place, own in enumerate(archive.views.names):
        arrays[own][~archive.views.observed[:, place]] = np.nan
    write(tmp_path / name, name, columns(arrays, numbers), labels)
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path))
    found = load_dataset(name)
    assert found.views.names == archive.views.names
    assert np.array_equal(found.views.observed, archive.views.observed)
    for own in found.views.names:
        assert np.array_equal(found.views.rows(own), archive.views.rows(own))
    assert np.array_equal(found.labels, archive.labels)
    assert all(one.agrees for one in check_dataset(name, tmp_path / name / f"{name}.arff"))
