"""Experiment files: what they may say, and the tasks they stand for.

[experiment]
datasets = ["corel5k", "./patients"]   # or: dataset = "corel5k"; a path (with a slash, or the
                                       # ending of a data file) begins at the folder of this file
folds = 10
view_rate = [0.3, 0.5]                 # a list makes a grid; so may label_rate, train_share,
seed = 1                               # test_view_rate and seed
dataset_rates = {pascal07 = {view_rate = 0.0}}  # rates, training share or seed of one data set
scale_on = "all"                       # here for all methods, or in a method; so may validation
validation = "none"                    # methods hold out rows of their own training part
cv = 5                                 # a cross-validation of the data as they are, see `_defaults`
variant = "clean"                      # definitions of the metrics

[[method]]
name = "scsd"                          # or a list of names that share the rest
profile = "paper"
params = {dropout = 0.0}               # for all
grid = {alpha = [0.1, 1.0]}            # every combination of these lists
variants = [{}, {quantise = false}]    # and each of these tables in turn
[method.dataset_params.pascal07]       # only on this data set; or dataset_params = "published",
temperature = 0.1                      # what its authors give for each data set
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any

from viewgap.bench.run.task import Task
from viewgap.bench.run.task_data import looks_like_path, own_files
from viewgap.errors import DataFileError, SettingError

Types = Mapping[str, tuple[type, ...]]

_NUMBER = (float, int)
_AXES: dict[str, tuple[type, ...]] = {
    "train_share": _NUMBER,
    "label_rate": _NUMBER,
    "view_rate": _NUMBER,
    "test_view_rate": _NUMBER,
    "seed": (int,),
}
_EXPERIMENT_KEYS: dict[str, tuple[type, ...]] = {
    "dataset": (str,),
    "datasets": (list,),
    "dataset_options": (dict,),
    "dataset_rates": (dict,),
    "folds": (int,),
    **{name: (*kinds, list) for name, kinds in _AXES.items()},
    "scale_on": (str,),
    "validation": (str,),
    "cv": (int,),
    "variant": (str,),
}
_METHOD_KEYS: dict[str, tuple[type, ...]] = {
    "name": (str, list),
    "profile": (str, list),
    "params": (dict,),
    "dataset_params": (dict, str),
    "grid": (dict,),
    "variants": (list,),
    "unlabeled": (bool,),
    "scale_on": (str,),
    "validation": (str,),
}


def read_experiment(path: Path) -> list[Task]:
    """Tasks of an experiment file."""
    return expand(parse_file(path), str(path), path.parent)


def parse_file(path: Path) -> dict[str, Any]:
    """The content of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataFileError(f"{path} is not valid TOML: {error}") from error


def shipped_config(name: str) -> dict[str, Any]:
    """A parsed file of the folder `configs` of this package: demo, example, published_params."""
    return tomllib.loads(shipped_text(name))


def shipped_text(name: str) -> str:
    """The text of a file of the folder `configs` of this package."""
    return files("viewgap.bench").joinpath("configs", f"{name}.toml").read_text(encoding="utf-8")


def expand(
    content: Mapping[str, Any], where: str = "experiment", folder: Path | None = None
) -> list[Task]:
    """Tasks of a parsed experiment file; an unknown key is an error.

    Data sets come outermost, so that each is loaded once; then methods in file order, their
    parameters, the rates and seeds; folds innermost. Paths of data begin at `folder`.
    """
    check_keys(content, {"experiment": (dict,), "method": (list,)}, where)
    require(content, ("experiment", "method"), where)
    if not content["method"]:
        raise SettingError(f"{where}: there is no method to run; add a [[method]]")
    experiment = content["experiment"]
    place = f"{where} [experiment]"
    check_keys(experiment, _EXPERIMENT_KEYS, place)
    experiment = _defaults(experiment)
    folds = experiment.get("folds", 1)
    if folds < 1:
        raise SettingError(f"{place}: folds must be at least 1, found {folds}")
    common = {name: experiment[name] for name in _COMMON if name in experiment}
    datasets = _datasets(experiment, place)
    tasks = []
    names = [dataset["dataset"] for dataset in datasets]
    own_rates = _dataset_rates(experiment, names, place)
    for dataset in datasets:
        rates = own_rates.get(dataset["dataset"], {})
        points = list(_points({**experiment, **rates}, place))
        data = dataset
        if looks_like_path(dataset["dataset"]):
            data = own_files(dataset["dataset"], dataset["dataset_options"], folder)
        for number, entry in enumerate(content["method"], 1):
            here = f"{where} [[method]] {number}"
            for method in _methods(entry, dataset["dataset"], names, here):
                tasks += [
                    Task(**{**common, **data, **method, **point}, fold=fold)
                    for point in points
                    for fold in range(folds)
                ]
    return _without_repeats(tasks, where)


def select(
    tasks: list[Task],
    datasets: Sequence[str] = (),
    methods: Sequence[str] = (),
    folds: int | None = None,
    profiles: Sequence[str] = (),
) -> list[Task]:
    """The tasks of these data sets, methods and profiles, and of the first `folds` folds."""
    for kind, wanted in (("dataset", datasets), ("method", methods), ("profile", profiles)):
        known = sorted({getattr(task, kind) for task in tasks})
        for name in wanted:
            if name not in known:
                raise SettingError(
                    f"the experiment has no {kind} {name!r}; it has: {', '.join(known)}"
                )
    return [
        task
        for task in tasks
        if (not datasets or task.dataset in datasets)
        and (not methods or task.method in methods)
        and (not profiles or task.profile in profiles)
        and (folds is None or task.fold < folds)
    ]


# ------------------------------------------------------------------ the parts of a file


def _defaults(experiment: Mapping[str, Any]) -> Mapping[str, Any]:
    """With `cv`, all of its folds, data as they are, and clean metrics, unless the file says so."""
    if "cv" not in experiment:
        return experiment
    usual = {"folds": experiment["cv"], "view_rate": 0.0, "label_rate": 0.0, "validation": "none"}
    return {**usual, "variant": "clean", **experiment}


def _datasets(experiment: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Names with their options: a flat table for one data set, one table per name for several."""
    options = experiment.get("dataset_options", {})
    if "datasets" not in experiment:
        require(experiment, ("dataset",), where)
        return [{"dataset": experiment["dataset"], "dataset_options": options}]
    if "dataset" in experiment:
        raise SettingError(f"{where}: give dataset or datasets, not both")
    names = _list(experiment["datasets"], (str,), f"{where}: datasets")
    check_keys(options, dict.fromkeys(names, (dict,)), f"{where}.dataset_options")
    return [{"dataset": name, "dataset_options": options.get(name, {})} for name in names]


def _dataset_rates(
    experiment: Mapping[str, Any], names: list[str], where: str
) -> dict[str, Mapping[str, Any]]:
    """What differs on one data set: data with gaps of its own may lose nothing more."""
    given = experiment.get("dataset_rates", {})
    check_keys(given, dict.fromkeys(names, (dict,)), f"{where}.dataset_rates")
    for name, rates in given.items():
        check_keys(
            rates,
            {axis: (*kinds, list) for axis, kinds in _AXES.items()},
            f"{where}.dataset_rates.{name}",
        )
    return dict(given)


def _points(experiment: Mapping[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """Every combination of rates, training share and seed."""
    axes = []
    for name, kinds in _AXES.items():
        if name in experiment:
            values = _one_or_more(experiment[name], kinds, f"{where}: {name}")
            make = int if name == "seed" else float  # 0 and 0.0 are the same task
            axes.append([(name, make(value)) for value in values])
    return (dict(point) for point in product(*axes))


def _methods(entry: Any, dataset: str, datasets: list[str], where: str) -> Iterator[dict[str, Any]]:
    """The method of an entry with every combination of its profiles, variants and parameters."""
    if not isinstance(entry, Mapping):
        raise SettingError(f"{where}: expected a table, found {type(entry).__name__}")
    check_keys(entry, _METHOD_KEYS, where)
    require(entry, ("name",), where)
    for name in _one_or_more(entry["name"], (str,), f"{where}: name"):
        yield from _variants_of({**entry, "name": name}, dataset, datasets, where)


def _variants_of(
    entry: Mapping[str, Any], dataset: str, datasets: list[str], where: str
) -> Iterator[dict[str, Any]]:
    defaults, by_dataset = _dataset_params(entry, dataset, datasets, where)
    grid = entry.get("grid", {})
    for name, values in grid.items():
        _list(values, None, f"{where}.grid: {name}")
    combinations = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    variants = _list(entry.get("variants", [{}]), (dict,), f"{where}: variants")
    fixed = {"method": entry["name"], **{k: entry[k] for k in _FIXED if k in entry}}
    for profile in _profiles(entry, where):
        for variant, combination in product(variants, combinations):
            tables = (entry.get("params", {}), by_dataset, variant, combination)
            yield {**fixed, **profile, "params": {**defaults, **_merged(tables, where)}}


def _dataset_params(
    entry: Mapping[str, Any], dataset: str, datasets: list[str], where: str
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Parameters for one data set: published defaults, and what the file says itself."""
    given = entry.get("dataset_params", {})
    if isinstance(given, Mapping):
        check_keys(given, dict.fromkeys(datasets, (dict,)), f"{where}.dataset_params")
        return {}, given.get(dataset, {})
    if given != "published":
        raise SettingError(
            f"{where}: dataset_params must be a table or 'published', found {given!r}"
        )
    known = _published_params().get(entry["name"], {})
    if dataset not in known:
        raise SettingError(
            f"{where}: no published parameters of {entry['name']} on {dataset} are known; known "
            f"for {', '.join(known) or 'no data set'}"
        )
    return known[dataset], {}


@cache
def _published_params() -> dict[str, Any]:
    return shipped_config("published_params")


_COMMON = ("scale_on", "validation", "cv", "variant")
_FIXED = ("unlabeled", "scale_on", "validation")


def _profiles(entry: Mapping[str, Any], where: str) -> list[dict[str, str]]:
    if "profile" not in entry:
        return [{}]
    names = _one_or_more(entry["profile"], (str,), f"{where}: profile")
    return [{"profile": name} for name in names]


def _merged(tables: tuple[Mapping[str, Any], ...], where: str) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for table in tables:
        for name, value in table.items():
            if name in merged:  # which of the two was meant?
                raise SettingError(f"{where}: parameter {name!r} is set twice")
            merged[name] = value
    return merged


# ------------------------------------------------------------------ checks


def check_keys(table: Mapping[str, Any], expected: Types, where: str) -> None:
    """Refuse a key that is not expected, or a value of another type."""
    for key, value in table.items():
        if key not in expected:
            raise SettingError(f"{where}: unknown key {key!r}; known: {', '.join(expected)}")
        if type(value) not in expected[key]:
            wanted = " or ".join(kind.__name__ for kind in expected[key])
            raise SettingError(f"{where}: {key} must be {wanted}, found {value!r}")


def _one_or_more(given: Any, kinds: tuple[type, ...], where: str) -> list[Any]:
    return _list(given if isinstance(given, list) else [given], kinds, where)


def _list(values: Any, kinds: tuple[type, ...] | None, where: str) -> list[Any]:
    """A list with at least one value, all of these types."""
    if not isinstance(values, list) or not values:
        raise SettingError(f"{where} must be a list with at least one value, found {values!r}")
    for value in values:
        if kinds is not None and type(value) not in kinds:
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise SettingError(f"{where} must be {wanted}, found {value!r}")
    return values


def require(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    """Refuse a table without one of these keys."""
    for key in keys:
        if key not in table:
            raise SettingError(f"{where}: {key!r} is missing")


def _without_repeats(tasks: list[Task], where: str) -> list[Task]:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise SettingError(f"{where}: {task.title} is listed twice with the same settings")
        seen.add(task.id)
    return tasks
