"""Features prepared as counts or by rank: naive formulas, scikit-learn, and rows for themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.stats import norm
from sklearn.preprocessing import QuantileTransformer

from viewgap.data.preprocessing import Standardiser
from viewgap.data.preprocessing import features as features_module
from viewgap.data.preprocessing.features import KNOTS, Counts, Features, Plain, Ranks, choose
from viewgap.data.rows import values as values_module
from viewgap.data.viewset import ViewSet
from viewgap.errors import SettingError

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning")
FEW = settings(max_examples=40, deadline=None)
KIND_OF_DATA = st.sampled_from(["normal", "ties", "heavy", "counts", "binary", "mostly_zero"])


def make(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Columns of one kind, float32."""
    noise = rng.normal(size=shape)
    made = {
        "normal": lambda: noise,
        "ties": lambda: np.rint(2 * noise),
        "heavy": lambda: np.sign(noise) * np.exp(np.abs(noise) * 12),
        "counts": lambda: rng.poisson(0.5, size=shape),
        "binary": lambda: noise > 1,
        "mostly_zero": lambda: noise * (rng.random(shape) < 0.2),
    }[kind]()
    return np.asarray(made, dtype=np.float32)


def fitted(array: Any) -> Features:
    return choose(array, np.arange(array.shape[0]))


def prepared(features: Features, block: np.ndarray, dtype: Any = np.float32) -> np.ndarray:
    block = block.astype(dtype)
    return features.apply(block, np.full(block.shape, 7, dtype=dtype))


def naive_quantile(column: np.ndarray, x: float) -> float:
    """Normal quantile of x: the share of rows below it, half of its equals included."""
    column, n = np.sort(column), len(column)
    if column[0] == column[-1]:
        return 0.0
    equal = np.flatnonzero(column == x)
    if len(equal):
        return float(norm.ppf((equal[0] + equal[-1] + 1) / (2 * n)))
    below = int((column < x).sum())
    if below in (0, n):
        return float(norm.ppf(0.5 / n if below == 0 else 1 - 0.5 / n))
    low, high = float(column[below - 1]), float(column[below])
    return float(norm.ppf((below - 0.5 + (x - low) / (high - low)) / n))


# ---------------------------------------------------------------------- by rank


@FEW
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, KNOTS),
    kind=st.sampled_from(["normal", "ties", "heavy", "binary"]),
)
def test_ranks_equal_a_naive_loop(seed: int, n: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    array = make(kind, rng, (n, 2))
    features = fitted(array)
    assert isinstance(features, Ranks)
    assert features.knots.shape == (2, n)
    others = np.concatenate([array, 1.5 * make(kind, rng, (9, 2)), [[0, 0], [1e38, -1e38]]])
    others = others.astype(np.float32)
    expected = [[naive_quantile(array[:, c], float(x[c])) for c in (0, 1)] for x in others]
    np.testing.assert_allclose(prepared(features, others), expected, atol=2e-6)


def test_many_rows_agree_with_scikit_learn() -> None:
    array = np.random.default_rng(0).lognormal(size=(3000, 3)).astype(np.float32)
    oracle = QuantileTransformer(
        n_quantiles=KNOTS, output_distribution="normal", subsample=None
    ).fit_transform(array)
    found = prepared(fitted(array), array)
    inner = np.abs(oracle) < 2.3
    assert inner.mean() > 0.97
    np.testing.assert_allclose(found[inner], oracle[inner], atol=0.03)
    assert found.max() == pytest.approx(norm.ppf(1 - 1 / 6000), abs=1e-6)
    assert found.min() == -found.max()


def test_two_values_stay_two_and_one_becomes_zero() -> None:
    array = np.zeros((1000, 3), dtype=np.float32)
    array[:3, 0] = 1  # rarer than the knots are dense
    array[:700, 1] = 0.1
    array[:, 2] = 0.1
    both = []
    for dtype in (np.float32, np.float64):
        # 0.1 in float64 is not the 0.1 of float32, and still the same value.
        values = np.where(array != 0, np.where(np.arange(3) == 0, 1, 0.1), 0).astype(dtype)
        found = prepared(fitted(values), values, dtype)
        for c, rare in ((0, 3), (1, 700)):
            low, high = np.unique(found[:, c])
            assert (found[:, c] == high).sum() == rare
            assert low < high < 4
        both.append(found)
        assert not found[:, 2].any()
        assert not prepared(fitted(values), values + 5, dtype)[:, 2].any()
    np.testing.assert_allclose(both[0], both[1], atol=1e-6)


@pytest.mark.parametrize("level", [1e6, 1e-40])
def test_rounding_is_not_taken_for_signal(level: float) -> None:
    ulp = np.spacing(np.float32(level))
    array = (np.float32(level) + ulp * (np.arange(50) % 2)).astype(np.float32)[:, None]
    assert np.unique(array).size == 2
    assert not prepared(fitted(array), array).any()


def test_quantiles_of_many_rows_come_from_evenly_spaced_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    array = np.random.default_rng(0).normal(size=(1000, 4)).astype(np.float32)
    monkeypatch.setattr(features_module, "SAMPLE_ROWS", 100)
    features = fitted(array)
    assert isinstance(features, Ranks)
    assert features.rows == 100
    assert np.isin(features.knots, array[np.linspace(0, 999, 100).astype(int)]).all()


@FEW
@given(seed=st.integers(0, 10**6), n=st.integers(2, 400), kind=KIND_OF_DATA)
def test_ranks_never_fall_and_can_be_inverted(seed: int, n: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    array = make(kind, rng, (n, 3))
    features = fitted(array)
    assert isinstance(features, Ranks)
    steps = np.sort(np.concatenate([array, make(kind, rng, (50, 3)) * 3]), axis=0)
    assert (np.diff(prepared(features, steps), axis=0) >= 0).all()
    # Between two knots a value is known to a small part of their distance.
    back = features.invert(prepared(features, array))
    gaps = np.diff(features.knots, axis=1).max(axis=1)
    assert (np.abs(back - array) <= 1e-4 * gaps + 1e-6 * np.abs(array)).all()
    far = features.invert(np.full((2, 3), 50, dtype=np.float32) * [[-1], [1]])
    np.testing.assert_array_equal(far, features.knots[:, [0, -1]].T)


# ---------------------------------------------------------------------- counts

HISTOGRAM = np.random.default_rng(3).poisson(0.4, size=(60, 20))
AGES = np.random.default_rng(4).integers(0, 90, size=(60, 20))


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (HISTOGRAM, "counts"),
        (HISTOGRAM.astype(np.uint8), "counts"),
        (HISTOGRAM.astype(np.float64), "counts"),
        (HISTOGRAM > 0, "counts"),
        (HISTOGRAM[:, :16], "counts"),
        (HISTOGRAM[:, :15], "rank"),  # a handful of ratings
        (AGES, "rank"),  # hardly any zero
        (HISTOGRAM * 0.5, "rank"),
        (-HISTOGRAM, "rank"),
        (np.pad(np.ones((4, 10)), ((0, 0), (0, 10))), "counts"),  # just half of it zero
        (np.pad(np.ones((4, 11)), ((0, 0), (0, 9))), "rank"),
        (np.zeros((5, 20)), "counts"),
    ],
)
def test_what_counts_as_counts(array: np.ndarray, kind: str) -> None:
    assert fitted(array).kind == kind
    assert fitted(sparse.csr_array(array)).kind == kind


def test_one_cell_decides_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values_module, "CHUNK_BYTES", 3 * 20 * 8)
    for value in (0.5, -1.0):
        array = HISTOGRAM.astype(float)
        array[59, 3] = value
        assert fitted(array).kind == fitted(sparse.csr_array(array)).kind == "rank"


def test_counts_become_directions() -> None:
    array = HISTOGRAM.astype(np.float32)
    array[4] = 0
    features = fitted(array)
    assert isinstance(features, Counts)
    logs = np.log(1 + array.astype(np.float64))
    lengths = np.linalg.norm(logs, axis=1)
    found = prepared(features, array)
    np.testing.assert_allclose(found[5:], logs[5:] / lengths[5:, None], rtol=1e-6)
    assert not found[4].any()
    assert features.length == pytest.approx(np.median(lengths[lengths > 0]))
    # A row of the median length comes back as it was, and nothing strange beyond it.
    back = features.invert(found)
    expected = np.expm1(logs[5:] * features.length / lengths[5:, None])
    np.testing.assert_allclose(back[5:], expected, rtol=1e-5, atol=1e-6)
    wild = features.invert(np.array([[-3.0, 0.0, 1e4]], dtype=np.float32))
    assert wild[0, :2].tolist() == [0, 0]
    assert 1e38 < wild[0, 2] < values_module.LARGEST
    assert not prepared(features, -array).any()


# ---------------------------------------------------------------------- both


@FEW
@given(
    seed=st.integers(0, 10**6),
    kind=KIND_OF_DATA,
    width=st.integers(1, 40),
    dtype=st.sampled_from([np.float32, np.float64]),
    piece=st.integers(1, 300),
)
def test_a_row_has_the_same_bits_among_any_others(
    seed: int, kind: str, width: int, dtype: Any, piece: int
) -> None:
    rng = np.random.default_rng(seed)
    array = make(kind, rng, (150, width))
    features = fitted(array)
    block = make(kind, rng, (60, width))
    block[rng.random(60) < 0.3] = 0  # whole pieces that are mostly zero, and others
    whole = prepared(features, block, dtype)
    assert np.isfinite(whole).all()
    order = rng.permutation(60)
    assert prepared(features, block[order], dtype).tobytes() == whole[order].tobytes()
    alone = np.concatenate([prepared(features, block[[i]], dtype) for i in range(60)])
    assert alone.tobytes() == whole.tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(features_module, "_PIECE", piece)
        assert prepared(features, block, dtype).tobytes() == whole.tobytes()
        assert prepared(features, np.asfortranarray(block), dtype).tobytes() == whole.tobytes()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), kind=KIND_OF_DATA, chunk_rows=st.integers(1, 50))
def test_sparse_views_and_small_chunks_give_the_same(seed: int, kind: str, chunk_rows: int) -> None:
    array = make(kind, np.random.default_rng(seed), (200, 18))
    rows = np.ones(200, dtype=bool)
    expected = Standardiser.fit(ViewSet({"a": array}), features="auto")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values_module, "CHUNK_BYTES", 8 * 18 * chunk_rows)
        for values in (array, sparse.csr_array(array)):
            found = Standardiser.fit(ViewSet({"a": values}), features="auto")
            for key, wanted in expected.features[0].to_arrays().items():
                np.testing.assert_allclose(found.features[0].to_arrays()[key], wanted, rtol=1e-12)
            np.testing.assert_allclose(found.mean[0], expected.mean[0], atol=1e-6)
            np.testing.assert_allclose(found.scale[0], expected.scale[0], rtol=1e-5)
            shaped = found.apply(0, array, rows)
            assert np.allclose(shaped.mean(axis=0), 0, atol=1e-4)
            deviation = shaped.std(axis=0)
            assert np.allclose(deviation[np.ptp(array, axis=0) > 0], 1, atol=1e-3)


def standardised(fill: float, as_sparse: bool) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    observed = rng.random((80, 3)) < 0.6
    observed[:, 2] = False
    arrays = [make(kind, rng, (80, 20)).astype(float) for kind in ("counts", "normal", "normal")]
    for array, seen in zip(arrays, observed.T, strict=True):
        array[~seen] = fill
    stored = [sparse.csr_array(array) if as_sparse else array for array in arrays]
    views = ViewSet(dict(zip("abc", stored, strict=True)), observed)
    found = Standardiser.fit(views, features="auto")
    assert [features.kind for features in found.features] == ["counts", "rank", "plain"]
    blocks = [found.apply(j, views.rows(n), observed[:, j]) for j, n in enumerate("abc")]
    return [*blocks, *found.to_arrays().values()]


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("fill", [np.nan, np.inf, 1e30, 0.5, -1.0])
def test_nothing_under_the_mask_is_read(fill: float, as_sparse: bool) -> None:
    pairs = zip(standardised(0.0, as_sparse), standardised(fill, as_sparse), strict=True)
    assert all(first.tobytes() == second.tobytes() for first, second in pairs)


def test_settings_that_cannot_be_meant() -> None:
    views = ViewSet({"a": np.eye(3)})
    with pytest.raises(SettingError, match="features must be 'plain' or 'auto', found 'rank'"):
        Standardiser.fit(views, features="rank")


# ---------------------------------------------------------------------- as arrays


@pytest.fixture
def scaler() -> Standardiser:
    rng = np.random.default_rng(0)
    views = {"a": HISTOGRAM, "b": rng.normal(size=(60, 3)), "c": np.full((60, 2), np.nan)}
    return Standardiser.fit(ViewSet(views), features="auto")


def test_arrays_and_back(scaler: Standardiser) -> None:
    arrays = scaler.to_arrays()
    again = Standardiser.from_arrays(arrays, scaler.names)
    assert again.dims == (20, 3, 2)
    blocks = [HISTOGRAM, np.random.default_rng(1).normal(size=(60, 3)), np.ones((60, 2))]
    for j, block in enumerate(blocks):
        first, second = (s.apply(j, block, np.ones(60, dtype=bool)) for s in (scaler, again))
        assert first.tobytes() == second.tobytes()
        inverse, other = (s.invert(j, first) for s in (scaler, again))
        assert inverse.tobytes() == other.tobytes()


def test_arrays_from_before_there_were_features(scaler: Standardiser) -> None:
    plain = {k: v for k, v in scaler.to_arrays().items() if k.startswith(("mean_", "scale_"))}
    found = Standardiser.from_arrays(plain)
    assert all(isinstance(features, Plain) for features in found.features)
    assert set(found.to_arrays()) == set(plain)


NORMAL = np.sort(np.random.default_rng(0).normal(size=(3, 60)), axis=1).astype(np.float32)


def changed(row: int, value: float) -> np.ndarray:
    knots = NORMAL.copy()
    knots[row, 30] = value
    return knots


@pytest.mark.parametrize(
    "arrays",
    [
        {"kinds": np.array([1, 2, 3])},
        {"kinds": np.array([-1, 2, 0])},
        {"kinds": np.array([1, 2])},
        {"kinds": np.array(1)},
        {"kinds": np.array([1, 2, np.nan])},
        {"kinds": np.array([2, 1, 0])},
        {"kinds": ...},
        {"length_0": np.array([0.0])},
        {"length_0": np.array([np.inf])},
        {"length_0": np.array([1.0, 2.0])},
        {"length_1": np.array([1.0])},
        {"knots_1": NORMAL[:2]},
        {"knots_1": NORMAL.T.copy()},
        {"knots_1": NORMAL[0]},
        {"knots_1": NORMAL[:, :0]},
        {"knots_1": NORMAL[:, ::-1].copy()},
        {"knots_1": np.repeat(NORMAL, 3, axis=1)},
        {"knots_1": changed(2, np.nan)},
        {"knots_1": changed(2, np.inf)},
        {"knots_1": changed(0, 50.0)},
        {"knots_1": ...},
        {"rows_1": np.array([59])},
        {"rows_1": np.array([60.5])},
        {"rows_1": np.array([2**62])},
        {"rows_1": np.array([], dtype=np.int64)},
        {"mean_1": np.zeros((3, 1), dtype=np.float32)},
        {"scale_0": np.ones(19, dtype=np.float32)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(scaler: Standardiser, arrays: Any) -> None:
    merged = {k: v for k, v in (scaler.to_arrays() | arrays).items() if v is not ...}
    assert scaler.to_arrays()["knots_1"].shape == NORMAL.shape
    with pytest.raises(ValueError, match=r"."):
        Standardiser.from_arrays(merged)
