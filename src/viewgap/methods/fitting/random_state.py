"""Seeds and generators from whatever scikit-learn takes as `random_state`."""

from __future__ import annotations

from typing import Any

import numpy as np

_WORDS = 4  # 128 bits drawn from a generator fix everything after them


def seed_words(random_state: Any, count: int) -> list[int]:
    """Independent seeds for the parts of a fit, all fixed by `random_state`.

    A RandomState or Generator is drawn from: the same state gives the same seeds, and the next
    call gives others, as in scikit-learn.
    """
    sequence = np.random.SeedSequence(draw_entropy(random_state))
    return [int(word) for word in sequence.generate_state(count)]


def draw_entropy(random_state: Any) -> Any:
    """What fixes a fit: an int or a list of ints; None stays None."""
    if isinstance(random_state, np.random.Generator):
        return random_state.integers(2**32, size=_WORDS, dtype=np.uint32).tolist()
    if isinstance(random_state, np.random.RandomState):
        return _draw(random_state)
    is_drawn = random_state is None or isinstance(random_state, list)
    return random_state if is_drawn else int(random_state)


def as_generator(random_state: Any) -> np.random.Generator:
    """A generator that starts where `random_state` says; a Generator is used itself."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(_draw(random_state))
    return np.random.default_rng(random_state)


def _draw(state: np.random.RandomState) -> list[int]:
    words: list[int] = state.randint(2**32, size=_WORDS, dtype=np.uint32).tolist()
    return words
