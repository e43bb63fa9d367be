"""Prediction by view: the same bits in any batch, any order, on any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

import viewgap
from viewgap.data.viewset import ViewSet
from viewgap.nn.codebook import nearest_codes
from viewgap.training import prediction

DIMS = {"a": 37, "b": 5, "c": 64}
SIZES = {"hidden": [48, 24], "embedding": 20, "codebook_size": 33, "code_dim": 4}
CHUNK = 96  # of samples, here: so that small data have chunk borders


@pytest.fixture(scope="module")
def model() -> viewgap.SCSD:
    views = make_views(120)
    Y = (np.random.default_rng(5).random((120, 7)) < 0.4).astype(float)
    settings = {**SIZES, "max_epochs": 2, "random_state": 0, "device": "cpu"}
    return viewgap.SCSD(**settings).fit(views, Y)


@pytest.fixture(params=["one thread", "three threads"])
def small_pieces(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chunks and pieces so short that a few rows fill many, and threads for any work."""
    monkeypatch.setattr(prediction, "_CHUNK_ROWS", CHUNK)
    monkeypatch.setattr(prediction, "_PIECE_ROWS", 32)
    before = torch.get_num_threads()
    if request.param == "three threads":
        monkeypatch.setattr(prediction, "_WORTH_THREADS", 0)
        torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def make_views(n: int, seed: int = 0) -> ViewSet:
    """Views that have something to do with each other: `impute` then predicts one from others."""
    rng, loadings = np.random.default_rng(seed), np.random.default_rng(9)
    causes = rng.normal(size=(n, 3))
    blocks = {
        name: (causes @ loadings.normal(size=(3, d)) + rng.normal(size=(n, d))).astype(np.float32)
        for name, d in DIMS.items()
    }
    observed = rng.random((n, len(DIMS))) < 0.5
    observed[np.arange(n), rng.integers(len(DIMS), size=n)] = True
    return ViewSet(blocks, observed=observed)


def answers(model: viewgap.SCSD, views: ViewSet) -> list[np.ndarray]:
    """Everything that is computed row by row."""
    by_view = model.predict_views(views)
    filled = model.impute(views)
    return [
        model.predict_proba(views),
        model.codes(views),
        model.transform(views),
        model._run(views, model._decoded(0)),
        *(by_view[name] for name in views.names),
        *(filled.rows(name) for name in views.names),
    ]


MOST = 2 * CHUNK + 33


@pytest.fixture(scope="module")
def alone(model: viewgap.SCSD) -> list[np.ndarray]:
    """Every row in a call of its own."""
    views = make_views(MOST)
    rows = [answers(model, views[[i]]) for i in range(MOST)]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 31, 32, 33, CHUNK, CHUNK + 1, MOST])
def test_rows_have_the_same_bits_alone_and_among_others(
    model: viewgap.SCSD, alone: list[np.ndarray], n: int, small_pieces: None
) -> None:
    found = answers(model, make_views(MOST)[:n])
    for part, expected in zip(found, alone, strict=True):
        np.testing.assert_array_equal(part, expected[:n])


def test_order_does_not_matter(model: viewgap.SCSD, small_pieces: None) -> None:
    views = make_views(301)
    order = np.random.default_rng(1).permutation(301)
    for part, whole in zip(answers(model, views[order]), answers(model, views), strict=True):
        np.testing.assert_array_equal(part, whole[order])


def test_missing_views_of_others_do_not_matter(model: viewgap.SCSD) -> None:
    views = make_views(100)
    expected = model.predict_proba(views)
    for name in range(len(DIMS)):
        others = views.observed.copy()
        others[50:] = False
        others[50:, name] = True
        found = model.predict_proba(views.with_observed(others | ~views.observed)[:50])
        np.testing.assert_array_equal(found, expected[:50])


def test_a_view_that_nobody_has(model: viewgap.SCSD) -> None:
    views = make_views(80)
    seen = views.observed.copy()
    seen[:, 1] = False
    rows = seen.any(axis=1)
    found = answers(model, views.with_observed(seen)[rows])
    assert np.isfinite(found[0]).all()
    assert (found[1][:, 1] == -1).all()
    assert np.isnan(found[5]).all()


def test_as_the_network_itself(model: viewgap.SCSD) -> None:
    """The blocks compute what `predict_batch` does, up to rounding."""
    from viewgap.training.batches.source import BatchSource

    views = make_views(70)
    with model._evaluating() as runtime:
        batch = BatchSource(views, None, model.scaler_, runtime).batch(torch.arange(70))
        expected = model.network_.predict_batch(batch).numpy()
    np.testing.assert_allclose(model.predict_proba(views), expected, atol=1e-6)


def test_double_precision(small_pieces: None) -> None:
    views = make_views(120)
    Y = (np.random.default_rng(5).random((120, 7)) < 0.4).astype(float)
    settings = {**SIZES, "max_epochs": 1, "random_state": 0, "device": "cpu"}
    model = viewgap.SCSD(**settings, precision="float64").fit(views, Y)
    found = model._predict_proba(views)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found[40:47], model.predict_proba(views[40:47]))


@pytest.mark.parametrize("settings", [{"quantise": False}, {"fusion": "mean"}])
def test_switches(settings: dict[str, Any], small_pieces: None) -> None:
    views = make_views(130)
    Y = (np.random.default_rng(5).random((130, 7)) < 0.4).astype(float)
    fixed = {**SIZES, "max_epochs": 1, "random_state": 0, "device": "cpu"}
    model = viewgap.SCSD(**fixed, **settings).fit(views, Y)
    whole = model.predict_proba(views)
    parts = [model.predict_proba(views[i : i + 7]) for i in range(0, 130, 7)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_sparse_and_dense_values_agree(model: viewgap.SCSD) -> None:
    views = make_views(90)
    blocks = {name: views.rows(name) for name in views.names}
    blocks["a"][np.abs(blocks["a"]) < 1] = 0.0
    dense = ViewSet(blocks, observed=views.observed)
    thin = ViewSet({**blocks, "a": sparse.csr_array(blocks["a"])}, observed=views.observed)
    np.testing.assert_array_equal(model.predict_proba(thin), model.predict_proba(dense))


def test_only_pieces_of_a_view_are_read(
    model: viewgap.SCSD, small_pieces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = make_views(300)
    longest = []
    read = prediction._Reader.read

    def watched(self: Any, view: int, rows: Any) -> Any:
        longest.append(len(rows))
        assert self.views.observed[rows, view].all()
        return read(self, view, rows)

    monkeypatch.setattr(prediction._Reader, "read", watched)
    model.predict_proba(views)
    assert max(longest) == 32
    assert sum(longest) == views.observed.sum()


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("work", [0, 10**12])
def test_the_number_of_threads_changes_no_bit_and_is_put_back(
    model: viewgap.SCSD, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prediction, "_WORTH_THREADS", work)
    monkeypatch.setattr(prediction, "_PIECE_ROWS", 32)
    views, before, found = make_views(200), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            found.append(model.predict_proba(views))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_number_of_threads_is_put_back_after_an_error(
    model: viewgap.SCSD, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no such rows")

    monkeypatch.setattr(prediction, "_WORTH_THREADS", 0)
    monkeypatch.setattr(prediction._Reader, "read", fail)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(RuntimeError, match="no such rows"):
            model.predict_proba(make_views(50))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_thread_born_during_a_prediction_keeps_the_setting_of_the_process() -> None:
    found = []

    def predict() -> None:
        with prediction.one_thread() as threads:
            found.append((threads, torch.get_num_threads()))
        found.append((torch.get_num_threads(),))

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with prediction.one_thread():
            thread = threading.Thread(target=predict)
            thread.start()
            thread.join()
        assert found == [(2, 1), (2,)]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------------- the look-up


@pytest.mark.parametrize("size", [2, 33, 256, 2048])
def test_look_up_of_a_segment_does_not_depend_on_the_others(size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.nn.functional.normalize(torch.randn(size, 4, generator=generator), dim=1)
    points = torch.nn.functional.normalize(torch.randn(3000, 4, generator=generator), dim=1)
    whole = nearest_codes(points, codes)
    for start in (0, 1, 255, 256, 1023, 2999):
        found = nearest_codes(points[start : start + 40], codes)
        torch.testing.assert_close(found, whole[start : start + 40], rtol=0, atol=0)
    exact = (points.double() @ codes.double().T).max(dim=1).values
    chosen = (points.double() * codes[whole].double()).sum(dim=1)
    torch.testing.assert_close(chosen, exact, rtol=0, atol=1e-6)


def test_look_up_takes_the_first_of_equal_codes_and_of_nothing_none() -> None:
    codes = torch.eye(4).repeat(60, 1)
    assert nearest_codes(torch.eye(4), codes).tolist() == [0, 1, 2, 3]
    assert nearest_codes(torch.zeros(1, 4), codes).tolist() == [0]
    assert nearest_codes(torch.empty(0, 4), codes).tolist() == []


def test_blocks_leave_nothing_over_for_scalar_loops() -> None:
    for sizes in (prediction._BLOCK, prediction._BLOCK_OF_LARGE):
        assert all(rows % 32 == 0 for rows in sizes.values())


def test_where_memory_ends_fewer_rows_are_in_work_and_no_bit_changes(
    model: viewgap.SCSD, monkeypatch: pytest.MonkeyPatch
) -> None:
    views, started = make_views(120), []
    expected = model.predict_proba(views)
    start = prediction._start

    limit = 40

    def limited(reader: Any, function: Any, chunk: slice, apply: Any) -> Any:
        started.append(chunk.stop - chunk.start)
        if chunk.stop - chunk.start > limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return start(reader, function, chunk, apply)

    monkeypatch.setattr(prediction, "_start", limited)
    np.testing.assert_array_equal(model.predict_proba(views), expected)
    assert started[0] == 120
    assert max(started[-3:]) <= 40
    limit = 0
    with pytest.raises(viewgap.errors.RunError, match="fewer samples at a time"):
        model.predict_proba(views)
