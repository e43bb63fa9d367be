"""A web server on this machine that behaves well, or badly on purpose."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from web_server import Quiet, serve


@dataclass
class FileServer:
    """Serves `files`; the other fields say what goes wrong.

    `breaks` holds, for one request after the other, after how many bytes of its body the
    connection is closed; `claims` is a Content-Length that is not true. With `stall`, half of a
    body is sent, and the rest not before the event is set.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    breaks: list[int] = field(default_factory=list)
    claims: int | None = None
    announces: bool = True
    status: int = 200
    shift: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    stall: threading.Event | None = None
    url: str = ""

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name, wanted = request.path.lstrip("/"), request.headers.get("Range")
        self.asked.append((name, wanted))
        if name not in self.files or self.status != 200:
            request.send_error(404 if self.status == 200 else self.status)
            return
        body, start = self.files[name], 0
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                request.send_response(416)
                request.send_header("Content-Range", f"bytes */{len(body)}")
                request.end_headers()
                return
            request.send_response(206)
            first = start + self.shift
            request.send_header("Content-Range", f"bytes {first}-{len(body) - 1}/{len(body)}")
        else:
            request.send_response(200)
        rest = body[start:]
        if self.announces:
            request.send_header("Content-Length", str(self.claims or len(rest)))
        for key, value in self.headers.items():
            request.send_header(key, value)
        request.end_headers()
        if self.stall is not None:
            request.wfile.write(rest[: len(rest) // 2])
            self.stall.wait(timeout=60)
            return
        request.wfile.write(rest[: self.breaks.pop(0)] if self.breaks else rest)


@pytest.fixture
def server() -> Iterator[FileServer]:
    """A running server without files."""
    state = FileServer()

    class Handler(Quiet):
        def do_GET(self) -> None:
            state.answer(self)

    with serve(Handler) as state.url:
        yield state
