"""Seeds from whatever scikit-learn takes as `random_state`."""

import numpy as np
import pytest

from viewgap.methods.fitting.random_state import as_generator, seed_words


def test_seeds_are_fixed_by_the_random_state() -> None:
    assert seed_words(3, 4) == seed_words(3, 4)
    assert len({*seed_words(3, 4), *seed_words(4, 4)}) == 8


def test_an_int_gives_the_seeds_it_has_always_given() -> None:
    for seed in (0, 3, 2**40, 2**200, np.int64(5)):
        expected = np.random.SeedSequence(int(seed)).generate_state(4)
        assert seed_words(seed, 4) == expected.tolist()
        expected = np.random.default_rng(int(seed)).random(3)
        np.testing.assert_array_equal(as_generator(seed).random(3), expected)


@pytest.mark.parametrize("kind", [np.random.RandomState, np.random.default_rng])
def test_a_generator_is_drawn_from(kind: object) -> None:
    first, second = kind(7), kind(7)
    assert seed_words(first, 4) == seed_words(second, 4)
    assert seed_words(first, 4) != seed_words(kind(7), 4)  # as in scikit-learn: another fit
    np.testing.assert_array_equal(as_generator(kind(7)).random(3), as_generator(kind(7)).random(3))


def test_none_is_new_every_time_and_leaves_the_global_state_alone() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (that is the point)
    assert seed_words(None, 4) != seed_words(None, 4)
    as_generator(None).random()
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
