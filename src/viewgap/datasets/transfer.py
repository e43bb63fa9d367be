"""One file over HTTP, resumable: a part on disk is continued where the last attempt ended.

pooch decides whether a file must be fetched, gives it a temporary name and moves it into place;
it calls a `ResumingDownloader` for the bytes, because its own downloaders start from zero. The
bytes gather in `<name>.part`, and get their final name only when they are complete and verified.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from viewgap.datasets.sources import RemoteFile
from viewgap.errors import DataFileError, RunError
from viewgap.fsio import lock_file

if TYPE_CHECKING:
    from requests import Response

Watch = Callable[[str, int, int | None], None]
"""Called with the name of a file, its bytes here, and its bytes in all (None: not known)."""

CHUNK = 2**13  # what a broken connection loses at most
ATTEMPTS = 4
TIMEOUT = (15.0, 60.0)  # seconds to connect, and between two pieces


class SourceError(RunError):
    """A server could not be reached, or did not give the file; another one may."""


class ChecksumError(DataFileError):
    """A complete download is not the expected file."""


class _InterruptedError(SourceError):
    """The connection ended before the file did."""


class _TooLargeError(SourceError):
    """More bytes than the file can have."""


@dataclass(frozen=True)
class ResumingDownloader:
    """A downloader for pooch: called with a URL and the path that the verified file shall get.

    A connection that breaks after it gave something is taken up again, a few times; after that,
    the part stays for the next call.
    """

    file: RemoteFile
    part: Path
    watch: Watch

    def __call__(self, url: str, output_file: str, _pooch: Any = None) -> None:
        """Fetch and verify; `output_file` appears when both are done."""
        with self._disk_errors(), _one_at_a_time(self.part.parent), self._no_empty_part():
            Path(output_file).unlink()  # a killed download shall leave its part and nothing else
            continued = self._here() > 0
            if not (continued and self._is_right()):
                self._fetch(url)
                if continued and not self._is_right():
                    self.part.unlink()  # begun with another version of the file
                    self._fetch(url)
            self._verify(url)
            os.replace(self.part, output_file)

    # ------------------------------------------------------------------ the bytes

    def _fetch(self, url: str) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            before = self._here()
            try:
                self._fetch_rest(url, before)
                return
            except _InterruptedError:
                if attempt == ATTEMPTS or self._here() <= before:
                    raise

    def _fetch_rest(self, url: str, start: int) -> None:
        with self._request(url, start) as response:
            if start and not _continues(response, start):
                self.part.unlink()
                if response.status_code != 200:
                    return self._fetch_rest(url, 0)
                start = 0
            total = self._checked_total(url, response, start)
            try:
                with self.part.open("ab") as target:
                    self._copy(url, response, target, start, total)
            except _TooLargeError:
                self.part.unlink()
                raise

    @contextlib.contextmanager
    def _request(self, url: str, start: int) -> Iterator[Response]:
        import requests

        headers = {"Accept-Encoding": "identity", "User-Agent": "viewgap"}
        if start:
            headers["Range"] = f"bytes={start}-"
        try:
            with requests.get(url, headers=headers, stream=True, timeout=TIMEOUT) as response:
                _check_status(url, response, start)
                yield response
        except requests.RequestException as error:
            raise SourceError(f"cannot reach {url}: {_reason(error)}") from error

    def _checked_total(self, url: str, response: Response, start: int) -> int | None:
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            raise SourceError(f"{url} answers with {encoding}, where the plain file was asked for")
        text = response.headers.get("Content-Length", "")
        if not text.isdecimal():
            return None
        total = start + int(text)
        if total > self.file.max_bytes:
            raise self._too_large(url, f"announces {total:,} bytes")
        free = shutil.disk_usage(self.part.parent).free
        if int(text) > free:
            raise RunError(
                f"{self.part.parent} has {free:,} bytes left, and {self.file.name} needs "
                f"{int(text):,} more; free some space or choose another folder"
            )
        return total

    def _copy(
        self, url: str, response: Response, target: BinaryIO, done: int, total: int | None
    ) -> None:
        import requests

        self.watch(self.file.name, done, total)
        try:
            for piece in response.iter_content(CHUNK):
                done += len(piece)
                if done > self.file.max_bytes:
                    raise self._too_large(url, f"sends {done:,} bytes or more")
                target.write(piece)
                self.watch(self.file.name, done, total)
        except requests.RequestException as error:
            target.flush()
            expected = "" if total is None else f" of {total:,}"
            raise _InterruptedError(
                f"the connection to {url} ended after {done:,}{expected} bytes "
                f"({_reason(error)}); they are kept in {self.part}, and the next call goes on from "
                "there"
            ) from error
        target.flush()
        os.fsync(target.fileno())

    # ------------------------------------------------------------------ checks

    def _here(self) -> int:
        return self.part.stat().st_size if self.part.exists() else 0

    def _is_right(self) -> bool:
        return self.file.checksum.matches(self.part)

    def _verify(self, url: str) -> None:
        found = self.file.checksum.of(self.part)
        if found != self.file.checksum:
            size = self._here()
            self.part.unlink()
            raise ChecksumError(
                f"{url} is not the published {self.file.name}: expected {self.file.checksum}, "
                f"found {found} ({size:,} bytes); nothing was kept. Try again or another address. "
                "If you trust this file all the same, fetch it with other means and put it into "
                f"{self.part.parent}; loading does not compare checksums"
            )

    def _too_large(self, url: str, what: str) -> SourceError:
        return _TooLargeError(
            f"{url} {what}, where {self.file.name} has at most {self.file.max_bytes:,}; "
            "it cannot be the published file"
        )

    @contextlib.contextmanager
    def _no_empty_part(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self.part.exists() and not self._here():
                self.part.unlink()

    @contextlib.contextmanager
    def _disk_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise disk_error(self.part, error) from error


def disk_error(path: Path, error: OSError) -> RunError:
    """What the system refused to do with a file of a download, as an error of a run."""
    return RunError(
        f"cannot write {path}: {error.strerror or error}; free some space, or choose a folder you "
        "may write to. What has been fetched so far is continued by the next call"
    )


def _check_status(url: str, response: Response, start: int) -> None:
    accepted = (200, 206, 416) if start else (200,)
    if response.status_code not in accepted:
        raise SourceError(
            f"{url} answers {response.status_code} {response.reason}, where "
            f"{' or '.join(map(str, accepted[:2]))} was expected"
        )


def _continues(response: Response, start: int) -> bool:
    """Whether the answer goes on at byte `start`; servers without ranges send the whole file."""
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return response.status_code == 206 and match is not None and int(match.group(1)) == start


def _reason(error: BaseException) -> str:
    """The innermost cause: requests wraps what happened several times."""
    inner: Any = error
    while inner.__cause__ or inner.__context__ or _wrapped(inner):
        inner = inner.__cause__ or inner.__context__ or _wrapped(inner)
    return str(inner) or type(inner).__name__


def _wrapped(error: BaseException) -> BaseException | None:
    first = error.args[0] if error.args else None
    return first if isinstance(first, BaseException) else None


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Refuse to write into a folder that another process downloads into.

    The folder itself is locked, so that no file is left behind.
    """
    if os.name != "posix":
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock_file(handle, wait=False)
        except BlockingIOError as error:
            raise RunError(
                f"another process is downloading into {folder}; wait until it has ended"
            ) from error
        yield
    finally:
        os.close(handle)
