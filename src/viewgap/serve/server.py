"""The process around the application: uvicorn on one socket, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

from viewgap.errors import RunError
from viewgap.serve.settings import ServiceSettings

_BACKLOG = 512


def run_server(
    app: Any,
    settings: ServiceSettings,
    host: str = "127.0.0.1",
    port: int = 8000,
    on_start: Callable[[str, int], None] | None = None,
) -> None:
    """Serve an application until SIGTERM or SIGINT, and finish running requests then.

    Parameters
    ----------
    app : FastAPI
        What `create_app` returned.
    settings : ServiceSettings
        Its limits.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    on_start : callable, optional
        Called with host and port once connections are accepted.
    """
    import uvicorn

    listening = _listen(host, port)
    config = uvicorn.Config(
        app,
        http=_protocol(settings.timeout),
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=int(settings.timeout) + 1,
    )

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Signals end the service in order; they are its usual end and not raised again."""
            if threading.current_thread() is not threading.main_thread():
                yield
                return
            kinds = (signal.SIGINT, signal.SIGTERM)
            before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
            try:
                yield
            finally:
                for kind, handler in before.items():
                    signal.signal(kind, handler)

    if on_start is not None:
        on_start(*listening.getsockname()[:2])
    with listening:
        asyncio.run(Server(config).serve(sockets=[listening]))


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # With the protocol named, asyncio switches off Nagle's algorithm: else an answer waits for
        # the client to acknowledge its head, 40 ms.
        listening = socket.socket(found[0], found[1], socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(found[4])
        listening.listen(_BACKLOG)
    except (OSError, OverflowError) as error:
        raise RunError(f"cannot listen on {host} port {port}: {error}") from error
    return listening


def _protocol(timeout: float) -> Any:
    """HTTP/1.1 of uvicorn, with a limit for headers that never end."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class LimitedProtocol(H11Protocol):
        _headers_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._headers_timer = self.loop.call_later(timeout, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            between = self.cycle is None or self.cycle.response_complete
            if between and self._headers_timer is None:
                self._headers_timer = self.loop.call_later(timeout, self.transport.close)
            elif not between:
                self._stop_timer()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(exc)

        def _stop_timer(self) -> None:
            if self._headers_timer is not None:
                self._headers_timer.cancel()
                self._headers_timer = None

    return LimitedProtocol
