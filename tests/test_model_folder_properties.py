"""Any description and arrays: read back as they were, and never read wrong after any damage."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of

import viewgap.model_folder as model_folder
from viewgap.errors import ModelFileError

KINDS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"]
FINITE = {"allow_nan": False, "allow_infinity": False}
values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(**FINITE) | st.text()
keys = st.text(max_size=8).filter(lambda key: key != "format" and not key.startswith("$"))
descriptions = st.dictionaries(keys, values | st.lists(values, max_size=3), max_size=4)
arrays = st.sampled_from(KINDS).flatmap(
    lambda kind: arrays_of.arrays(
        kind,
        arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
        elements=FINITE if kind[0] == "f" else None,
    )
)
several = st.dictionaries(st.from_regex(r"\A[a-z_/0-9]{1,9}\Z"), arrays, max_size=4)


def is_same(found: tuple[dict[str, Any], dict[str, Any]], description: Any, stored: Any) -> bool:
    same = found[0] == description and set(found[1]) == set(stored)
    return same and all(
        own.dtype == stored[name].dtype
        and own.shape == stored[name].shape
        and own.tobytes() == stored[name].tobytes()
        for name, own in found[1].items()
    )


@given(descriptions, several, st.booleans(), st.data())
@settings(max_examples=30)
def test_read_is_what_was_written_or_refused(
    description: dict[str, Any], stored: dict[str, Any], turned: bool, data: st.DataObject
) -> None:
    if turned:  # other orders of memory
        stored = {name: array.T for name, array in stored.items()}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        model_folder.write(folder, description, stored, overwrite=False)
        assert is_same(model_folder.read(folder), description, stored)
        digest = model_folder.digest(folder)
        path = folder / data.draw(st.sampled_from(sorted(p.name for p in folder.iterdir())))
        content = path.read_bytes()
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 8)))
        path.write_bytes(content[:start] + data.draw(st.binary(max_size=8)) + content[end:])
        try:
            found = model_folder.read(folder)
        except ModelFileError:
            return
        assert is_same(found, description, stored)  # how the checksums are written may differ
        assert model_folder.digest(folder) == digest


@given(several.filter(lambda own: any(a.dtype.kind == "f" and a.size for a in own.values())))
@settings(max_examples=10)
def test_numbers_that_are_none_are_never_written(stored: dict[str, Any]) -> None:
    name = next(name for name, own in stored.items() if own.dtype.kind == "f" and own.size)
    wrong = stored[name].copy()
    wrong.flat[-1] = np.nan
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        with pytest.raises(ModelFileError, match="holds NaN or infinity"):
            model_folder.write(folder, {}, stored | {name: wrong}, overwrite=False)
        assert not folder.exists()
