"""Any memory layout is accepted, and what is handed in is never written to."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from viewgap.data.preprocessing import Standardiser
from viewgap.data.splits import amputate, make_fold
from viewgap.data.validation import as_labels, as_viewset

BASE = np.random.default_rng(0).normal(size=(24, 6))
BASE[3] = np.nan
LAYOUTS = [
    "plain",
    "F-order",
    "negative strides",
    "every other",
    "read-only",
    "memmap",
    "read-only memmap",
    "transposed",
    "sparse",
    "read-only sparse",
    "frame",
    "matrix",
]


def layouts(folder: Path) -> dict[str, Any]:
    mapped = np.memmap(folder / "a.bin", dtype=np.float64, mode="w+", shape=BASE.shape)
    mapped[:] = BASE
    mapped.flush()
    frozen = BASE.copy()
    frozen.flags.writeable = False
    wide = np.zeros((48, 12))
    wide[::2, ::2] = BASE
    return {
        "plain": BASE.copy(),
        "F-order": np.asfortranarray(BASE),
        "negative strides": BASE[::-1, ::-1].copy()[::-1, ::-1],
        "every other": wide[::2, ::2],
        "read-only": frozen,
        "memmap": mapped,
        "read-only memmap": np.memmap(
            folder / "a.bin", dtype=np.float64, mode="r", shape=BASE.shape
        ),
        "transposed": BASE.T.copy().T,
        "sparse": sparse.csr_matrix(BASE),
        "read-only sparse": _frozen(sparse.csr_matrix(BASE)),
        "frame": pd.DataFrame(BASE),
        "matrix": np.asmatrix(BASE),
    }


def _frozen(matrix: Any) -> Any:
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def digest(values: Any) -> str:
    dense = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    return hashlib.sha256(dense.tobytes()).hexdigest()


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_layout(tmp_path: Path, name: str) -> None:
    held = layouts(tmp_path)[name]
    before = digest(held)
    labels = np.random.default_rng(1).integers(0, 2, size=(24, 3)).astype(float)
    labels_before = labels.copy()
    views = as_viewset({"a": held, "b": np.ones((24, 1))})
    expected = as_viewset({"a": BASE, "b": np.ones((24, 1))})
    assert np.array_equal(views.observed, expected.observed)
    assert np.array_equal(views.rows("a"), expected.rows("a"))
    assert np.array_equal(views[[5, 3, 1]].rows("a"), expected.rows("a")[[5, 3, 1]])
    scaler, other = Standardiser.fit(views), Standardiser.fit(expected)
    assert np.allclose(scaler.mean[0], other.mean[0], atol=1e-6)
    make_fold(views, labels).split(views, labels)
    amputate(views, labels)
    as_labels(labels, views)
    assert digest(held) == before
    assert np.array_equal(labels, labels_before)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", ["plain", "F-order", "read-only memmap", "every other"])
def test_dense_views_are_shared_not_copied(tmp_path: Path, kind: str) -> None:
    held = layouts(tmp_path)[kind]
    assert np.shares_memory(as_viewset({"a": held}).stored("a"), held)
