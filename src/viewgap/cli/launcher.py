"""`viewgap fit --gpus N`, `--processes N`, `--nodes M`: the processes, started and watched.

They are started by `torch.distributed.run`, with this interpreter and the words of this command.
Signals are handed on to them, and what one of them died of is said once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from viewgap.cli.job import LAUNCHER, LOST_THE_OTHERS, Job, find_job
from viewgap.cli.output import say
from viewgap.errors import RunError, SettingError
from viewgap.interruption import Interrupted, say_stopping

if TYPE_CHECKING:
    from viewgap.methods.base import MultiViewClassifier

# After the second signal processes end by themselves in an instant, unless something blocks them.
GRACE_SECONDS = 10.0
# How long hosts wait for one another in the beginning.
MEETING_SECONDS = 600
# Failures this close together have one cause: a process that was killed, and others that lost it.
_SAME_CAUSE_SECONDS = 5


@dataclass(frozen=True)
class ProcessOptions:
    """The options of `viewgap fit` that ask for several processes.

    `gpus`, `processes`: on every host; `nodes`: hosts; `node_rank`: the number of this one;
    `rendezvous`: HOST:PORT of the host with number 0.
    """

    gpus: int | None = None
    processes: int | None = None
    nodes: int | None = None
    node_rank: int | None = None
    rendezvous: str | None = None

    @property
    def per_host(self) -> int:
        """Processes on every host."""
        return self.gpus or self.processes or 1

    @property
    def several(self) -> bool:
        """Whether there is anything to start."""
        return self.per_host > 1 or (self.nodes or 1) > 1

    @property
    def given(self) -> bool:
        """Whether the command line says how many processes there are."""
        return any(value is not None for value in (self.gpus, self.processes, self.nodes))

    def job(self, environ: Mapping[str, str]) -> Job | None:
        """The job that this process is part of already; None where it is alone so far."""
        self._check()
        job = None if self._is_alone() else find_job(environ)
        if job is not None and job.starter != "viewgap" and self.given:
            raise SettingError(
                f"{job.starter} has started {job.size} processes of this fit already: leave out "
                "--gpus, --processes and --nodes"
            )
        if job is None:
            self._check_gpus()
        return job

    def _is_alone(self) -> bool:
        return self.given and not self.several

    def _check(self) -> None:
        """Refuse options that do not go together."""
        if self.gpus is not None and self.processes is not None:
            raise SettingError(
                "--gpus N trains on N GPUs, --processes N on the CPU by N processes: give one"
            )
        if (self.nodes or 1) == 1:
            unused = {"--node-rank": self.node_rank, "--rendezvous": self.rendezvous}
            for option, value in unused.items():
                if value is not None:
                    raise SettingError(f"{option} is for several hosts: give --nodes M, too")
            return
        if self.gpus is None and self.processes is None:
            raise SettingError(
                "--nodes M also needs to know the processes on every host: --gpus N or "
                "--processes N"
            )
        if self.node_rank is None or self.rendezvous is None:
            raise SettingError(
                "--nodes M needs --rendezvous HOST:PORT, the host with number 0 and a free port "
                "there, and --node-rank K, the number of this host: run the same command on every "
                "host, with K from 0 on (srun does without: see the documentation)"
            )
        if self.node_rank >= (self.nodes or 1):
            raise SettingError(
                f"--node-rank must be below --nodes ({self.nodes}), found {self.node_rank}"
            )
        host, colon, port = self.rendezvous.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 2**16:
            raise SettingError(f"--rendezvous must be HOST:PORT, found {self.rendezvous!r}")

    def _check_gpus(self) -> None:
        """Refuse more GPUs than this host has."""
        if self.gpus is None:
            return
        import torch

        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise SettingError(
                f"--gpus {self.gpus}, but this machine has no CUDA device; leave it out, or train "
                f"on the CPU with --processes {self.gpus}"
            )
        if self.gpus > count:
            raise SettingError(
                f"--gpus {self.gpus}, but this machine has {count}; give --gpus {count}"
            )

    def with_device(self, params: dict[str, Any], method: str) -> dict[str, Any]:
        """The parameters of a method with the device that these options mean."""
        if self.gpus is None and self.processes is None:
            return params
        kind = "cuda" if self.processes is None else "cpu"
        option = "--gpus" if kind == "cuda" else "--processes"
        device = params.get("device")
        if device is not None and device != kind:
            raise SettingError(
                f"{option} trains on device {kind}, and the device is to be {device!r}: leave one "
                "of them out"
            )
        if self.per_host == 1 and (self.nodes or 1) == 1 and kind == "cpu" and device is None:
            return params  # --processes 1 only says that this process is alone
        from viewgap import methods

        takes_it = "device" in methods.get(method)._get_param_names()
        if kind == "cuda" and not takes_it:
            raise SettingError(f"--gpus: {method} computes on the CPU only; leave it out")
        return params | {"device": kind} if takes_it else params


def check_method(model: MultiViewClassifier, method: str) -> None:
    """Refuse methods that several processes could only repeat."""
    if model._shares_fit:
        return
    raise SettingError(
        "several processes share the batches of a network or the members of the ensemble; "
        f"{method} computes in one process, by threads: choose a network (--method scsd) or the "
        "ensemble, or give --processes 1"
    )


def launch(options: ProcessOptions, words: Sequence[str], go_on: str | None) -> int:
    """Run `viewgap` with these words in all processes of this host; the exit code.

    `go_on`: the command line that goes on from the checkpoint of the fit, if it has one.
    """
    with tempfile.TemporaryDirectory(prefix="viewgap-") as name:
        folder = Path(name)
        agent = _Agent(_arguments(options, folder, words))
        with _environment(_variables(options, folder)), _handed_on(folder) as signals:
            agent.start()
            while agent.is_alive():
                agent.join(0.1)
                signals.end_those_left()
    return _exit_code(agent, options, go_on)


class _Agent(threading.Thread):
    """`torch.distributed.run` in a thread: the main one listens to signals."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(daemon=True)
        self._arguments = arguments
        self.error: BaseException | None = None

    def run(self) -> None:
        from torch.distributed.run import parse_args, run

        # What it has to say is said once more below, in words of this command.
        logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
        try:
            run(parse_args(self._arguments))
        except BaseException as error:  # also SystemExit, of its parser
            self.error = error


def _arguments(options: ProcessOptions, folder: Path, words: Sequence[str]) -> list[str]:
    """The words of `torch.distributed.run`."""
    if (options.nodes or 1) == 1:
        meeting = ["--standalone", "--local-addr=127.0.0.1"]
    else:
        host, _, port = (options.rendezvous or "").rpartition(":")
        meeting = [
            f"--nnodes={options.nodes}",
            f"--node-rank={options.node_rank}",
            f"--master-addr={host}",
            f"--master-port={port}",
            f"--rdzv-conf=timeout={MEETING_SECONDS}",
        ]
    return [
        *meeting,
        f"--nproc-per-node={options.per_host}",
        "--max-restarts=0",
        f"--log-dir={folder}",
        "--no-python",
        sys.executable,
        "-P",
        "-m",
        "viewgap",
        *words,
    ]


def _variables(options: ProcessOptions, folder: Path) -> dict[str, str]:
    """The environment of the processes, where it is not set yet."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    threads = max(1, cores // options.per_host)
    found = {"OMP_NUM_THREADS": str(threads), "TORCH_CPP_LOG_LEVEL": "ERROR"}
    if (options.nodes or 1) == 1 and sys.platform == "linux":
        found["GLOO_SOCKET_IFNAME"] = "lo"  # no name of the host needs to be known
    given = {name: value for name, value in found.items() if name not in os.environ}
    return given | {LAUNCHER: str(folder)}


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


class _Signals:
    """Ctrl-C and SIGTERM on their way to the processes of this host."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count, self._last = 0, 0.0

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The first signal stops after the epoch, the second at once, a third kills."""
        if not self._processes():
            raise Interrupted(number)  # they have not begun
        self._count, self._last = self._count + 1, time.monotonic()
        if self._count == 1:
            say_stopping()
        self._send(number if self._count < 3 else signal.SIGKILL)

    def end_those_left(self) -> None:
        """Kill what the second signal has not ended in time."""
        if self._count >= 2 and time.monotonic() - self._last > GRACE_SECONDS:
            self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        for process in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _processes(self) -> list[int]:
        return [int(path.stem) for path in self._folder.glob("*.pid")]


@contextlib.contextmanager
def _handed_on(folder: Path) -> Iterator[_Signals]:
    """Hand signals on inside; those that this process ignores (nohup) stay ignored."""
    signals = _Signals(folder)
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    heard = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, signals.handle)
    try:
        yield signals
    finally:
        for number in heard:
            signal.signal(number, before[number])


def _exit_code(agent: _Agent, options: ProcessOptions, go_on: str | None) -> int:
    """What the processes ended with; a RunError where one of them could not say why it ended."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if agent.error is None:
        return 0
    if not isinstance(agent.error, ChildFailedError):
        reason = str(agent.error).strip().partition("\n")[0][:200] or type(agent.error).__name__
        where = f" at {options.rendezvous}" if options.rendezvous else ""
        raise RunError(
            f"the processes could not be started{where} ({reason}); does every host reach that "
            "one, and is the port free there?"
        ) from agent.error
    total = options.per_host * (options.nodes or 1)
    return code_of_failures(agent.error.failures, total, go_on, not options.node_rank)


def code_of_failures(
    failures: Mapping[int, Any], total: int, go_on: str | None, first_is_here: bool = False
) -> int:
    """The exit code of a fit of which these processes failed, by rank.

    Of failures that came together, a signal is the cause, and then what has said why; processes
    that only lost the others, or were stopped because of them, tell nothing. What comes after
    process 0 has ended well, here, is too late to harm.
    """
    first = min(failure.timestamp for failure in failures.values())
    together = [
        (rank, failure)
        for rank, failure in sorted(failures.items())
        if failure.timestamp - first <= _SAME_CAUSE_SECONDS
    ]
    how = (
        f"to go on: {go_on}"
        if go_on
        else "nothing was saved; with --checkpoint DIR a fit can go on by --resume, also with "
        "another number of processes"
    )
    for rank, failure in together:
        if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:
            name = signal.Signals(-failure.exitcode).name
            process = f"process {rank} of {total} (pid {failure.pid}) was ended by {name}"
            if first_is_here and 0 not in failures:
                say(f"{process} after the model was saved")
                return 0
            if name == "SIGKILL":
                process += " (the system ends so what asks for more memory than there is)"
            raise RunError(f"{process}, and the others were stopped; {how}")
    codes = [failure.exitcode for _, failure in together if failure.exitcode > 0]
    told = [code for code in codes if code not in (LOST_THE_OTHERS, 128 + signal.SIGTERM)]
    if told:
        return int(told[0])
    if LOST_THE_OTHERS in codes:
        raise RunError(
            "a process of this fit on another host has ended, or cannot be reached: see there; "
            f"{how}"
        )
    return 128 + signal.SIGTERM
