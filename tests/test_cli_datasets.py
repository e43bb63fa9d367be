"""`viewgap datasets`: the list for people and machines, and downloads with their exit codes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import io

from data_files import cell
from viewgap.cli import run
from viewgap.datasets.sources import PUBLISHED, SOURCES, Checksum, Published, RemoteFile, Source
from web_server import serve_folder

NAME = "tiny_six_view.mat"
FOLDS = "tiny_six_view_MaskRatios_0.3_LabelMaskRatio_0.5_TraindataRatio_0.7.mat"


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a server with the benchmark set `tiny`; the data folder is empty."""
    folder = tmp_path / "upstream"
    folder.mkdir()
    views = cell(np.ones((9, 3)), np.ones((9, 2)))
    io.savemat(folder / NAME, {"X": views, "label": np.eye(9, 4)})
    (folder / FOLDS).write_bytes(b"folds")
    files = tuple(RemoteFile(n, Checksum("sha256", "").of(folder / n)) for n in (NAME, FOLDS))
    monkeypatch.setitem(PUBLISHED, "tiny", Published(9, 4, 0.444))
    monkeypatch.setenv("VIEWGAP_DATA", str(tmp_path / "data"))
    with serve_folder(folder) as url:
        monkeypatch.setitem(SOURCES, "tiny", Source("ask for it; {folder}/", files, (url,)))
        yield url


def printed(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert run(["datasets", *command]) == 0
    return capsys.readouterr().out


# ---------------------------------------------------------------------------------- the list


def test_all_spellings_of_the_list(upstream: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys, "list")
    rows = json.loads(printed(capsys, "--json"))
    assert rows == json.loads(printed(capsys, "list", "--json"))
    assert rows == json.loads(printed(capsys, "--json", "list"))
    assert {row["name"] for row in rows} == {"multidigits", "synthetic", *SOURCES}


def test_the_list_says_what_is_here_and_how_to_get_the_rest(
    upstream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = " ".join(printed(capsys).split())
    assert "tiny no 9 4 0.444 quoted" in before
    assert "viewgap datasets download corel5k" in before
    assert "READMEs of their repositories" in before
    assert "which is not a folder" in before
    assert run(["datasets", "download", "tiny"]) == 0
    capsys.readouterr()
    after = " ".join(printed(capsys, "--verify").split())
    assert "tiny yes 9 4 0.444 agrees 1 3 2" in after
    assert "folds: 30 % of views and 50 % of labels missing, 70 % training" in after
    assert f"{NAME}: published" in after
    (tmp_path / "data" / "tiny" / FOLDS).unlink()
    with (tmp_path / "data" / "tiny" / NAME).open("ab") as file:
        file.write(bytes(8))
    changed = " ".join(printed(capsys, "list", "--verify").split())
    assert f"{NAME}: not the published file" in changed
    assert f"{FOLDS}: not here" in changed


def test_a_difference_is_told(
    upstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PUBLISHED, "tiny", Published(10, 4, 0.444))
    assert run(["datasets", "download", "tiny"]) == 0
    assert "differs from Table 1" in capsys.readouterr().err
    text = " ".join(printed(capsys).split())
    assert "tiny yes 9 4 0.444 differs" in text
    assert "differs from Table 1: 9 samples, published 10" in text


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_fits_a_terminal(
    width: int, upstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("viewgap.cli.output._WIDE", width)
    lines = printed(capsys).splitlines()
    assert max(map(len, lines)) <= width
    (row,) = [line for line in lines if line.startswith("mirflickr ") and "25,000" in line]
    assert row.split()[:6] == ["mirflickr", "no", "25,000", "38", "4.716", "quoted"]


def test_help_and_list_import_no_downloader() -> None:
    code = (
        "import sys\nfrom viewgap.cli import run\n"
        "assert run(['datasets', '--help']) == 0 and run(['datasets']) == 0\n"
        "assert not {'pooch', 'requests', 'torch'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------------------- downloads


def test_download_prints_paths_and_plain_progress(
    upstream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["datasets", "download", "tiny"]) == 0
    out, err = capsys.readouterr()
    files = [tmp_path / "data" / "tiny" / name for name in (NAME, FOLDS)]
    assert out.splitlines() == [str(file) for file in files]
    assert err.splitlines()[0].startswith(f"{NAME}: 0.0 of ")
    assert "9 samples, 4 labels, 0.444 per sample; agrees with Table 1" in err
    assert (
        hashlib.sha256(files[1].read_bytes()).hexdigest()
        == SOURCES["tiny"].files[1].checksum.digest
    )


def test_download_shows_a_bar_in_a_terminal(
    upstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    assert run(["datasets", "download", "tiny"]) == 0
    out, err = capsys.readouterr()
    assert "━" in err
    assert "━" not in out


def test_download_into_another_folder(
    upstream: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["datasets", "download", "tiny", "--url", upstream, "--out", str(tmp_path / "mine")]
    assert run(command) == 0
    assert (tmp_path / "mine" / "tiny" / NAME).is_file()
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["nonsense"], 1, "available: corel5k"),
        (["pascal07"], 1, "READMEs"),
        (["tiny", "--url", "nothing"], 2, "expected a URL"),
        (["tiny", "--url", "http://127.0.0.1:1"], 1, "By hand: ask for it"),
        ([], 2, "Missing argument"),
    ],
)
def test_errors_are_one_line_with_a_code(
    arguments: list[str],
    code: int,
    text: str,
    upstream: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["datasets", "download", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert text in err
    assert len(err.splitlines()) == 1
