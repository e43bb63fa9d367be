"""Any entries, cut off at any byte: what was complete is read back, and writing goes on."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from viewgap.bench.results.journal import append_line, read_lines
from viewgap.errors import ViewgapWarning

values = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20)
values |= st.floats(allow_nan=False, allow_infinity=False)
text = st.text(max_size=8).filter(lambda own: own.isprintable())
entries = st.dictionaries(text, values | st.lists(values, max_size=3), max_size=4)


@given(st.lists(entries, min_size=1, max_size=5), st.data())
def test_what_was_complete_is_read_back(
    written: list[dict[str, object]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "records.jsonl"
        ends = []
        for entry in written:
            append_line(path, entry)
            ends.append(path.stat().st_size)
        assert read_lines(path) == written
        cut = data.draw(st.integers(0, ends[-1]))
        path.write_bytes(path.read_bytes()[:cut])
        whole = [entry for entry, end in zip(written, ends, strict=True) if end <= cut]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ViewgapWarning)
            assert read_lines(path) == whole
        append_line(path, {"after": True})
        assert read_lines(path) == [*whole, {"after": True}]
