"""Limits of a run: how long it may take and how many tasks it may begin, and what a task takes.

A task is begun only where it can be expected to end in time. What is expected is the longest time
of the tasks most like it: those of this run, which ran on this machine beside the same number of
others, or records that the folders had before. Where nothing like it is known, `ASSUMED_SECONDS`.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any

from viewgap import methods
from viewgap.bench.results.record import Record
from viewgap.bench.run.task import Task
from viewgap.errors import SettingError

# How much longer than it ran a task is assumed to take that was stopped when the time was over:
# begun again and again in the same time, it would never end.
STOPPED_FACTOR = 1.25
# Of a task of a method that has no record on a data set of which nothing is recorded.
ASSUMED_SECONDS = 60.0

Kind = tuple[str, str, str]

_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?")


def parse_duration(text: str, name: str = "--time-limit") -> float:
    """Seconds of a text such as 90s, 25m, 2h or 1h30m.

    Examples
    --------
    >>> parse_duration("25m"), parse_duration("1h30m")
    (1500.0, 5400.0)
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or not any(found.groups()):
        hint = f"; {text.strip()}s, {text.strip()}m or {text.strip()}h?" if text.isdigit() else ""
        raise SettingError(
            f"{name} must be a length of time with its unit, as 90s, 25m, 2h or 1h30m; "
            f"found {text!r}{hint}"
        )
    numbers = zip(found.groups(), _UNITS.values(), strict=True)
    seconds = sum(int(number) * unit for number, unit in numbers if number is not None)
    if seconds == 0:
        raise SettingError(f"{name} must be more than nothing, found {text!r}")
    return seconds


class Limits:
    """When a run stops by itself; the time counts from here. None is no limit.

    `tasks` is how many tasks may be begun; tests have a `clock` of their own.

    Examples
    --------
    >>> limits = Limits(seconds=60.0, tasks=1, clock=lambda: 0.0)
    >>> limits.allow(59.0), limits.allow(61.0)
    (True, False)
    >>> limits.begin()
    >>> limits.allow(1.0)
    False
    """

    def __init__(
        self,
        seconds: float | None = None,
        tasks: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.clock = clock
        self.has_deadline = seconds is not None
        self._end = math.inf if seconds is None else clock() + seconds
        self._tasks = math.inf if tasks is None else tasks

    @property
    def seconds_left(self) -> float:
        """Infinite without a limit, never below nothing."""
        return max(0.0, self._end - self.clock())

    def allow(self, expected: float) -> bool:
        """Whether one more task, of so many seconds, may begin."""
        return self._tasks > 0 and expected <= self.seconds_left

    def begin(self) -> None:
        """One task begins."""
        self._tasks -= 1

    def give_back(self) -> None:
        """A task that had begun was lost, and begins again later."""
        self._tasks += 1


@dataclass(frozen=True)
class Estimate:
    """How long a task is expected to take, and where that comes from."""

    seconds: float
    source: str


class Estimates:
    """Expected seconds of tasks, from the records of earlier runs and the tasks of this one.

    `stopped` are entries as `stopped_entry` makes them, of tasks that an earlier run ended. `gpus`
    are the names of the GPUs that the tasks would run on, none for a CPU; without, those of this
    machine.
    """

    def __init__(
        self,
        records: Iterable[Record] = (),
        stopped: Iterable[Mapping[str, Any]] = (),
        gpus: set[str] | None = None,
    ) -> None:
        self._earlier = _Times()
        self._now = _Times()
        self._paces: list[float] = []
        self._stopped: dict[tuple[Kind, str], float] = {}
        self._gpus = gpus = _gpu_names() if gpus is None else gpus
        for entry in stopped:
            if entry["gpus"] == sorted(gpus):
                kind = (str(entry["dataset"]), str(entry["method"]), str(entry["profile"]))
                self._stop((kind, _like(entry["settings"])), float(entry["seconds"]))
        for record in records:
            if _ran_as_here(record, gpus):
                self._earlier.add(_kind(record), _like(record.settings), record.seconds)

    def add(self, task: Task, seconds: float) -> None:
        """A task of this run took so long."""
        kind, like = _kind(task), _like(task.settings)
        self._now.add(kind, like, seconds)
        if same := self._earlier.of(kind).get(like):
            self._paces.append(seconds / max(*same, 1.0))

    def add_stopped(self, task: Task, seconds: float) -> None:
        """A task of this run was stopped after so long."""
        self._stop((_kind(task), _like(task.settings)), seconds)

    def _stop(self, key: tuple[Kind, str], seconds: float) -> None:
        self._stopped[key] = max(self._stopped.get(key, 0.0), seconds)

    def of(self, task: Task) -> Estimate:
        """What a task can be expected to take.

        The same settings in this run tell best. Otherwise the longest of those, of this run and
        of earlier records, that differ in the fewest settings. A method without any takes as long
        as with another profile, or as the longest of its data set that uses a GPU as it does; and
        none less than one like it that had to be stopped. Earlier records count as much longer as
        the tasks of this run took than records of the same settings.
        """
        kind, like = _kind(task), _like(task.settings)
        if same := self._now.of(kind).get(like):
            return Estimate(max(same), f"{len(same)} of this run")
        found = self._from_others(task, kind, like)
        stopped = self._stopped.get((kind, like), 0.0)
        if STOPPED_FACTOR * stopped > found.seconds:
            return Estimate(STOPPED_FACTOR * stopped, f"stopped after {stopped:.0f} s")
        return found

    def _from_others(self, task: Task, kind: Kind, like: str) -> Estimate:
        if known := self._nearest(kind, like):
            return Estimate(max(known), f"{len(known)} like it")
        if others := self._all(lambda other: other[:2] == kind[:2]):
            return Estimate(max(others), "assumed: as another profile of the method")
        if others := self._all(lambda other: other[0] == task.dataset and self._alike(other, kind)):
            return Estimate(max(others), "assumed: as the longest on the data set")
        return Estimate(ASSUMED_SECONDS, f"assumed: {ASSUMED_SECONDS:g} s")

    def _nearest(self, kind: Kind, like: str) -> list[float]:
        """Seconds of the method's tasks that differ in the fewest settings."""
        pace = self._pace()
        known = [(_differences(like, name), seconds) for name, seconds in self._now.all(kind)]
        known += [
            (_differences(like, name), pace * seconds) for name, seconds in self._earlier.all(kind)
        ]
        fewest = min((count for count, _ in known), default=0)
        return [seconds for count, seconds in known if count == fewest]

    def _all(self, wanted: Callable[[Kind], bool]) -> list[float]:
        pace = self._pace()
        return [
            factor * seconds
            for times, factor in ((self._now, 1.0), (self._earlier, pace))
            for kind in times.kinds
            if wanted(kind)
            for _, seconds in times.all(kind)
        ]

    def _pace(self) -> float:
        """How much longer than records of the same settings the tasks of this run take."""
        return max(1.0, median(self._paces)) if self._paces else 1.0

    def _alike(self, other: Kind, kind: Kind) -> bool:
        return not self._gpus or _uses_gpu(other[1]) == _uses_gpu(kind[1])


def stopped_entry(task: Task, seconds: float) -> dict[str, Any]:
    """What a folder keeps of a task that was stopped when the time was over."""
    machine = {"seconds": round(seconds, 3), "gpus": sorted(_gpu_names())}
    return {**task.identity, "settings": task.settings, **machine}


class _Times:
    """Seconds of tasks, by kind and settings."""

    def __init__(self) -> None:
        self.kinds: dict[Kind, dict[str, list[float]]] = {}

    def add(self, kind: Kind, like: str, seconds: float) -> None:
        self.kinds.setdefault(kind, {}).setdefault(like, []).append(seconds)

    def of(self, kind: Kind) -> dict[str, list[float]]:
        return self.kinds.get(kind, {})

    def all(self, kind: Kind) -> list[tuple[str, float]]:
        """The longest of all settings, with these."""
        return [(like, max(seconds)) for like, seconds in self.of(kind).items()]


def _kind(of: Task | Record) -> Kind:
    return of.dataset, of.method, of.profile


def _like(settings: object) -> str:
    return json.dumps(settings, sort_keys=True, default=str)


@cache
def _differences(one: str, other: str) -> int:
    """In how many settings, parameters among them, two tasks differ."""
    first, second = _flat(one), _flat(other)
    return sum(first.get(name) != second.get(name) for name in first.keys() | second.keys())


@cache
def _flat(like: str) -> dict[str, Any]:
    settings = json.loads(like)
    return {**settings.pop("params", {}), **settings}


def _gpu_names() -> set[str]:
    """Without torch, no deep method was asked for."""
    torch = sys.modules.get("torch")
    count = torch.cuda.device_count() if torch is not None else 0
    return {torch.cuda.get_device_name(index) for index in range(count)} if torch else set()


def _ran_as_here(record: Record, gpus: set[str]) -> bool:
    """Whether a record tells how long its method takes here: a GPU and a CPU differ too much."""
    device = str(record.provenance.get("device", "cpu"))
    if device != "cpu":
        return device in gpus
    return not gpus or not _uses_gpu(record.method)


@cache
def _uses_gpu(method: str) -> bool:
    return method in methods.names() and "device" in methods.get(method)().get_params()
