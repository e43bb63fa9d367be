"""A service in a thread, of a model with names made to break a page; its folder is a fixture."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from viewgap.serve import ServiceSettings, create_app

NASTY = "<img src=x onerror=alert(1)> \"q\" 'é' &amp; " + "long " * 12
LABELS = [NASTY, "__proto__", "constructor", "10", "2", "<script>alert(2)</script>"]
COLUMNS = {
    NASTY: ["one, two", 'quoted "name"', "a:b"],
    "__proto__": ["toString", "<b>bold</b>"],
    "plain": ["p1", "p2", "p3"],
}


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[str]:
    """The service in a thread of this process, on a free port of 127.0.0.1; its address."""
    uvicorn = pytest.importorskip("uvicorn")
    app = create_app(
        [folder / "nasty"], ServiceSettings(**settings), {"nasty": folder / "sets.json"}
    )
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, loop="asyncio"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 60
    while not server.started:
        assert thread.is_alive()
        assert time.monotonic() < end
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=60)
    assert not thread.is_alive()
