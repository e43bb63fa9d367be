"""What an installed package needs, from the metadata of this environment."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import (
    Distribution,
    PathDistribution,
    distribution,
)
from pathlib import Path

from packaging.requirements import Requirement


@dataclass(frozen=True)
class Installed:
    """One installed package, and the names of the packages that it asks for here."""

    distribution: Distribution
    needs: tuple[str, ...]

    @property
    def version(self) -> str:
        return self.distribution.version


def normal_name(name: str) -> str:
    """The one spelling of a package's name: `Sphinx_Design` and `sphinx-design` are the same."""
    return re.sub(r"[-_.]+", "-", name).lower()


def in_wheel(wheel: Path) -> Distribution:
    """The metadata of a wheel that need not be installed."""
    archive = zipfile.Path(wheel)
    (folder,) = (entry for entry in archive.iterdir() if entry.name.endswith(".dist-info"))
    return PathDistribution(folder)  # type: ignore[arg-type]


def closure(root: Distribution, extras: Iterable[str] = ()) -> dict[str, Installed]:
    """The package and everything that it needs, directly or not, by normal name.

    Raises
    ------
    importlib.metadata.PackageNotFoundError
        If one of them is not installed: a list with a hole would be worse than none.
    """
    found: dict[str, Installed] = {}
    asked: dict[str, set[str]] = {}
    waiting = [(normal_name(root.metadata["Name"]), set(extras))]
    while waiting:
        name, wanted = waiting.pop()
        if name in asked and wanted <= asked[name]:
            continue
        asked[name] = wanted = asked.get(name, set()) | wanted
        package = distribution(name) if found else root
        needed = list(_requirements(package, wanted))
        found[name] = Installed(package, tuple(sorted({normal_name(r.name) for r in needed})))
        waiting += [(normal_name(r.name), set(r.extras)) for r in needed]
    return found


def _requirements(package: Distribution, extras: set[str]) -> Iterable[Requirement]:
    """What it requires in this environment, with these extras."""
    for line in package.requires or ():
        requirement = Requirement(line)
        settings = [{"extra": extra} for extra in extras | {""}]
        if requirement.marker is None or any(map(requirement.marker.evaluate, settings)):
            yield requirement
