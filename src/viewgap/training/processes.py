"""The processes that train one model together: torch's process group, as `torchrun` sets it up.

Every process runs the same program on the same data. Inside `process_group()` an estimator's `fit`
finds the group by `current_processes()` and trains on its part of every batch; the fitted model is
that of one process, on every process. Outside of it nothing here does anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from viewgap.errors import SettingError
from viewgap.nn.reduce import collective

BACKENDS = ("gloo", "nccl")
COMMITTEE = ("auto", "deal", "share")
TIMEOUT = 600.0
"""Seconds that a process waits for the others; the first step compiles kernels meanwhile."""

_LONGEST = timedelta(days=7)  # that whole members of an ensemble may take
_LOOK_SECONDS = 0.05
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class ProcessGroup:
    """This process among those that train together.

    `rank` of `world_size`; `device`: the one that `device="auto"` means here, "cuda:1" for the
    second process of a machine; on a CPU "cpu". `committee`: see `process_group`.
    """

    rank: int
    world_size: int
    device: torch.device
    committee: str = "auto"

    @property
    def is_main(self) -> bool:
        """Whether this is the process that writes files and shows progress."""
        return self.rank == 0

    def barrier(self) -> None:
        """Wait until every process is here."""
        self.gather_objects(None)

    def broadcast_object(self, value: Any, source: int = 0) -> Any:
        """Return what process `source` passed; it is pickled."""
        box = [value if self.rank == source else None]
        with collective():
            dist.broadcast_object_list(box, src=source, device=self.device)
        return box[0]

    def on_main(self, function: Callable[[], Any]) -> Any:
        """Call a function on the first process alone; all get its result, or raise its error."""
        found: tuple[Any, Exception | None] = (None, None)
        if self.is_main:
            try:
                found = (function(), None)
            except Exception as error:
                found = (None, error)
        result, raised = self.broadcast_object(found)
        if raised is not None:
            raise raised
        return result

    def deals_out(self, n_networks: int) -> bool:
        """Whether each of so many networks is trained by one process."""
        if self.world_size == 1 or n_networks == 1 or self.committee == "share":
            return False
        return self.committee == "deal" or n_networks >= self.world_size

    def any(self, value: bool) -> bool:
        """Whether it is true on any process."""
        return bool(self.sum(torch.tensor(float(value))) > 0)

    @torch.no_grad()
    def broadcast_all(self, tensors: Sequence[torch.Tensor], source: int = 0) -> None:
        """Overwrite tensors by those of process `source`, to the bit; a message for every dtype."""
        for dtype in dict.fromkeys(own.dtype for own in tensors):
            alike = [own for own in tensors if own.dtype == dtype]
            flat = torch.cat([own.detach().reshape(-1) for own in alike]).to(self.device)
            with collective():
                dist.broadcast(flat.view(torch.uint8), source)
            if self.rank == source:
                continue
            for own, part in zip(alike, flat.split([n.numel() for n in alike]), strict=True):
                own.copy_(part.view(own.shape))

    def gather_objects(self, value: Any) -> list[Any]:
        """Return what every process passed, in the order of their ranks; it is pickled."""
        found: list[Any] = [None] * self.world_size
        with collective():
            dist.all_gather_object(found, value)
        return found

    @contextmanager
    def long_wait(self) -> Iterator[Callable[[], None]]:
        """A `barrier` after work of any length, that differs between the processes.

        A process that is gone ends it, and so does a signal that raises.
        """
        with collective():
            others = dist.new_group(backend="gloo", timeout=_LONGEST)

        def wait() -> None:
            with collective():
                work = dist.barrier(others, async_op=True)
                while not work.is_completed():
                    time.sleep(_LOOK_SECONDS)
                work.wait()

        try:
            yield wait
        finally:
            dist.destroy_process_group(others)

    def sum(self, value: torch.Tensor) -> torch.Tensor:
        """Return `value` added up over the processes; no gradient."""
        total = value.detach().to(self.device).clone(memory_format=torch.contiguous_format)
        with collective():
            dist.all_reduce(total)
        return total.to(value.device)


class _Here:
    """What is so for all threads of this process."""

    committee = "auto"
    alone = 0


@contextmanager
def alone() -> Iterator[None]:
    """Work inside takes no notice of the other processes, in any of its threads."""
    _Here.alone += 1
    try:
        yield
    finally:
        _Here.alone -= 1


@contextmanager
def dealt_committees() -> Iterator[None]:
    """The networks of committees are dealt out inside, as with `committee="deal"`."""
    before = _Here.committee
    _Here.committee = "deal"
    try:
        yield
    finally:
        _Here.committee = before


def current_processes() -> ProcessGroup | None:
    """The process group that this process is in, None if it is alone."""
    if _Here.alone or not dist.is_available() or not dist.is_initialized():
        return None
    device = torch.device("cpu")
    if dist.get_backend() == "nccl":
        device = torch.device("cuda", torch.cuda.current_device())
    return ProcessGroup(dist.get_rank(), dist.get_world_size(), device, _Here.committee)


def is_main_process() -> bool:
    """Whether this process writes files and shows progress: it is alone, or the first one."""
    group = current_processes()
    return group is None or group.is_main


def agreed(function: Callable[[], Any]) -> Any:
    """What the function says on the first process; all of them call it."""
    group, value = current_processes(), function()
    return value if group is None else group.broadcast_object(value)


def any_process(value: bool) -> bool:
    """Whether it is true on any process: what one has seen, a signal or the time, is for all."""
    group = current_processes()
    return value if group is None else group.any(value)


@contextmanager
def process_group(
    backend: str | None = None,
    *,
    timeout: float = TIMEOUT,
    committee: str = "auto",
    environment: Mapping[str, str] | None = None,
) -> Iterator[ProcessGroup]:
    """Join the processes that the environment names, and leave them at the end.

    Parameters
    ----------
    backend : "gloo" or "nccl", optional
        What the processes talk by; None: NCCL where there is a GPU, else gloo.
    timeout : float
        Seconds to wait for the others, in the beginning and in every step.
    committee : "auto", "deal" or "share"
        How the networks of a committee are trained: each by one process on whole batches, or all
        by all processes, each of which has a part of every batch. "auto": dealt out where every
        process gets a network.
    environment : mapping, optional
        Where RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and (for the GPU) LOCAL_RANK are looked up;
        None: os.environ, where `torchrun` puts them.
    """
    given = os.environ if environment is None else environment
    if current_processes() is not None:
        raise SettingError("this process is in a process group already; leave that one first")
    rank, world_size, local_rank = _ranks(given)
    backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
    if backend not in BACKENDS:
        raise SettingError(f"backend must be one of {', '.join(BACKENDS)}, not {backend!r}")
    if committee not in COMMITTEE:
        raise SettingError(f"committee must be one of {', '.join(COMMITTEE)}, not {committee!r}")
    if backend == "nccl":
        _choose_gpu(local_rank)
    address = f"tcp://{given['MASTER_ADDR']}:{given['MASTER_PORT']}"
    if "://" in given["MASTER_ADDR"]:  # a file, for processes of one machine without a port
        address = given["MASTER_ADDR"]
    with collective():
        if environment is None and address.startswith("tcp"):
            address = "env://"  # lets torchrun's own store be used, where it is the server
        dist.init_process_group(
            backend,
            init_method=address,
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=timeout),
        )
    _Here.committee = committee
    try:
        group = current_processes()
        assert group is not None  # noqa: S101  (it was made three lines above)
        yield group
    finally:
        _Here.committee = "auto"
        dist.destroy_process_group()


def _ranks(given: Mapping[str, str]) -> tuple[int, int, int]:
    """RANK, WORLD_SIZE and LOCAL_RANK, checked."""
    missing = [name for name in _VARIABLES if not given.get(name)]
    if missing:
        raise SettingError(
            f"{', '.join(missing)} not set: a process group needs {', '.join(_VARIABLES)} in the "
            "environment; start the program with torchrun, which sets them"
        )
    numbers = []
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        text = given.get(name, "0" if name == "LOCAL_RANK" else "")
        if not text.isdecimal():
            raise SettingError(f"{name} must be a whole number from 0 on, not {text!r}")
        numbers.append(int(text))
    rank, world_size, local_rank = numbers
    if rank >= world_size:
        raise SettingError(f"RANK must be below WORLD_SIZE ({world_size}), found {rank}")
    return rank, world_size, local_rank


def _choose_gpu(local_rank: int) -> None:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if local_rank >= count:
        raise SettingError(
            f"process {local_rank} of this machine (LOCAL_RANK) needs a GPU of its own, but the "
            f"machine has {count}; start at most {count} processes, or use the backend gloo"
        )
    torch.cuda.set_device(local_rank)
