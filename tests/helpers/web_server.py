"""A web server on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@contextmanager
def serve(handler: Any) -> Iterator[str]:
    """Yield the address of a server that answers by this class of request handlers."""
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    web.daemon_threads = True
    thread = threading.Thread(target=web.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}"
    web.shutdown()
    web.server_close()
    thread.join(timeout=10)


class Quiet(BaseHTTPRequestHandler):
    """Answers without a log."""

    def log_message(self, *_: Any) -> None:
        pass


class _Files(Quiet, SimpleHTTPRequestHandler):
    pass


def serve_folder(folder: Path) -> Any:
    """Return `serve` for the files of a folder."""
    return serve(partial(_Files, directory=str(folder)))
