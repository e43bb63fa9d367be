"""Kernels that can be compiled before they are launched, several at a time.

Triton compiles a kernel when it is first launched, for the types and some properties of its
arguments; the thirty kernels of a step, one after the other, take ten seconds. Inside
`compile_only`, what a thread launches is compiled by several others, and not launched.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import triton
from torch import Tensor

_THREADS = 8


def kernel(
    sizes: Sequence[str] = (), unaligned: Sequence[str] = ()
) -> Callable[[Callable[..., Any]], Kernel]:
    """Decorate a Triton function that is launched from Python.

    `sizes`: integers for which there is one kernel, whatever divides them; `unaligned`: pointers to
    a few numbers, often in the middle of a tensor, for which there is one wherever they point.
    """

    def decorate(function: Callable[..., Any]) -> Kernel:
        options = {"do_not_specialize": sizes, "do_not_specialize_on_alignment": unaligned}
        names = list(inspect.signature(function).parameters)
        return Kernel(triton.jit(**options)(function), [name in sizes for name in names])

    return decorate


class Kernel:
    """Launched as Triton's own: `kernel[grid](*arguments, **options)`.

    `any_size`: for which arguments there is one kernel, whatever they are.
    """

    def __init__(self, function: Any, any_size: Sequence[bool]) -> None:
        self.function = function
        self.any_size = any_size

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return partial(self._launch, grid)

    def compile(self, grid: Any, types: Sequence[Any], options: dict[str, Any]) -> None:
        """Compile it for such arguments: numbers, and number formats in place of tensors."""
        self.function.warmup(*types, grid=grid, **options)

    def _launch(self, grid: Any, *arguments: Any, **options: Any) -> None:
        compiler: _Compiler | None = getattr(_compilers, "active", None)
        if compiler is None:
            self.function[grid](*arguments, **options)
        else:
            compiler.submit(self, grid, arguments, options)


# ---------------------------------------------------------------------- ahead of the first launch

_compilers = threading.local()


class _Compiler:
    """Hands kernels to a pool of threads, each kind of arguments once."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._jobs: dict[Any, Future[Any]] = {}

    def submit(
        self, kernel: Kernel, grid: Any, arguments: Sequence[Any], options: dict[str, Any]
    ) -> None:
        """Have the kernel compiled for such arguments, and set all of them to zero.

        What was not computed must neither point outside of a tensor nor be NaN.
        """
        kinds = [_kind(*own) for own in zip(arguments, kernel.any_size, strict=False)]
        key = (id(kernel), *kinds, *options.items())
        if key not in self._jobs:
            types = [own.dtype if isinstance(own, Tensor) else own for own in arguments]
            self._jobs[key] = self._pool.submit(kernel.compile, grid, types, options)
        for own in arguments:
            if isinstance(own, Tensor) and own.is_contiguous():
                own.data.zero_()


def _kind(argument: Any, any_size: bool) -> Any:
    """What Triton makes kernels of their own for."""
    if isinstance(argument, Tensor):
        return argument.dtype
    if isinstance(argument, int) and not any_size:
        return argument == 1, argument % 16 == 0, argument >= 2**31
    return type(argument)


@contextmanager
def compile_only(device: torch.device) -> Iterator[None]:
    """Compile for this device what the calling thread launches inside, and do not launch it.

    Arguments, results among them, become zero. Ends when all is compiled; what could not be
    compiled is left to its first launch, which then tells why.
    """
    index = torch.cuda.current_device() if device.index is None else device.index
    with ThreadPoolExecutor(_THREADS, "viewgap-compile", torch.cuda.set_device, (index,)) as pool:
        _compilers.active = _Compiler(pool)
        try:
            yield
        finally:
            _compilers.active = None
