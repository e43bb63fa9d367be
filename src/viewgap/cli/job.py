"""Which process of a fit on several is this one? Started by `launcher`, by torchrun, or by srun.

All of them run the same command. The first one (rank 0) prints and writes; the others are silent,
unless something went wrong that the first one does not know.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from viewgap.cli.output import say
from viewgap.errors import LostProcessesError, RunError, SettingError
from viewgap.interruption import without_notice

if TYPE_CHECKING:
    from viewgap.training.processes import ProcessGroup

# Set by `launcher` for its workers: the folder in which they leave the numbers of their processes.
LAUNCHER = "VIEWGAP_LAUNCHER"
# How a worker says that it only lost the others; its launcher knows more (EX_TEMPFAIL).
LOST_THE_OTHERS = 75
# How long a process that has failed waits to hear whether all the others failed alike.
AGREEMENT_SECONDS = 10.0

_TORCHRUN = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_FIRST_HOST = re.compile(r"([^,\[\]]+)(?:\[([0-9]+)[^\]]*\]([^,\[\]]*))?")


@dataclass(frozen=True)
class Job:
    """The place of this process among those that fit together.

    `environment`: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT as torchrun sets them.
    """

    rank: int
    size: int
    environment: Mapping[str, str]
    starter: str


def find_job(environ: Mapping[str, str]) -> Job | None:
    """The job that the environment tells of; None for a process that fits alone."""
    if "RANK" in environ or "WORLD_SIZE" in environ:
        return _torchrun_job(environ)
    if "SLURM_STEP_NUM_TASKS" in environ:
        return _slurm_job(environ)
    return None


def refuse_one_job(environ: Mapping[str, str], command: str, out: Path | None) -> None:
    """Refuse processes of one job for a command of many fits, which they do not share.

    Tasks of srun are several commands of the same words: with a folder `out` they share the fits.
    """
    share = f"several `viewgap {command}` with one --out DIR share the fits"
    size = environ.get("WORLD_SIZE", "")
    if "RANK" in environ and size.isdecimal() and int(size) > 1:
        raise SettingError(
            f"torchrun has started {size} processes, which share one fit, and `viewgap {command}` "
            f"makes many: start it without torchrun (what RANK and WORLD_SIZE in the environment "
            f"mean); {share}"
        )
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "")
    if out is None and tasks.isdecimal() and int(tasks) > 1 and "SLURM_PTY_PORT" not in environ:
        raise SettingError(
            f"srun has started {tasks} tasks, and each would make all fits of `viewgap {command}`: "
            f"give --out DIR ({share}), or start one task"
        )


def _torchrun_job(environ: Mapping[str, str]) -> Job:
    missing = [name for name in _TORCHRUN if not environ.get(name)]
    if missing:
        there = next(name for name in ("RANK", "WORLD_SIZE") if name in environ)
        raise SettingError(
            f"the environment has {there}, but no {', '.join(missing)}: torchrun sets all of them; "
            "to fit in this process alone, give --processes 1"
        )
    rank, size = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    _check_rank("RANK", rank, "WORLD_SIZE", size)
    given = {name: environ[name] for name in _TORCHRUN}
    given["LOCAL_RANK"] = str(_number(environ, "LOCAL_RANK") if "LOCAL_RANK" in environ else rank)
    return Job(rank, size, given, "viewgap" if LAUNCHER in environ else "torchrun")


def _slurm_job(environ: Mapping[str, str]) -> Job | None:
    size = _number(environ, "SLURM_STEP_NUM_TASKS")
    if size <= 1:
        return None
    alone = "to fit in this process alone, give --processes 1"
    if environ.get("SLURM_NTASKS", str(size)) != str(size):
        raise SettingError(
            f"Slurm says that this step has {size} tasks (SLURM_STEP_NUM_TASKS), and that it has "
            f"{environ['SLURM_NTASKS']} (SLURM_NTASKS): start the command with its own srun; "
            f"{alone}"
        )
    if "SLURM_PTY_PORT" in environ:
        raise SettingError(
            f"this is a shell that srun --pty opened as one of {size} tasks, and the others do not "
            f"run this command: start it with its own srun; {alone}"
        )
    rank = _number(environ, "SLURM_PROCID")
    _check_rank("SLURM_PROCID", rank, "SLURM_STEP_NUM_TASKS", size)
    # srun hands a task its own GPU, which is then the only one that it sees
    bound = "SLURM_GPUS_PER_TASK" in environ
    given = {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": "0" if bound else str(_number(environ, "SLURM_LOCALID")),
        "MASTER_ADDR": environ.get("MASTER_ADDR") or _slurm_host(environ),
        "MASTER_PORT": environ.get("MASTER_PORT") or _slurm_port(environ),
    }
    return Job(rank, size, given, "srun")


def _slurm_host(environ: Mapping[str, str]) -> str:
    names = ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    hosts = next((environ[name] for name in names if environ.get(name)), "")
    return first_host(hosts)


def first_host(hosts: str) -> str:
    """The first of a list of hosts as Slurm writes it.

    Examples
    --------
    >>> first_host("gpu[007-009,12],login")
    'gpu007'
    """
    found = _FIRST_HOST.match(hosts.strip())
    name = "" if found is None else "".join(part or "" for part in found.groups())
    rest = hosts.strip()[found.end() :] if found is not None else ""
    if not name or (rest and not rest.startswith(",")):
        raise SettingError(
            f"the first host of the job cannot be told from SLURM_JOB_NODELIST={hosts!r}; set "
            "MASTER_ADDR to the host of the task with SLURM_PROCID=0"
        )
    return name


def _slurm_port(environ: Mapping[str, str]) -> str:
    """The same port for all tasks of a step, and seldom that of another step."""
    job = _number(environ, "SLURM_JOB_ID")
    step = environ.get("SLURM_STEP_ID", "0")
    return str(20_000 + (7 * job + (int(step) if step.isdecimal() else 0)) % 10_000)


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ.get(name, "")
    if not text.isdecimal():
        raise SettingError(f"{name} must be a whole number from 0 on, found {text!r}")
    return int(text)


def _check_rank(name: str, rank: int, of: str, size: int) -> None:
    if rank >= size:
        raise SettingError(f"{name} must be below {of} ({size}), found {rank}")


# ------------------------------------------------------------------ the process in its job


@contextlib.contextmanager
def joined(job: Job | None, device: str, words: Sequence[str]) -> Iterator[ProcessGroup | None]:
    """Be a process of the job inside: in its group, and silent where another process speaks.

    What went wrong in all processes is said by the first one only.
    """
    if job is None:
        yield None
        return
    if device.startswith("cuda:"):
        raise SettingError(
            f"device {device}: {job.size} processes were started, each with a GPU of its own; "
            "leave it out, or give --device cpu"
        )
    launched = job.starter == "viewgap"
    if launched:
        _report_process()
    with contextlib.ExitStack() as stack:
        if launched or job.rank:
            stack.enter_context(without_notice())
        unmute = stack.enter_context(_muted(job.rank > 0))
        errors = None
        try:
            group = stack.enter_context(_meeting(job, device))
            errors = _group_of_errors(AGREEMENT_SECONDS)
            if not launched:
                _check_words(group, words)
            yield group
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            code = _code_without_words(job, errors, error)
            if code is not None:
                raise typer.Exit(code) from error
            unmute()
            if job.rank:
                say(f"process {job.rank} of {job.size}, on {socket.gethostname()}:")
            raise


def _code_without_words(job: Job, errors: Any, error: Exception) -> int | None:
    """The exit code where another process tells what went wrong; None where this one has to."""
    if job.starter == "viewgap" and isinstance(error, LostProcessesError):
        return LOST_THE_OTHERS
    alike = errors is not None and _failed_alike(errors, job.size, error)
    return 0 if alike and job.rank else None


@contextlib.contextmanager
def _meeting(job: Job, device: str) -> Iterator[ProcessGroup]:
    """The process group of the job; an error that names the place where nobody was met."""
    from viewgap.training.processes import process_group

    backend = "gloo" if device == "cpu" else None
    said = job.environment if job.starter == "srun" else None  # torchrun's is there already
    with contextlib.ExitStack() as stack:
        try:
            group = stack.enter_context(process_group(backend, environment=said))
        except LostProcessesError as error:
            address, port = job.environment["MASTER_ADDR"], job.environment["MASTER_PORT"]
            reason = str(error.__cause__).strip().partition("\n")[0][:200]
            raise RunError(
                f"{job.size} processes were to meet at {address}:{port}, and did not ({reason}): "
                "is every one of them running, does every host reach that one, and is the port "
                "free there (MASTER_PORT sets another)?"
            ) from error
        yield group


def _group_of_errors(seconds: float) -> Any:
    """A second group of the same processes, by which those that failed compare their errors."""
    import torch.distributed as dist

    return dist.new_group(backend="gloo", timeout=timedelta(seconds=seconds))


def _failed_alike(errors: Any, size: int, error: Exception) -> bool:
    """Whether the first process has failed with the same words, as far as can be heard in time."""
    import torch.distributed as dist

    own = f"{type(error).__name__}: {error}"
    found: list[Any] = [None] * size
    try:
        dist.all_gather_object(found, own, group=errors)
    except RuntimeError:  # some have not failed, or are gone
        return False
    return bool(found[0] == own)


def _check_words(group: ProcessGroup, words: Sequence[str]) -> None:
    """Refuse processes that were started to fit different things."""
    digest = hashlib.sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()
    found = group.gather_objects(digest)
    other = next((rank for rank, one in enumerate(found) if one != found[0]), None)
    if other is not None:
        raise SettingError(
            f"process {other} of {len(found)} was started with other words than process 0: the "
            "processes of one job fit one model, by the same command; for fits that have nothing "
            "to do with each other, give each --processes 1"
        )


def _report_process() -> None:
    """Tell the launcher the number of this process, and end with it, however it ends."""
    folder = Path(os.environ[LAUNCHER])
    if not folder.is_dir():  # the launcher was gone before this process began
        raise typer.Exit(LOST_THE_OTHERS)
    (folder / f"{os.getpid()}.pid").write_text(os.environ["RANK"])
    if sys.platform == "linux":
        import ctypes

        end_with_parent = 1  # PR_SET_PDEATHSIG
        ctypes.CDLL(None).prctl(end_with_parent, signal.SIGTERM, 0, 0, 0)


@contextlib.contextmanager
def _muted(enabled: bool) -> Iterator[Callable[[], None]]:
    """Nothing is printed inside, by no library either, until what is yielded is called."""
    if not enabled:
        yield lambda: None
        return
    kept = {number: os.dup(number) for number in (1, 2)}
    null = os.open(os.devnull, os.O_WRONLY)

    def unmute() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        while kept:
            number, copy = kept.popitem()
            os.dup2(copy, number)
            os.close(copy)

    for number in kept:
        os.dup2(null, number)
    os.close(null)
    try:
        yield unmute
    finally:
        unmute()
