"""Who may import whom, and what no source file may do."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

import viewgap
from viewgap import methods
from viewgap.methods.registry import module_of

ROOT = Path(viewgap.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

FLOOR = {
    "errors",
    "deprecation",
    "constraints",
    "parameters",
    "strict_json",
    "fsio",
    "state",
    "notebook",
    "interruption",
    "search",
}
BELOW_METHODS = FLOOR | {"checkpoints", "data", "metrics", "nn", "datasets", "training"}
BELOW_BENCH = BELOW_METHODS | {"methods", "ensemble", "model_folder", "model_file"}
MAY_IMPORT = {
    "errors": set(),
    "deprecation": {"errors"},
    "constraints": {"errors"},
    "search": set(),
    "parameters": {"errors", "constraints", "search"},
    "strict_json": {"errors"},
    "fsio": {"errors"},
    "state": {"errors"},
    "notebook": {"errors"},
    "interruption": {"errors"},
    "checkpoints": FLOOR | {"model_folder"},
    "data": FLOOR,
    "metrics": FLOOR,
    "nn": FLOOR,
    "datasets": FLOOR | {"data"},
    "training": FLOOR | {"checkpoints", "data", "metrics", "nn", "datasets"},
    "methods": BELOW_METHODS,
    "ensemble": BELOW_METHODS | {"methods"},
    "model_folder": FLOOR,
    "model_file": BELOW_METHODS | {"methods", "model_folder", "hub_download", "viewgap"},
    "model_selection": BELOW_METHODS | {"methods"},
    "model_info": {"methods", "model_folder", "model_file", "hub_download"},
    "export": BELOW_BENCH | {"viewgap"},
    "hub_download": FLOOR | {"model_folder"},
    "hub": FLOOR | {"hub_download", "methods", "model_file", "model_info"},
    "bench": BELOW_BENCH,
    "inspection": BELOW_BENCH | {"bench"},
    "prediction": BELOW_BENCH | {"hub_download", "inspection"},
    "model_report": BELOW_BENCH | {"bench", "decide", "inspection", "prediction", "explanation"},
    "explanation": BELOW_BENCH | {"bench", "inspection", "model_selection", "prediction"},
    "decide": BELOW_METHODS | {"methods", "prediction"},
    "completion": BELOW_BENCH | {"bench", "inspection", "model_selection"},
    "tuning": BELOW_BENCH | {"bench"},
    "serve": BELOW_BENCH | {"bench", "prediction", "explanation", "decide", "viewgap"},
    "demo": BELOW_BENCH | {"bench"},
    "comparison": BELOW_BENCH | {"bench"},
    "cli": BELOW_BENCH
    | {
        "bench",
        "decide",
        "completion",
        "explanation",
        "model_report",
        "inspection",
        "model_info",
        "prediction",
        "serve",
        "tuning",
        "demo",
        "comparison",
        "export",
        "hub",
        "hub_download",
        "viewgap",
    },
    "__main__": {"cli"},
    "viewgap": None,  # names of everything, loaded on first use
}
# The folders and modules of `data`, from the lowest up; each imports those below it.
PARTS_OF_DATA: dict[str, set[str]] = {
    "rows": set(),
    "notebook_view": set(),
    "viewset": {"rows", "notebook_view"},
    "labels": {"rows"},
    "renamed_views": {"viewset"},
    "fingerprint": {"rows", "viewset", "labels"},
    "validation": {"rows", "viewset", "renamed_views", "labels"},
    "preprocessing": {"rows", "viewset"},
    "splits": {"rows", "viewset", "labels", "validation"},
    "formats": {"rows", "viewset", "renamed_views", "labels", "validation", "splits"},
    "readers": {"formats"},
}
# What methods share, from the lowest folder up; a folder imports those below it. `base.py` is put
# together from `estimator` and `fitting`; `profiled.py` and `deep.py` are bases made of it.
SHARED_BY_METHODS: dict[str, set[str]] = {
    "linalg": set(),
    "estimator": set(),
    "fitting": {"estimator"},
    "base": {"estimator", "fitting"},
    "profiled": {"base"},
    "networks": {"estimator"},
    "trees": {"linalg", "fitting", "base"},
    "deep": {"base", "profiled", "estimator", "fitting", "networks"},
    "registry": {"base"},
    "catalogue": {"registry", "deep"},
}
# Which packages above `methods` may import some of these; the others are for all.
IMPORTED_BY: dict[str, set[str]] = {"networks": set(), "linalg": {"export"}, "trees": {"export"}}
SLOW_PACKAGES = {"pandas", "torch", "h5py", "pyarrow", "sklearn"}


def package(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0].removesuffix(".py")
    return "viewgap" if first == "__init__" else first


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                yield (
                    f"{node.module}.{alias.name}"
                    if node.module in ("viewgap", "viewgap.data", "viewgap.methods")
                    else str(node.module)
                )


def packages_imported(names: Iterable[str]) -> set[str]:
    ours = [name.split(".") for name in names if name.split(".")[0] == "viewgap"]
    return {parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "viewgap" for parts in ours}


def without_type_checking(tree: ast.Module) -> ast.Module:
    """Without what is imported for annotations only."""
    tests = (ast.unparse(node.test) if isinstance(node, ast.If) else "" for node in tree.body)
    pairs = zip(tree.body, tests, strict=True)
    return ast.Module([node for node, test in pairs if test != "TYPE_CHECKING"], [])


def parts_imported(names: Iterable[str], package: str) -> set[str]:
    """Folders and modules of a package that are imported."""
    parts = [f"{name}.".split(".") for name in names]
    return {own[2] for own in parts if own[:2] == ["viewgap", package]} - {""}


def part_imports(package: str, name: str) -> set[str]:
    """What a folder or module of a package imports of the others."""
    place = ROOT / package / name
    files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    trees = [without_type_checking(parse(file)) for file in files]
    return {part for tree in trees for part in parts_imported(imported(tree), package)} - {name}


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported_by(path: Path) -> tuple[str, ...]:
    """Names, no trees: those of all files are so many objects that every `gc.collect` is slow."""
    return tuple(imported(parse(path)))


def source_id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", FILES, ids=source_id)
def test_a_package_imports_only_packages_below_it(path: Path) -> None:
    allowed = MAY_IMPORT[package(path)]
    if allowed is not None:
        assert packages_imported(imported_by(path)) - {package(path)} <= allowed


@pytest.mark.parametrize("name", methods.names())
def test_a_method_never_imports_another_method(name: str) -> None:
    others = {f"viewgap.methods.{other}" for other in methods.names() if other != name}
    place = ROOT.joinpath(*module_of(name).split(".")[1:])
    files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    found = {module for file in files for module in imported_by(file)}
    assert not any(f"{module}.".startswith(f"{other}.") for module in found for other in others)


@pytest.mark.parametrize("name", PARTS_OF_DATA)
def test_a_part_of_data_imports_only_what_is_below_it(name: str) -> None:
    assert part_imports("data", name) <= PARTS_OF_DATA[name]


def test_every_part_of_data_is_known() -> None:
    inside = {p.stem for p in (ROOT / "data").iterdir() if not p.name.startswith("__")}
    assert inside == {*PARTS_OF_DATA}


@pytest.mark.parametrize("name", SHARED_BY_METHODS)
def test_what_methods_share_imports_only_what_is_below_it(name: str) -> None:
    assert part_imports("methods", name) <= SHARED_BY_METHODS[name]


def test_everything_beside_the_methods_is_known() -> None:
    inside = {p.stem for p in (ROOT / "methods").iterdir() if not p.name.startswith("__")}
    assert inside == {*SHARED_BY_METHODS, *methods.names()} - {"ensemble"}


@pytest.mark.parametrize("shared", IMPORTED_BY)
def test_what_some_methods_share_is_for_them_only(shared: str) -> None:
    importing = {
        package(path) for path in FILES if shared in parts_imported(imported_by(path), "methods")
    }
    assert importing <= {"methods", *IMPORTED_BY[shared]}


@pytest.mark.parametrize("name", methods.names())
def test_a_method_class_is_named_like_its_file(name: str) -> None:
    kind = methods.get(name)
    assert kind.__name__.lower() == name.replace("_", "")
    assert getattr(viewgap, kind.__name__) is kind


@pytest.mark.parametrize(
    "path", [p for p in FILES if package(p) in ("data", "metrics", "datasets")], ids=source_id
)
def test_slow_packages_are_imported_where_they_are_used(path: Path) -> None:
    top = ast.Module([node for node in parse(path).body if not isinstance(node, ast.If)], [])
    for node in ast.walk(top):
        if isinstance(node, ast.FunctionDef):
            node.body = []
    assert not {name.split(".")[0] for name in imported(top)} & SLOW_PACKAGES


@pytest.mark.parametrize("path", FILES, ids=source_id)
def test_no_file_is_longer_than_500_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500


def test_the_import_test_sees_a_violation() -> None:
    tree = ast.parse("from viewgap import cli\nfrom viewgap.bench import run\nimport torch")
    assert packages_imported(imported(tree)) == {"cli", "bench"}
    tree = ast.parse(
        "from viewgap.methods import deep\nfrom viewgap.methods.networks.stored import a"
    )
    assert parts_imported(imported(tree), "methods") == {"deep", "networks"}
