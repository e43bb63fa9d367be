"""Small systems are solved on one thread, and nothing else is."""

from __future__ import annotations

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from viewgap.methods.linalg.threads import one_blas_thread


def blas_threads() -> set[int]:
    return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_one_thread_inside_and_as_many_as_before_outside() -> None:
    with threadpool_limits(2, user_api="blas"):
        for _ in range(2):  # the second time the libraries are known already
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {2}
        with pytest.raises(ZeroDivisionError), one_blas_thread():
            raise ZeroDivisionError
        assert blas_threads() == {2}
