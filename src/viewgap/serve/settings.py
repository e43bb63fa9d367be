"""The limits of a service, and the error that a request is answered with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from viewgap.constraints import Integer, Real
from viewgap.constraints import check as check_value
from viewgap.errors import RunError, SettingError, printable

_VALUES_PER_BODY = 8  # bytes that the values of a request may take, in bodies


@dataclass(frozen=True)
class ServiceSettings:
    """What a service allows.

    Parameters
    ----------
    token : str, optional
        What `Authorization: Bearer ...` must hold; without it, everybody who reaches the port is
        answered.
    max_body : int
        Largest body in bytes; a larger one is answered with 413.
    max_rows : int
        Most rows in one request.
    max_predictions : int
        Most predictions for one request to `/explain`: 2**k for a row with k views.
    timeout : float
        Seconds for reading a body, and again for answering it.
    queue : int
        Most requests that wait for one model; more are answered with 503.
    reload_interval : float
        Seconds between two looks at the model folders.

    Examples
    --------
    >>> ServiceSettings(max_rows=100).rows_of(n_values=20_000)
    100
    >>> ServiceSettings(max_rows=10_000).rows_of(n_values=20_000)
    838
    """

    token: str | None = None
    max_body: int = 16 * 2**20
    max_rows: int = 10_000
    max_predictions: int = 20_000
    timeout: float = 30.0
    queue: int = 128
    reload_interval: float = 1.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "token":
                kind = Real(0, None, "right") if field.type == "float" else Integer(1)
                check_value(field.name, kind, getattr(self, field.name))
        right = isinstance(self.token, str) and self.token.isascii() and self.token.strip()
        if self.token is not None and not right:
            raise SettingError("token must be ASCII text that is not blank")

    @property
    def max_held(self) -> int:
        """Bytes of all bodies together that may be in memory."""
        return _VALUES_PER_BODY * self.max_body

    def rows_of(self, n_values: int) -> int:
        """Most rows of a request whose rows become `n_values` numbers.

        A short body can stand for many rows, of views that are null; this bounds their memory.
        """
        return max(1, min(self.max_rows, _VALUES_PER_BODY * self.max_body // (8 * n_values)))


class RequestError(Exception):
    """A request that is answered with an error: an HTTP status, and what was expected and found.

    `field` says where in the request, as in `rows[0].views.genes`.
    """

    def __init__(
        self,
        message: str,
        field: str = "",
        status: int = 400,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.field = printable(message), printable(field)
        self.status, self.headers = status, dict(headers or {})


def busy(message: str) -> RequestError:
    """503: the request can be sent again a little later."""
    return RequestError(message, status=503, headers={"Retry-After": "1"})


def require_fastapi() -> None:
    """RunError where FastAPI or uvicorn is not installed."""
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise RunError(
            "the service needs the packages fastapi and uvicorn: pip install 'viewgap[serve]'"
        ) from None
