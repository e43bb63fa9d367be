"""Array jobs of Slurm: every job of the array is one runner on the folder of the records.

Nothing is dealt out beforehand. The jobs claim tasks as runners on one machine do (`claims`), so
that a job that starts late, or is killed, loses nothing. The script says what it does and can be
submitted by hand; what a path may hold (blanks, quotes, `$`) is quoted for the shell, and no path
stands in a line of `#SBATCH`, which Slurm reads by rules of its own.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewgap.bench.results.journal import append_line, read_lines
from viewgap.bench.results.record import RECORDS
from viewgap.errors import RunError, SettingError
from viewgap.fsio import lock_file, make_folder, write_file

FOLDER = "slurm"
SCRIPT, SUBMITTED = "array.sh", "submitted.jsonl"
# A run ends by itself at its time limit. Starting it and writing what it leaves take longer.
SPARE_MINUTES = 10
SUBMIT_SECONDS = 120.0

# Variables of viewgap that say where data are and how large a file may be; no others are written.
_VARIABLES = ("VIEWGAP_DATA", "VIEWGAP_MAX_FILE_BYTES")
_KEY = re.compile(r"[a-z][a-z0-9-]*")
_VALUE = re.compile(r"[^\s\"'\\#]+")
_ARRAY = re.compile(r"([1-9][0-9]{0,5})(?:%([1-9][0-9]{0,5}))?")
_JOB = re.compile(r"([0-9]+)(?:;(\S+))?")
_OWN = {
    "array": "--array",
    "time": "--time-limit",
    "output": "the option --out, which holds the logs",
    "error": "the option --out, which holds the logs",
    "parsable": "this command itself",
    "wrap": "this command itself",
}
_LOCAL_LOCKS = {"nolock", "noflock", "localflock", "local_lock=all", "local_lock=flock"}


@dataclass(frozen=True)
class ArraySize:
    """How many jobs an array has, and how many of them Slurm may run at the same time."""

    jobs: int
    at_once: int | None = None

    @classmethod
    def parse(cls, text: str) -> ArraySize:
        """From `8`, or `100%10`: ten at the same time.

        Examples
        --------
        >>> ArraySize.parse("100%10")
        ArraySize(jobs=100, at_once=10)
        """
        found = _ARRAY.fullmatch(text.strip())
        if found is None:
            raise SettingError(
                f"--array must be a number of jobs such as 8, or 100%10 for ten at the same time; "
                f"found {text!r}"
            )
        return cls(int(found[1]), None if found[2] is None else int(found[2]))

    def at_most(self, jobs: int) -> ArraySize:
        """The same, with no more jobs than can have something to do."""
        return ArraySize(max(1, min(self.jobs, jobs)), self.at_once)

    def __str__(self) -> str:
        limit = "" if self.at_once is None else f"%{self.at_once}"
        return f"0-{self.jobs - 1}{limit}"


def parse_options(texts: Sequence[str]) -> dict[str, str]:
    """Options of sbatch from `key=value`, or `key` for a switch; refused where one is not safe.

    Examples
    --------
    >>> parse_options(["partition=gpu", "gres=gpu:1", "exclusive"])
    {'partition': 'gpu', 'gres': 'gpu:1', 'exclusive': ''}
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.strip().partition("=")
        key = key.removeprefix("--")
        if not _KEY.fullmatch(key):
            raise SettingError(
                f"--sbatch must be key=value with a long option of sbatch, such as partition=gpu; "
                f"found {text!r}"
            )
        if equals and not _VALUE.fullmatch(value):
            raise SettingError(
                f"--sbatch {key}: a value without blanks, quotes, backslashes and #, which Slurm "
                f"would read in its own way; found {value!r}"
            )
        if key in _OWN:
            raise SettingError(f"--sbatch {key}: this is set by {_OWN[key]}")
        if key in found:
            raise SettingError(f"--sbatch {key} is given twice")
        found[key] = value
    return found


def array_script(
    command: Sequence[Sequence[str]],
    array: ArraySize,
    seconds: float | None,
    options: Mapping[str, str],
    environment: Mapping[str, str],
) -> str:
    """The text of a script of which every array job runs viewgap with `command`.

    `command` are the words, those of a line together.
    """
    directives = {"job-name": "viewgap", "array": str(array)}
    if seconds is not None:
        directives["time"] = str(math.ceil(seconds / 60) + SPARE_MINUTES)
    directives |= options
    lines = [
        f"#SBATCH --{key}" + (f"={value}" if value else "") for key, value in directives.items()
    ]
    program = [sys.executable, "-P", "-m", "viewgap"]
    words = [[*program, *command[0]], *command[1:]]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in environment.items()]
    return "\n".join(
        [
            "#!/bin/bash",
            "# Written by viewgap bench submit. Every job of the array does tasks that no other",
            "# job has claimed, and that have no record yet: submit it again to go on.",
            "# shellcheck disable=SC2016  # a $ in a path is a $",
            *lines,
            "",
            "set -eu",
            *exports,
            'echo "array job ${SLURM_ARRAY_TASK_ID:-?} of ${SLURM_ARRAY_JOB_ID:-?} on $(hostname)"',
            "exec " + " \\\n  ".join(map(shlex.join, words)),
            "",
        ]
    )


def environment_of_runs() -> dict[str, str]:
    """The variables that runs on other hosts need, with whole paths; no others, and no secrets."""
    found = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
    if "VIEWGAP_DATA" in found:
        found["VIEWGAP_DATA"] = os.path.abspath(found["VIEWGAP_DATA"])
    return found


def write_script(out: Path, text: str) -> Path:
    """Write the script into the folder of the records, and return its path."""
    check_shared(out)
    make_folder(out / FOLDER)
    script = out / FOLDER / SCRIPT
    write_file(script, text.encode())
    return script


def sbatch_arguments(script: Path) -> list[str]:
    """What sbatch is called with: the logs lie beside the script, one per array job."""
    logs = str(script.parent)
    if "\\" in logs or not logs.isprintable():
        raise SettingError(
            f"{logs!r}: a backslash or a control character in the path of the logs means something "
            "else to Slurm; choose another --out"
        )
    return ["--parsable", f"--output={logs.replace('%', '%%')}/%A_%a.log", str(script)]


def find_sbatch() -> str:
    """The path of sbatch; RunError says what to do where there is none."""
    found = shutil.which("sbatch")
    if found is None:
        raise RunError(
            "the command sbatch is not there: run this where jobs of Slurm are submitted (a login "
            "node), or write the script with --dry-run and submit it there. Without Slurm: viewgap "
            "bench run, with --jobs on this machine or --scheduler on a Dask cluster"
        )
    return found


def submit(sbatch: str, script: Path, array: ArraySize) -> str:
    """Submit a script and return the number of the job, which the folder remembers."""
    try:
        done = subprocess.run(  # noqa: S603
            [sbatch, *sbatch_arguments(script)],
            capture_output=True,
            text=True,
            timeout=SUBMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RunError(f"sbatch could not be run: {error}; {script} is written") from error
    if done.returncode != 0:
        told = (done.stderr or done.stdout).strip()[-500:]
        asked = re.search(r"^#SBATCH --time=(\d+)$", script.read_text(encoding="utf-8"), re.M)
        time_told = "" if asked is None else f"; it asks for {asked[1]} minutes, --time-limit + 10"
        raise RunError(f"sbatch refused {script} (exit code {done.returncode}): {told}{time_told}")
    answer = (done.stdout.strip().splitlines() or [""])[-1]
    found = _JOB.fullmatch(answer)
    if found is None:
        raise RunError(
            f"sbatch answered {answer[:200]!r}, which is no number of a job; look with squeue "
            "whether it was submitted"
        )
    entry = {"job": found[1], "cluster": found[2] or "", "jobs": array.jobs, "time": time.time()}
    append_line(script.parent / SUBMITTED, entry)
    return found[1]


def submitted(out: Path) -> list[dict[str, Any]]:
    """What was submitted for a folder, the oldest first."""
    types = {"job": str, "cluster": str, "jobs": int, "time": (int, float)}
    return read_lines(out / FOLDER / SUBMITTED, types)


# ---------------------------------------------------------------------- the file system


def check_shared(out: Path) -> None:
    """Refuse a folder in which runners on several hosts would lose lines of each other's.

    A record is a line that is appended under a lock of the file system (flock). This host can
    tell whether there are locks, and whether it was told to keep them to itself.
    """
    make_folder(out)
    advice = "records of jobs on several hosts would be lost there; choose another --out"
    with (out / RECORDS).open("ab") as file:
        has_locks = lock_file(file, exclusive=False)
    if not has_locks:
        raise RunError(f"{out}: the file system has no locks (flock); {advice}")
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    local = _LOCAL_LOCKS & mount_options(out.resolve(), mounts)
    if local:
        option = min(local)
        raise RunError(f"{out}: mounted with {option}, so that locks hold on one host; {advice}")


def mount_options(path: Path, mounts: str) -> set[str]:
    """Options of the mount that a path lies in; `mounts` is text as in /proc/self/mounts."""
    best, options = -1, ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        place = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[1]))
        if path.is_relative_to(place) and len(place.parts) >= best:  # a later mount hides it
            best, options = len(place.parts), fields[3]
    return set(options.split(","))
