from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from viewgap.bench.results.journal import append_line, cut_torn_line, read_lines
from viewgap.errors import DataFileError, RunError, ViewgapWarning

ENTRIES: list[dict[str, Any]] = [{"task": "a", "text": "å\n"}, {"task": "b", "n": 1.5}]


def write_all(path: Path) -> bytes:
    for entry in ENTRIES:
        append_line(path, entry)
    return path.read_bytes()


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    write_all(tmp_path / "j")
    assert read_lines(tmp_path / "j") == ENTRIES
    assert read_lines(tmp_path / "absent") == []


def test_a_cut_at_any_byte_of_the_last_line_loses_only_that_line(tmp_path: Path) -> None:
    path = tmp_path / "j"
    whole = write_all(path)
    second = whole.index(b"\n") + 1
    for end in range(second + 1, len(whole)):
        path.write_bytes(whole[:end])
        with pytest.warns(ViewgapWarning, match="incomplete"):
            assert read_lines(path) == ENTRIES[:1]
        cut_torn_line(path)
        append_line(path, ENTRIES[1])
        assert path.read_bytes() == whole


def test_cutting_leaves_a_whole_journal_alone(tmp_path: Path) -> None:
    whole = write_all(tmp_path / "j")
    cut_torn_line(tmp_path / "j")
    cut_torn_line(tmp_path / "absent")
    assert (tmp_path / "j").read_bytes() == whole


@pytest.mark.parametrize("line", [b"{oops}\n", b"[1]\n", b'{"a":1,"a":2}\n', b"\xff\n", b"\n"])
def test_damage_inside_is_an_error_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "j"
    path.write_bytes(line + write_all(tmp_path / "other"))
    with pytest.raises(DataFileError, match="line 1"):
        read_lines(path)


def test_a_place_that_cannot_be_written_is_a_run_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot write"):
        append_line(tmp_path / "no" / "folder", {"a": 1})
