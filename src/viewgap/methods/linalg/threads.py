"""One thread for small systems of equations."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401  its library must be loaded before the libraries are looked for
from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """While it is open, NumPy and SciPy multiply and solve on one thread.

    Two threads wait for each other in small systems: on a busy machine 20 times as long.
    """
    limits: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limits


@cache
def _libraries() -> ThreadpoolController:
    # To look for them reads all of what the process has loaded: as long as a small fit.
    return ThreadpoolController()
