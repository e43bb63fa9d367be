"""Rows on disk are shuffled by blocks: every row once, near each other, the same by seed."""

import gc
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from viewgap import SCSD
from viewgap.data.formats import read_data
from viewgap.data.labels import Labels
from viewgap.data.preprocessing import Standardiser
from viewgap.data.viewset import ViewSet
from viewgap.errors import DataFileError
from viewgap.training.batches import source as batches
from viewgap.training.batches.block_order import BLOCKS_PER_WINDOW, BlockCache, RowBlocks
from viewgap.training.batches.sampled import Layout
from viewgap.training.batches.source import BatchSource
from viewgap.training.callbacks import Callback
from viewgap.training.cross_fit import Parts
from viewgap.training.runtime import choose_runtime

CPU = choose_runtime("cpu")
SMALL: dict[str, Any] = {
    "hidden": (8,),
    "embedding": 8,
    "codebook_size": 9,
    "batch_size": 16,
    "min_epochs": 1,
    "random_state": 0,
}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(
    st.integers(1, 700),
    st.integers(1, 800),
    st.integers(1, 300),
    st.integers(0, 3),
    st.booleans(),
)
def test_every_row_once_and_blocks_together(
    n: int, window: int, chunk: int, seed: int, moved: bool
) -> None:
    place = np.random.default_rng(seed).permutation(3 * n)[:n] if moved else np.arange(n)
    blocks = RowBlocks(place, window, chunk)
    assert blocks.block_rows >= min(chunk, blocks.window_rows // 4)
    assert blocks.blocks_per_window <= BLOCKS_PER_WINDOW
    order = blocks.order(seeded(seed)).numpy()
    assert sorted(order.tolist()) == list(range(n))
    assert np.array_equal(order, blocks.order(seeded(seed)).numpy())
    together = np.concatenate([blocks.rows(b) for b in range(blocks.count)])
    assert np.array_equal(place[together], np.sort(place))
    if not blocks.is_everything:  # a window holds few blocks, and each is read in one window
        span = blocks.block_rows * blocks.blocks_per_window
        numbers, places = blocks.numbers(order)
        windows = [set(numbers[start : start + span]) for start in range(0, n, span)]
        assert all(len(own) <= blocks.blocks_per_window + 1 for own in windows)
        assert sum(map(len, windows)) <= blocks.count + len(windows)
        for row, block, at in zip(order[:20], numbers[:20], places[:20], strict=True):
            assert blocks.rows(int(block))[at] == row


def test_a_window_as_long_as_the_data_is_any_order() -> None:
    expected = torch.randperm(50, generator=seeded(3))
    assert torch.equal(RowBlocks(np.arange(50), 50).order(seeded(3)), expected)


def test_rows_of_a_window_are_mixed() -> None:
    """Blocks of 10 of 6,400 rows: beside a row hardly ever lies its neighbour on disk."""
    order = RowBlocks(np.arange(6400), 640).order(seeded()).numpy()
    assert np.mean(np.abs(np.diff(order)) == 1) < 0.02
    assert not np.array_equal(order, RowBlocks(np.arange(6400), 640).order(seeded(1)).numpy())


@given(st.integers(2, 300), st.integers(1, 90), st.integers(0, 3))
def test_the_cache_gives_the_rows_it_is_asked_for(n: int, window: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2))
    blocks = RowBlocks(rng.permutation(n), window)
    cache = BlockCache(blocks, lambda view, rows: values[rows] + view)
    for _ in range(4):
        rows = rng.integers(0, n, size=7)
        assert np.array_equal(cache.read(1, rows), values[rows] + 1)


def test_each_block_is_read_once_in_an_epoch() -> None:
    blocks, reads = RowBlocks(np.arange(10_000), 640), []

    def read(view: int, rows: np.ndarray) -> np.ndarray:
        reads.append(int(rows[0]))
        return rows[:, None]

    cache = BlockCache(blocks, read)
    for rows in blocks.order(seeded()).split(32):
        cache.read(0, np.unique(rows.numpy()))
    assert len(reads) == len(set(reads)) == 1000


@pytest.mark.parametrize("window", [40, 1000])
def test_parts_stay_inside_their_window(window: int) -> None:
    number = np.random.default_rng(0).integers(0, 4, size=400)
    parts = Parts(number, 4)
    order = np.random.default_rng(1).permutation(400)
    own = parts.cut(order, 16, window)
    for part, batches_of_part in enumerate(own):
        assert sorted(np.concatenate(batches_of_part).tolist()) == sorted(
            np.flatnonzero(number != part)
        )
    place = np.empty(400, dtype=int)
    place[order] = np.arange(400)
    moved = place[np.concatenate(own[0])]
    assert (np.abs(moved - np.sort(moved)) < window).all()


def test_parts_that_do_not_mix_in_a_window_are_spread_over_all_rows() -> None:
    """Each network needs two rows in every batch."""
    parts = Parts(np.repeat([0, 1], 50), 2)
    own = parts.cut(np.arange(100), 4, window=10)
    assert min(len(rows) for network in own for rows in network) >= 2


# ---------------------------------------------------------------------- from files


def write(folder: Path, n: int = 300) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {"a": rng.normal(size=(n, 6)), "b": rng.normal(size=(n, 4))}
    arrays["b"][rng.random(n) < 0.3] = np.nan
    arrays["labels"] = (arrays["a"][:, :3] > 0).astype(float)
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values.astype(np.float32))
    return arrays


@pytest.fixture
def on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "RESIDENT_BYTES", {"cpu": 0})


@pytest.mark.usefixtures("on_demand")
def test_batches_from_files_hold_the_rows_of_their_order(tmp_path: Path) -> None:
    arrays = write(tmp_path)
    raw = read_data(tmp_path)
    Y = np.asarray(raw.labels)
    labels = Labels(Y.astype(np.uint8), np.ones(Y.shape, dtype=bool), ("x", "y", "z"))
    kept = np.sort(np.random.default_rng(2).permutation(300)[:200])
    views, labels = raw.views[kept], labels[kept]
    scaler = Standardiser.fit(views)
    source = BatchSource(views, labels, scaler, CPU, shuffle_window=64)
    drawn = source.batches_of_epoch(16, seeded())
    memory = ViewSet({name: arrays[name].astype(np.float32) for name in ("a", "b")})[kept]
    expected = BatchSource(memory, labels, scaler, CPU)

    packed = Layout("packed", "observed", "cross")
    epochs = [source.epoch(drawn[0], packed)]
    with source.steps(epochs) as steps:
        for rows, (_, (found,)) in zip(drawn[0], steps, strict=True):
            other = expected.batch(rows, packed)
            for v in range(2):
                assert torch.equal(found.views[v], other.views[v])
            for one, two in zip(found.targets, other.targets, strict=True):
                assert torch.equal(one.table[one.rows], two.table[two.rows])
            assert torch.equal(found.labels, other.labels)


class Seen(Callback):
    def on_epoch_end(self, context: Any) -> None:
        if context.epoch == 2:
            raise KeyboardInterrupt


@pytest.mark.usefixtures("on_demand")
@pytest.mark.parametrize("networks", [1, 2])
def test_a_fit_on_files_goes_on_with_the_same_bits(tmp_path: Path, networks: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder)
    raw = read_data(folder)
    more = {"n_networks": networks, "cross_fit": networks > 1, "max_epochs": 4}
    more |= {"shuffle_window": 64}
    whole = SCSD(**SMALL, **more).fit(raw.views, raw.labels)
    again = SCSD(**SMALL, **more).fit(raw.views, raw.labels)
    with pytest.raises(KeyboardInterrupt):
        SCSD(**SMALL, **more, callbacks=[Seen()]).fit(
            raw.views, raw.labels, checkpoint_dir=tmp_path / "kept"
        )
    resumed = SCSD(**SMALL, **more).fit(
        raw.views, raw.labels, checkpoint_dir=tmp_path / "kept", resume=True
    )
    other = SCSD(**SMALL, **{**more, "shuffle_window": 10_000}).fit(raw.views, raw.labels)
    answers = whole.predict_proba(raw.views)
    assert np.array_equal(answers, again.predict_proba(raw.views))
    assert np.array_equal(answers, resumed.predict_proba(raw.views))
    assert not np.array_equal(answers, other.predict_proba(raw.views))


@pytest.mark.usefixtures("on_demand")
def test_a_window_of_all_rows_trains_as_in_memory(tmp_path: Path) -> None:
    arrays = write(tmp_path)
    raw = read_data(tmp_path)
    settings = {**SMALL, "max_epochs": 2, "n_networks": 1, "shuffle_window": 300}
    memory = {name: arrays[name].astype(np.float32) for name in ("a", "b")}
    found = SCSD(**settings).fit(raw.views, raw.labels).predict_proba(raw.views)
    assert np.array_equal(found, SCSD(**settings).fit(memory, raw.labels).predict_proba(memory))


def test_small_files_are_trained_on_as_in_memory(tmp_path: Path) -> None:
    """Whatever fits is loaded once; nothing is shuffled by blocks then."""
    arrays = write(tmp_path)
    raw = read_data(tmp_path)
    settings = {**SMALL, "max_epochs": 2, "n_networks": 1, "shuffle_window": 20}
    memory = {name: arrays[name].astype(np.float32) for name in ("a", "b")}
    found = SCSD(**settings).fit(raw.views, raw.labels).predict_proba(raw.views)
    assert np.array_equal(found, SCSD(**settings).fit(memory, raw.labels).predict_proba(memory))


@pytest.mark.usefixtures("on_demand")
def test_a_file_that_is_cut_meanwhile_names_view_and_rows(tmp_path: Path) -> None:
    write(tmp_path)
    raw = read_data(tmp_path)

    class Cut(Callback):
        def on_epoch_end(self, context: Any) -> None:
            with (tmp_path / "b.npy").open("r+b") as file:
                file.truncate(1000)

    model = SCSD(**SMALL, n_networks=1, max_epochs=3, callbacks=[Cut()], validation_fraction=0.0)
    with pytest.raises(DataFileError, match=r"rows \d+ to \d+ of view 'b' .*b\.npy.*was cut"):
        model.fit(raw.views, raw.labels)


@pytest.mark.usefixtures("on_demand")
def test_fits_leave_no_thread_and_no_open_file(tmp_path: Path) -> None:
    write(tmp_path)

    def fit() -> tuple[int, int]:
        raw = read_data(tmp_path)
        SCSD(**SMALL, n_networks=1, max_epochs=1).fit(raw.views, raw.labels)
        del raw
        gc.collect()
        own = Path("/proc/self/fd")
        return threading.active_count(), len(os.listdir(own)) if own.is_dir() else 0

    assert fit() == fit()
