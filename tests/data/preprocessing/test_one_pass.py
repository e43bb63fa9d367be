"""Views on disk are prepared in one pass: quantiles within the stated error, and moments."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.data.formats import read_data
from viewgap.data.preprocessing import Standardiser, standardiser
from viewgap.data.preprocessing.features import Counts, Plain, Ranks
from viewgap.data.preprocessing.quantile_sketch import MOST_BYTES, QuantileSketch
from viewgap.data.rows import values as values_module
from viewgap.data.viewset import ViewSet


def column(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    values = {
        "normal": rng.normal(size=n),
        "rising": np.arange(n) / 7,
        "falling": -np.arange(n) / 7,
        "periodic": np.arange(n) % 50.0,
        "few values": rng.integers(0, 3, size=n).astype(float),
        "constant": np.full(n, 2.5),
        "heavy": rng.standard_cauchy(n),
    }[kind]
    return values.astype(np.float32)


KINDS = ["normal", "rising", "falling", "periodic", "few values", "constant", "heavy"]


@given(
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3),
    st.integers(1, 3000),
    st.sampled_from([2, 8, 50, 256]),
    st.integers(1, 400),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 5),
)
def test_ranks_are_within_the_stated_error(
    kinds: list[str], n: int, buffer_rows: int, step: int, gaps: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = np.column_stack([column(kind, n, rng) for kind in kinds])
    values[rng.random(values.shape) < gaps] = np.nan
    sketch = QuantileSketch(len(kinds), n, buffer_rows)
    for start in range(0, n, step):
        sketch.add(values[start : start + step])
    levels = max(0, int(np.log2(n / buffer_rows))) if n > buffer_rows else 0
    assert sketch.rank_error <= levels * n / (2 * buffer_rows)
    for j, own in enumerate(values.T):
        there = np.sort(own[~np.isnan(own)])
        assert sketch.count[j] == len(there)
        ranks = np.rint(np.linspace(0, max(len(there) - 1, 0), 20)).astype(np.intp)
        found = sketch.at(np.tile(ranks, (len(kinds), 1)))[j]
        if not len(there):
            assert np.isnan(found).all()
            continue
        assert (found[0], found[-1]) == (there[0], there[-1])
        assert (np.diff(found) >= 0).all()
        below = np.searchsorted(there, found, side="left")
        until = np.searchsorted(there, found, side="right")
        assert (below <= ranks + sketch.rank_error).all()
        assert (until > ranks - sketch.rank_error).all()


def test_memory_of_a_sketch_is_bounded() -> None:
    for width, n in ((10, 10**6), (20_000, 10**6), (500, 10**8)):
        sketch = QuantileSketch(width, n)
        buffers = 3 + np.log2(n / sketch.buffer_rows)
        assert 4 * width * sketch.buffer_rows * buffers <= 1.05 * MOST_BYTES


# ---------------------------------------------------------------------- against memory


@pytest.fixture
def one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standardiser, "SAMPLE_ROWS", 100)
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 20_000)


def on_disk(folder: Path, values: np.ndarray) -> ViewSet:
    np.save(folder / "a.npy", values)
    return read_data(folder).views


def views_of(kind: str, n: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "counts":
        return rng.poisson(0.3, size=(n, 20)).astype(np.float32)
    columns = [column(own, n, rng) for own in ("normal", "periodic", "constant", "rising")]
    values = np.column_stack(columns)
    if kind == "gaps":
        values[rng.random(values.shape) < 0.2] = np.nan
        values[:, 1] = np.nan
    return values


@pytest.mark.usefixtures("one_pass")
@pytest.mark.parametrize("kind", ["counts", "whole", "gaps"])
@pytest.mark.parametrize("features", ["plain", "auto"])
def test_the_same_scaling_as_in_memory(tmp_path: Path, kind: str, features: str) -> None:
    values = views_of(kind)
    found = Standardiser.fit(on_disk(tmp_path, values), features=features)
    expected = Standardiser.fit(ViewSet({"a": values}), features=features)
    assert type(found.features[0]) is type(expected.features[0])
    if features == "plain" or kind == "counts":
        assert isinstance(found.features[0], Plain | Counts)
        np.testing.assert_allclose(found.mean[0], expected.mean[0], rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found.scale[0], expected.scale[0], rtol=1e-5)
        return
    one, other = found.features[0], expected.features[0]
    assert isinstance(one, Ranks)
    assert isinstance(other, Ranks)
    assert one.rows == other.rows == (~np.isnan(values).all(axis=1)).sum()
    # Buffers are longer than the data: every rank is exact here, and so are the moments.
    np.testing.assert_array_equal(one.knots, other.knots)
    np.testing.assert_allclose(found.mean[0], expected.mean[0], atol=1e-5)
    np.testing.assert_allclose(found.scale[0], expected.scale[0], rtol=1e-4)


@pytest.mark.usefixtures("one_pass")
def test_every_row_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    views = on_disk(tmp_path, views_of("gaps"))
    read: list[int] = []
    lazy = type(views.stored("a"))
    whole = lazy.__getitem__

    def counting(self: object, rows: np.ndarray) -> np.ndarray:
        read.extend(np.asarray(rows).tolist())
        return whole(self, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(lazy, "__getitem__", counting)
    Standardiser.fit(views, features="auto")
    assert sorted(read) == np.flatnonzero(views.observed[:, 0]).tolist()


@pytest.mark.usefixtures("one_pass")
def test_prepared_columns_have_mean_zero_and_deviation_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With short buffers, as for data of many rows: within the error of the sketch."""
    monkeypatch.setattr("viewgap.data.preprocessing.quantile_sketch.MOST_ROWS", 256)
    values = views_of("whole", 20_000)
    found = Standardiser.fit(on_disk(tmp_path, values), features="auto")
    everything = np.ones(len(values), dtype=bool)
    prepared = found.apply(0, values, everything)[:, [0, 1, 3]]
    assert np.abs(prepared.mean(axis=0)).max() < 0.02
    assert np.abs(prepared.std(axis=0) - 1).max() < 0.02
