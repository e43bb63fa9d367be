"""Which input every method takes, and which it refuses, in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
import pytest

from viewgap.data.viewset import ViewSet
from viewgap.errors import InputError, ViewError, ViewgapWarning

pytestmark = pytest.mark.base_class


@pytest.fixture(scope="session")
def whole(tools: Any) -> Any:
    """A problem with nothing missing, in numbers that float16 and integers can hold."""
    problem = tools.make_problem(40, seed=3, missing=0.0)
    blocks = {name: np.round(block * 4) for name, block in problem.blocks.items()}
    return type(problem)(blocks, problem.observed, problem.Y)


def answer(make: Any, X: Any, Y: Any, **settings: Any) -> Any:
    return make(**settings).fit(X, Y).predict_proba(X)


@pytest.fixture(scope="session")
def shifted(whole: Any) -> Any:
    """The same views, without negative numbers."""
    return {name: block - block.min() for name, block in whole.blocks.items()}


@pytest.fixture(scope="session")
def answer_to_float32(make: Any, whole: Any, shifted: Any) -> Any:
    return answer(make, {k: b.astype(np.float32) for k, b in shifted.items()}, whole.Y)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int8", "uint8"])
def test_number_types_give_the_same_answer(
    make: Any, whole: Any, shifted: Any, answer_to_float32: Any, dtype: Any
) -> None:
    found = answer(make, {k: b.astype(dtype) for k, b in shifted.items()}, whole.Y)
    np.testing.assert_array_equal(found, answer_to_float32)


def test_bool_views_and_labels(make: Any, whole: Any) -> None:
    signs = {name: block > 0 for name, block in whole.blocks.items()}
    numbers = {name: block.astype(float) for name, block in signs.items()}
    expected = answer(make, numbers, whole.Y)
    np.testing.assert_array_equal(answer(make, signs, whole.Y.astype(bool)), expected)
    np.testing.assert_array_equal(answer(make, signs, whole.Y.astype(int)), expected)


def memory_mapped(block: Any, folder: Any) -> Any:
    place = np.memmap(folder / f"{block.shape[1]}", block.dtype, "w+", shape=block.shape)
    place[:] = block
    place.flush()
    return np.memmap(folder / f"{block.shape[1]}", block.dtype, "r", shape=block.shape)


def read_only(block: Any, folder: Any) -> Any:
    block = block.copy()
    block.flags.writeable = False
    return block


def in_hdf5_file(block: Any, folder: Any) -> Any:
    file = h5py.File(folder / f"{block.shape[1]}.h5", "w")
    return file.create_dataset("block", data=block)


LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "fortran order": lambda block, folder: np.asfortranarray(block),
    "read-only": read_only,
    "memory map": memory_mapped,
    "HDF5 dataset": in_hdf5_file,
    "negative strides": lambda block, folder: block[::-1, ::-1].copy()[::-1, ::-1],
    "every second": lambda block, folder: np.repeat(block, 2, axis=0)[::2],
    "lists": lambda block, folder: block.tolist(),
}


@pytest.fixture(scope="session")
def answer_to_whole(make: Any, whole: Any) -> Any:
    return answer(make, whole.blocks, whole.Y)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_layouts_give_the_same_answer(
    make: Any, whole: Any, answer_to_whole: Any, tmp_path: Any, layout: Any
) -> None:
    given = {name: LAYOUTS[layout](block, tmp_path) for name, block in whole.blocks.items()}
    labels = LAYOUTS[layout](whole.Y, tmp_path)
    np.testing.assert_array_equal(answer(make, given, labels), answer_to_whole)


def test_containers_give_the_same_answer(make: Any, problem: Any, fitted: Any, other: Any) -> None:
    expected = fitted.predict_proba(other.views())
    as_dict = make().fit(problem.with_nan(), problem.Y)
    np.testing.assert_array_equal(as_dict.predict_proba(other.with_nan()), expected)
    as_list = make().fit(list(problem.with_nan().values()), problem.Y)
    assert as_list.view_names_ == ("view0", "view1", "view2")
    np.testing.assert_array_equal(as_list.predict_proba(list(other.with_nan().values())), expected)


def test_one_array_with_named_columns(make: Any, problem: Any, fitted: Any, other: Any) -> None:
    columns = {"colour": range(5), "shape": slice(5, 13), "text": list(range(13, 25))}
    model = make(views=columns).fit(np.hstack(list(problem.with_nan().values())), problem.Y)
    found = model.predict_proba(np.hstack(list(other.with_nan().values())))
    np.testing.assert_array_equal(found, fitted.predict_proba(other.views()))


def test_input_is_not_modified(make: Any, problem: Any) -> None:
    X, Y = problem.with_nan(), problem.Y.copy()
    before = copy.deepcopy((X, Y))
    make().fit(X, Y).predict_proba(X)
    np.testing.assert_array_equal(Y, before[1])
    for name, block in X.items():
        np.testing.assert_array_equal(block, before[0][name])


def test_one_view(make: Any, whole: Any) -> None:
    found = answer(make, {"shape": whole.blocks["shape"]}, whole.Y)
    assert found.shape == whole.Y.shape
    assert np.isfinite(found).all()


def test_one_label(make: Any, problem: Any) -> None:
    found = answer(make, problem.views(), problem.Y[:, :1])
    assert found.shape == (len(problem.Y), 1)
    assert np.isfinite(found).all()


@pytest.mark.filterwarnings("ignore:early stopping is off")
@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_few_samples(make: Any, whole: Any, n: Any) -> None:
    X = {name: block[:n] for name, block in whole.blocks.items()}
    found = answer(make, X, whole.Y[:n])
    assert found.shape == (n, 4)
    assert np.isfinite(found).all()


def test_one_column(make: Any, whole: Any) -> None:
    found = answer(make, {"a": whole.blocks["shape"][:, :1]}, whole.Y)
    assert np.isfinite(found).all()


def test_constant_column_and_constant_view(make: Any, whole: Any) -> None:
    X = dict(whole.blocks, colour=np.full((40, 5), 7.0))
    X["shape"] = np.hstack([X["shape"], np.ones((40, 1))])
    assert np.isfinite(answer(make, X, whole.Y)).all()


def test_empty_data_is_refused(make: Any, whole: Any) -> None:
    with pytest.raises(InputError):
        make().fit({}, whole.Y)
    with pytest.raises(InputError):
        make().fit({"a": np.zeros((0, 3))}, np.zeros((0, 2)))
    with pytest.raises(InputError):
        make().fit({"a": np.zeros((40, 0))}, whole.Y)
    with pytest.raises(InputError):
        make().fit(whole.blocks, whole.Y[:-1])
    with pytest.raises(InputError):
        make().fit(whole.blocks, whole.Y[:, :0])


@pytest.fixture(scope="session")
def strict(make: Any, whole: Any) -> Any:
    return make(nan="error").fit(whole.blocks, whole.Y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_names_its_view(
    make: Any, fitted: Any, strict: Any, whole: Any, value: Any
) -> None:
    X = {name: block.copy() for name, block in whole.blocks.items()}
    X["shape"][7, 3] = value
    with pytest.raises(ViewError, match="shape"):
        make(nan="error").fit(X, whole.Y)
    with pytest.raises(ViewError, match="shape"):
        strict.predict_proba(X)
    if np.isinf(value):
        with pytest.raises(ViewError, match="shape"):
            make().fit(X, whole.Y)
        with pytest.raises(ViewError, match="shape"):
            fitted.predict_proba(X)


def test_nan_can_mean_a_missing_view(make: Any, whole: Any) -> None:
    X = {name: block.copy() for name, block in whole.blocks.items()}
    X["shape"][7, 3] = np.nan
    observed = whole.observed.copy()
    observed[7, 1] = False
    expected = answer(make, ViewSet(whole.blocks, observed=observed), whole.Y)
    np.testing.assert_array_equal(answer(make, X, whole.Y, nan="missing_view"), expected)


def test_objects_are_refused(make: Any, fitted: Any, whole: Any) -> None:
    X = dict(whole.blocks, colour=np.full((40, 5), "red", dtype=object))
    with pytest.raises(ViewError, match="colour"):
        make().fit(X, whole.Y)
    with pytest.raises(ViewError, match="colour"):
        fitted.predict_proba(X)


@pytest.mark.parametrize("name", ["colour", "shape", "text"])
@pytest.mark.parametrize("change", [-1, 1])
def test_columns_are_remembered(fitted: Any, whole: Any, name: Any, change: Any) -> None:
    block = whole.blocks[name]
    changed = block[:, :-1] if change < 0 else np.hstack([block, block[:, :1]])
    with pytest.raises(ViewError, match=f"{name}.*{changed.shape[1]}.*{block.shape[1]}"):
        fitted.predict_proba(dict(whole.blocks, **{name: changed}))


def test_views_are_matched_by_name(fitted: Any, other: Any) -> None:
    expected = fitted.predict_proba(other.with_nan())
    reordered = {name: other.with_nan()[name] for name in ("text", "colour", "shape")}
    np.testing.assert_array_equal(fitted.predict_proba(reordered), expected)


def test_unknown_view_is_refused(fitted: Any, whole: Any) -> None:
    with pytest.raises(ViewError, match="taste"):
        fitted.predict_proba(dict(whole.blocks, taste=whole.blocks["text"]))


def test_absent_view_is_a_missing_view(fitted: Any, whole: Any) -> None:
    observed = whole.observed.copy()
    observed[:, 1] = False
    expected = fitted.predict_proba(ViewSet(whole.blocks, observed=observed))
    partial = {name: whole.blocks[name] for name in ("colour", "text")}
    with pytest.warns(ViewgapWarning, match="shape"):
        found = fitted.predict_proba(partial)
    np.testing.assert_array_equal(found, expected)


def test_frames_are_aligned_by_id(make: Any, fitted: Any, problem: Any, other: Any) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)

    def frames(part: Any, order: Any) -> Any:
        ids = np.array([f"sample {i}" for i in range(len(part.Y))])
        result = {}
        for j, (name, block) in enumerate(part.blocks.items()):
            rows = order[part.observed[order, j]]
            result[name] = pandas.DataFrame(block[rows], index=ids[rows])
        return result, pandas.DataFrame(part.Y, index=ids)

    straight, labels = frames(problem, np.arange(len(problem.Y)))
    first = pandas.DataFrame(problem.blocks["colour"], index=labels.index)
    first[~problem.observed[:, 0]] = np.nan  # fixes the order of the samples
    model = make().fit(straight | {"colour": first}, labels)
    shuffled, _ = frames(problem, rng.permutation(len(problem.Y)))
    again = make().fit(shuffled | {"colour": first}, labels.sample(frac=1, random_state=0))
    expected = fitted.predict_proba(other.views())
    np.testing.assert_array_equal(model.predict_proba(other.views()), expected)
    np.testing.assert_array_equal(again.predict_proba(other.views()), expected)
