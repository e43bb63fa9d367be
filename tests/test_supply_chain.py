"""The lock files and the list of packages beside the wheel (SBOM) hold what is installed."""

from __future__ import annotations

import copy
import re
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from installed import closure, in_wheel, normal_name
from lock import wanted, where
from sbom import LOCKED, check, describe

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def locked(name: str) -> dict[str, Version]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return {package: Version(version) for package, version, _ in LOCKED.findall(text)}


def pinned() -> dict[str, Version]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {normal_name(name): Version(v) for name, v in (line.split("==") for line in lines)}


@pytest.mark.parametrize("name", ["lock.txt", "lock-all.txt"])
def test_a_lock_file_is_pins_with_hashes_and_nothing_else(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert LOCKED.sub("", re.sub(r"^#.*$", "", text, flags=re.M)).strip() == ""
    assert "://" not in text
    found = locked(name)
    assert len(found) == text.count("==") == text.count("--hash=")
    for package, version in found.items():  # the build of torch says more: 2.13.0+cpu
        assert Version(version.public) == pinned()[package], "run `make lock`"


@pytest.mark.parametrize(("name", "with_extras"), [("lock.txt", False), ("lock-all.txt", True)])
def test_every_requirement_is_locked(name: str, with_extras: bool) -> None:
    found = locked(name)
    for line in wanted(PROJECT, with_extras):
        requirement = Requirement(line)
        assert requirement.specifier.contains(found[normal_name(requirement.name)]), line
    if where() not in (ROOT / name).read_text(encoding="utf-8"):
        pytest.skip("what these need in turn is known for the platform of the lock file only")
    needed = set()
    for line in wanted(PROJECT, with_extras):
        requirement = Requirement(line)
        needed |= set(closure(distribution(requirement.name), requirement.extras))
    assert needed == set(found), "run `make lock`"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the metadata of the installed package, and nothing else."""
    path = tmp_path_factory.mktemp("dist") / "viewgap-0.1.0-py3-none-any.whl"
    metadata = distribution("viewgap").read_text("METADATA")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("viewgap-0.1.0.dist-info/METADATA", str(metadata))
    return path


@pytest.fixture(scope="module")
def sbom(wheel: Path) -> dict[str, Any]:
    return describe(wheel)


def test_the_list_names_every_package_once_with_version_and_licence(
    sbom: dict[str, Any], wheel: Path
) -> None:
    assert check(sbom) == []
    assert describe(wheel) == sbom
    by_name = {entry["name"]: entry for entry in sbom["components"]}
    assert by_name["torch"]["scope"] == "required"
    assert by_name["optuna"]["scope"] == "optional"
    assert by_name["numpy"]["version"] == distribution("numpy").version
    assert set(closure(in_wheel(wheel))) <= {*by_name, "viewgap"}
    assert not {"pytest", "sphinx", "mypy"} & set(by_name)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda s: s["components"].pop(3), "needed, and not listed"),
        (lambda s: s["components"].append(s["components"][0]), "listed twice"),
        (lambda s: s["components"][2].pop("licenses"), "no licence"),
        (lambda s: s["components"][2].update(version=""), "no version"),
        (lambda s: s["dependencies"].pop(1), "nothing about what it needs"),
    ],
)
def test_a_list_with_a_hole_is_not_written(sbom: dict[str, Any], change: Any, problem: str) -> None:
    changed = copy.deepcopy(sbom)
    change(changed)
    assert any(problem in line for line in check(changed))
