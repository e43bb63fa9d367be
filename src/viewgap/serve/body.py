"""Reading a body: never more of it than allowed, and never for longer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from viewgap.serve.settings import RequestError, ServiceSettings, busy

if TYPE_CHECKING:
    from fastapi import Request

JSON = "application/json"
# Nothing more is read from such a connection, so it cannot be used again.
_CLOSE = {"Connection": "close"}


class BodyReader:
    """Reads the bodies of a service, and knows how much of them is in memory."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._held = 0

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts as held while the context lasts."""
        self._check_length(request.headers.get("content-length"))
        chunks: list[bytes] = []
        try:
            # Read even if its kind is refused: a client whose bytes were left unread may never see
            # the answer, for the connection ends with them.
            await self._fill(request, chunks)
            if request.headers.get("content-encoding", "identity") != "identity":
                raise RequestError("bodies are taken without Content-Encoding", status=415)
            yield b"".join(chunks)
        finally:
            self._held -= sum(map(len, chunks))

    async def _fill(self, request: Request, chunks: list[bytes]) -> None:
        size = 0
        try:
            async with asyncio.timeout(self._settings.timeout):
                async for chunk in request.stream():
                    size += len(chunk)
                    self._held += len(chunk)
                    chunks.append(chunk)
                    self._check_size(size)
        except TimeoutError:
            seconds = f"{self._settings.timeout:g} seconds"
            raise RequestError(
                f"the body did not arrive within {seconds}", status=408, headers=_CLOSE
            ) from None

    def _check_length(self, stated: str | None) -> None:
        if stated is None:
            return
        if not stated.isascii() or not stated.isdigit():
            raise RequestError("Content-Length must be a whole number", headers=_CLOSE)
        # Compared as text first: int() of a very long one is refused by Python.
        if len(stated) > 18 or int(stated) > self._settings.max_body:
            raise self._too_large()

    def _check_size(self, size: int) -> None:
        if size > self._settings.max_body:
            raise self._too_large()
        if self._held > self._settings.max_held:
            error = busy("the bodies of other requests fill the memory; try again")
            error.headers.update(_CLOSE)
            raise error

    def _too_large(self) -> RequestError:
        most = f"{self._settings.max_body:,} bytes"
        words = f"the body is larger than {most}; send several requests"
        return RequestError(words, status=413, headers=_CLOSE)


def content_type(request: Request, known: Sequence[str] = (JSON,)) -> str:
    """The kind of body that a request states; `RequestError` 415 for another one."""
    stated = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if stated not in known:
        message = f"Content-Type must be {' or '.join(known)}, found {stated[:60]!r}"
        raise RequestError(message, status=415)
    return stated


def accepted(request: Request, known: Sequence[str], usual: str) -> str:
    """The kind of answer that a request asks for by `Accept`; `usual` where any will do."""
    best, most = "", 0.0
    for item in request.headers.get("accept", "*/*").split(","):
        kind, *parameters = (part.strip().lower() for part in item.split(";"))
        found = usual if kind in ("*/*", "application/*") else kind
        weight = _weight(parameters)
        if found in known and weight > most:
            best, most = found, weight
    if not best:
        raise RequestError(f"answers are {' or '.join(known)}", "Accept", 406)
    return best


def _weight(parameters: Sequence[str]) -> float:
    stated = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    try:
        return float(stated)
    except ValueError:
        return 0.0
