"""Several experiments in one run: their files, folders and tasks, the most important first.

Files are given one by one, or listed in a queue file:

[[queue]]
config = "curves_views.toml"      # beside the queue file
out = "corel5k/curves_views"      # below the folder of the run
datasets = ["corel5k"]            # a part of the file, as the options of the command line
methods = ["scsd"]
profiles = ["paper"]
folds = 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from viewgap.bench.run.experiment import check_keys, expand, parse_file, require, select
from viewgap.bench.run.task import Task
from viewgap.errors import SettingError

_KEYS: dict[str, tuple[type, ...]] = {
    "config": (str,),
    "out": (str,),
    "datasets": (list,),
    "methods": (list,),
    "profiles": (list,),
    "folds": (int,),
}


@dataclass(frozen=True)
class Part:
    """Tasks, and the folder that their records go to."""

    out: Path
    tasks: list[Task]


@dataclass(frozen=True)
class Job:
    """A task, and the folders that want its record."""

    task: Task
    outs: tuple[Path, ...]


def jobs_of(parts: Sequence[Part]) -> list[Job]:
    """The tasks of all parts in their order, each once."""
    tasks: dict[str, Task] = {}
    outs: dict[str, list[Path]] = {}
    for part in parts:
        for task in part.tasks:
            tasks.setdefault(task.id, task)
            places = outs.setdefault(task.id, [])
            if part.out not in places:
                places.append(part.out)
    return [Job(task, tuple(outs[name])) for name, task in tasks.items()]


def read_queue(
    paths: Sequence[Path],
    out: Path,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    folds: int | None = None,
) -> list[Part]:
    """The experiments of all files in their order; `datasets` ... take a part of every one.

    A data set or method that none of them has is an error.
    """
    parts: list[Part] = []
    for path in paths:
        content = parse_file(path)
        if "queue" in content:
            parts += _listed(content, path, out)
        else:
            parts.append(Part(out, expand(content, str(path), path.parent)))
    everything = [task for part in parts for task in part.tasks]
    wanted = {task.id for task in select(everything, datasets, methods, folds)}
    kept = [Part(part.out, [task for task in part.tasks if task.id in wanted]) for part in parts]
    return [part for part in kept if part.tasks]


def _listed(content: Mapping[str, Any], path: Path, out: Path) -> list[Part]:
    check_keys(content, {"queue": (list,)}, str(path))
    parts = []
    for number, entry in enumerate(content["queue"], 1):
        where = f"{path} [[queue]] {number}"
        if not isinstance(entry, Mapping):
            raise SettingError(f"{where}: expected a table, found {type(entry).__name__}")
        check_keys(entry, _KEYS, where)
        require(entry, ("config", "out"), where)
        if entry.get("folds", 1) < 1:
            raise SettingError(f"{where}: folds must be at least 1, found {entry['folds']}")
        folder = Path(entry["out"])
        if folder.is_absolute() or ".." in folder.parts:
            raise SettingError(f"{where}: out must be below the folder of the run, found {folder}")
        config = path.parent / entry["config"]
        tasks = expand(parse_file(config), str(config), config.parent)
        try:
            tasks = select(
                tasks,
                entry.get("datasets", ()),
                entry.get("methods", ()),
                entry.get("folds"),
                entry.get("profiles", ()),
            )
        except SettingError as error:
            raise SettingError(f"{where}: {error}") from None
        parts.append(Part(out / folder, tasks))
    if not parts:
        raise SettingError(f"{path}: there is nothing to run; add a [[queue]]")
    return parts
