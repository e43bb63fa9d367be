"""Downloads of named data sets: complete and verified, or not there under their names."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

from viewgap.datasets.local_files import VARIABLE, data_folder
from viewgap.datasets.sources import SOURCES, RemoteFile, Source
from viewgap.datasets.transfer import (
    ChecksumError,
    ResumingDownloader,
    SourceError,
    Watch,
    disk_error,
)
from viewgap.errors import DataFileError, InputError, SettingError, ViewgapError, remedy
from viewgap.fsio import check_folder_writable, sync_folder


def download_dataset(
    name: str,
    url: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
) -> list[Path]:
    """Fetch the files of a data set into `<folder>/<name>/`; return their paths.

    Files that are here and right are not fetched again, and a download that broke off is continued.

    Parameters
    ----------
    name : str
        A data set with verified files; `viewgap datasets` lists them.
    url : str, optional
        Address of the files, instead of the authors' repositories.
    folder : str or path, optional
        Folder to use instead of $VIEWGAP_DATA.
    watch : callable, optional
        Called with the name of a file, its bytes here, and its bytes in all (None: not known).

    Returns
    -------
    list of Path
    """
    name = name.lower()
    source = _downloadable(name)
    bases = source.bases if url is None else (_checked(url),)
    target = _root(folder) / name
    check_folder_writable(target)
    advice = f"By hand: {source.by_hand.format(folder=target)}"
    watch = watch or (lambda *_: None)
    return [_fetch(file, bases, target, watch, advice) for file in source.files]


def how_to_get(name: str) -> str | None:
    """One sentence or two on where a known data set comes from; None if the name is not known."""
    source = SOURCES.get(name.lower())
    if source is None:
        return None
    by_hand = source.by_hand.format(folder=f"${VARIABLE}/{name.lower()}")
    return f"viewgap datasets download {name}; by hand: {by_hand}" if source.files else by_hand


def _downloadable(name: str) -> Source:
    source = SOURCES.get(name)
    if source is None:
        offered = ", ".join(key for key, source in SOURCES.items() if source.files)
        raise InputError(f"nothing to download under the name {name!r}; available: {offered}")
    if not source.files:
        by_hand = source.by_hand.format(folder=f"${VARIABLE}/{name}")
        raise InputError(f"{name} cannot be downloaded by viewgap: {by_hand}")
    return source


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise SettingError(
            f"expected a URL like https://host/folder that holds the files, found {url!r}"
        )
    return url.rstrip("/")


def _root(folder: str | os.PathLike[str] | None) -> Path:
    root = data_folder() if folder is None else Path(folder).expanduser()
    if root is None:
        raise SettingError(
            f"where to put the files? Set the environment variable {VARIABLE} to a folder, or "
            + remedy("pass folder=", "name one with --out DIR")
        )
    return root


def _fetch(
    file: RemoteFile, bases: tuple[str, ...], folder: Path, watch: Watch, advice: str
) -> Path:
    path = folder / file.name
    if path.exists():
        return _present(file, path)
    failures: list[ViewgapError] = []
    for base in bases:
        try:
            _retrieve(file, f"{base}/{quote(file.name)}", folder, watch)
            return path
        except (SourceError, ChecksumError) as error:
            failures.append(error)
    reasons = "; ".join(str(error) for error in failures)
    raise type(failures[0])(f"{reasons}. {advice}") from failures[0]


def _present(file: RemoteFile, path: Path) -> Path:
    try:
        found = file.checksum.of(path)
    except OSError as error:
        raise DataFileError(f"{path}: cannot be read: {error.strerror}") from error
    if found != file.checksum:
        raise DataFileError(
            f"{path} is here, but is not the published file: expected {file.checksum}, found "
            f"{found}. It can be used as it is; to have the published one, move it away first"
        )
    return path


def _retrieve(file: RemoteFile, url: str, folder: Path, watch: Watch) -> None:
    import pooch  # type: ignore[import-untyped,unused-ignore]

    downloader = ResumingDownloader(file, folder / f"{file.name}.part", watch)
    # pooch knows no git blobs: the downloader verifies those (and all others) before it hands over
    checksum = str(file.checksum) if file.checksum.kind == "sha256" else None
    try:
        with _without_log(pooch.get_logger()):
            pooch.retrieve(url, checksum, fname=file.name, path=folder, downloader=downloader)
        sync_folder(folder)
    except OSError as error:
        raise disk_error(folder / file.name, error) from error


@contextlib.contextmanager
def _without_log(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch, which announces every download on stderr; `watch` does that here."""
    before = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
