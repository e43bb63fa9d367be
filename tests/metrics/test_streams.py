"""Metrics and thresholds of blocks are those of the whole, up to what histograms state."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from viewgap.errors import InputError, SettingError, ViewgapWarning
from viewgap.metrics import (
    MetricStream,
    ThresholdStream,
    evaluate_all,
    evaluate_blocks,
    expected_f1_thresholds,
    macro_auc,
)

EXACT = ("AP", "1-HL", "1-RL", "AUC", "1-OE", "1-Cov", "macro F1", "micro F1", "n_undefined_labels")


def draw(n: int, c: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels with gaps and scores with ties; some rows have no positive, no label or no score."""
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, c)) < rng.random(c)).astype(float)
    Y[rng.random((n, c)) < 0.2] = np.nan
    P = np.round(rng.random((n, c)), rng.integers(1, 4))
    P[:, rng.integers(c)] = np.nan if seed % 3 == 0 else 0.5
    Y[rng.integers(n)] = np.nan
    Y[rng.integers(n)] = 0
    return Y, P


def blocks(Y: np.ndarray, P: np.ndarray, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    cuts = np.sort(np.random.default_rng(seed).integers(0, len(Y) + 1, 3))
    yield from zip(np.split(Y, cuts), np.split(P, cuts), strict=True)


@pytest.mark.filterwarnings("ignore::viewgap.errors.ViewgapWarning")
@pytest.mark.parametrize("variant", ["clean", "field"])
@given(st.integers(2, 30), st.integers(1, 9), st.integers(0, 1000))
def test_blocks_have_the_metrics_of_the_whole(variant: str, n: int, c: int, seed: int) -> None:
    Y, P = draw(n, c, seed)
    limits = np.linspace(0.1, 0.9, c)
    whole = evaluate_all(Y, P, variant, limits)
    found = evaluate_blocks(blocks(Y, P, seed), variant, limits)
    for name in EXACT:
        np.testing.assert_allclose(found[name], whole[name], rtol=0, atol=1e-12, err_msg=name)
    assert vars(found) == vars(whole) | {"macro_auc_error": found.macro_auc_error}
    np.testing.assert_equal(np.isnan(found["macro AUC"]), np.isnan(whole["macro AUC"]))
    if not np.isnan(whole["macro AUC"]):
        gap = abs(found["macro AUC"] - whole["macro AUC"])
        assert gap <= found.macro_auc_error + 1e-12


def test_macro_auc_is_exact_where_no_two_values_share_a_bin() -> None:
    P = np.array([[0.1], [0.2], [0.2], [0.6], [0.9], [0.99]])
    Y = np.array([[0], [1], [1], [0], [1], [0.0]])
    found = evaluate_blocks([(Y[:2], P[:2]), (Y[2:], P[2:])], bins=64)
    assert found["macro AUC"] == macro_auc(Y, P)
    assert found.macro_auc_error == 0
    coarse = evaluate_blocks([(Y, P)], bins=2)
    assert coarse.macro_auc_error >= abs(coarse["macro AUC"] - macro_auc(Y, P)) > 0


def test_without_bins_any_scores_will_do() -> None:
    Y, P = draw(20, 5, 1)
    found = evaluate_blocks([(Y, 100 * P - 3)], bins=0, threshold=7)
    whole = evaluate_all(Y, 100 * P - 3, threshold=7)
    assert "macro AUC" not in found
    np.testing.assert_allclose([found[n] for n in EXACT], [whole[n] for n in EXACT], atol=1e-12)
    with pytest.raises(InputError, match=r"expected probabilities in \[0, 1\]"):
        evaluate_blocks([(Y, 100 * P - 3)])


def test_what_is_no_block_is_refused() -> None:
    with pytest.raises(InputError, match="there are no blocks"):
        evaluate_blocks([])
    with pytest.raises(InputError, match="found 2 columns after blocks of 3"):
        evaluate_blocks([(np.eye(3), np.eye(3)), (np.eye(2), np.eye(2))])
    with pytest.raises(SettingError, match="bins must be 0 or more"):
        MetricStream(bins=-1)


def test_the_warning_of_the_field_variant_comes_once() -> None:
    Y, P = np.array([[1.0, 0], [0, 0]]), np.array([[0.3, 0.2], [0.1, 0.4]])
    with pytest.warns(ViewgapWarning, match="2 of 4 samples have no positive") as caught:
        evaluate_blocks([(Y, P), (Y, P)], "field")
    assert len(caught) == 1
    assert caught[0].filename == __file__


# ---------------------------------------------------------------------- thresholds


def expected_f1(scores: np.ndarray, threshold: float) -> float:
    kept = scores[~np.isnan(scores)]
    accepted = kept > threshold
    return float(2 * kept[accepted].sum() / max(accepted.sum() + kept.sum(), 1.0))


@given(st.integers(1, 60), st.integers(0, 1000))
@example(2, 215)  # probabilities of 1e-9
def test_streamed_thresholds_are_the_best_edges(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    P = rng.random((n, 4)) ** rng.integers(1, 9, 4)
    P[rng.random((n, 4)) < 0.1] = np.nan
    P[:, 3] = np.nan
    stream = ThresholdStream(4, bins=64)
    for part in np.array_split(P, 3):
        stream.add(part)
    found, exact = stream.result(), expected_f1_thresholds(P)
    assert found[3] == exact[3] == 0.5
    for j in range(3):
        if np.isnan(P[:, j]).all():
            continue
        reached, best = expected_f1(P[:, j], found[j]), expected_f1(P[:, j], exact[j])
        edges = np.concatenate([[-1.0], 1 / (1 + np.exp(-np.linspace(-12, 0, 63)))])
        assert reached >= max(expected_f1(P[:, j], edge) for edge in edges) - 1e-12
        assert reached <= best + 1e-12
        if P[P[:, j] > exact[j], j].min() > edges[1]:  # all below it is in one bin
            assert stream.lowest_share * best - 1e-12 <= reached
    assert 0.8 < stream.lowest_share < ThresholdStream(1).lowest_share < 1


def test_a_streamed_threshold_lies_halfway_to_the_next_lower_probability() -> None:
    """Not at the lowest accepted one: new rows of a rare label seldom come that high."""
    P = np.full((50, 3), 0.001)
    P[:5, 0], P[:5, 1] = 0.4, np.linspace(0.3, 0.4, 5)
    P[:, 2] = 0.1  # all are accepted: halfway to zero
    stream = ThresholdStream(3)
    stream.add(P)
    found, exact = stream.result(), expected_f1_thresholds(P)
    np.testing.assert_allclose(found, exact, rtol=0.05)
    np.testing.assert_allclose(exact, [0.2005, 0.1505, 0.05])


def test_probabilities_of_zero_are_accepted_where_nothing_else_is_there() -> None:
    stream = ThresholdStream(2)
    stream.add(np.array([[0.0, 1e-7], [0.0, 1e-8]]))
    assert (np.array([0.0, 1e-8]) > stream.result()).all()


def test_streamed_thresholds_decide_as_exact_ones_where_bins_tell_scores_apart() -> None:
    grid = 1 / (1 + np.exp(-np.linspace(-11.5, 11.5, 47)))
    scores = np.random.default_rng(2).choice(grid, (200, 6))
    stream = ThresholdStream(6)
    stream.add(scores[:90])
    stream.add(scores[90:])
    found, exact = stream.result(), expected_f1_thresholds(scores)
    np.testing.assert_array_equal(scores > found, scores > exact)
