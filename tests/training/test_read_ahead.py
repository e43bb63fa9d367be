"""A thread makes items ahead: in order, not too many, and it ends however its reader ends."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewgap.errors import command_line_words, parameter
from viewgap.training.batches.read_ahead import read_ahead


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


@given(st.integers(0, 30), st.integers(0, 5))
def test_all_items_in_order(count: int, depth: int) -> None:
    with read_ahead(lambda number: 3 * number, count, depth) as items:
        assert list(items) == [3 * number for number in range(count)]


def test_no_more_than_the_depth_is_made_ahead() -> None:
    made: list[int] = []
    with read_ahead(lambda number: made.append(number), 50, depth=3) as items:
        for taken, _ in enumerate(items, start=1):
            assert len(made) <= taken + 4  # three that wait, and the one in work


def test_made_by_another_thread_unless_there_is_nothing_to_wait_for() -> None:
    for depth, is_other in ((2, True), (0, False)):
        with read_ahead(lambda _: threading.get_ident(), 3, depth) as items:
            assert (threading.get_ident() not in set(items)) == is_other


def test_an_error_comes_in_the_place_of_its_item() -> None:
    def make(number: int) -> int:
        if number == 2:
            raise ValueError(f"item {number}")
        return number

    with read_ahead(make, 5, depth=4) as items:
        assert next(items) == 0
        time.sleep(0.01)  # the error is there long before it is asked for
        assert next(items) == 1
        with pytest.raises(ValueError, match="item 2"):
            next(items)


def test_leaving_early_ends_the_thread() -> None:
    with read_ahead(lambda number: number, 10_000, depth=2) as items:
        assert next(items) == 0
    with pytest.raises(KeyError), read_ahead(lambda number: number, 100, depth=2) as items:
        raise KeyError(next(items))


def test_an_interrupt_reaches_who_waits() -> None:
    """Ctrl-C while the reader is busy: the main thread is woken, and the reader ends."""
    # A shell starts what runs in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    release = threading.Event()

    def make(number: int) -> int:
        if number == 0:
            os.kill(os.getpid(), signal.SIGINT)
            release.wait(10)
        return number

    timer = threading.Timer(0.2, release.set)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt), read_ahead(make, 2, depth=1) as items:
            next(items)
    finally:
        signal.signal(signal.SIGINT, before)
    timer.join()


def test_messages_are_in_the_words_of_who_asked() -> None:
    with command_line_words(), read_ahead(lambda _: parameter("nan"), 2, depth=1) as items:
        assert list(items) == ["--missing", "--missing"]
