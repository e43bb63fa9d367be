"""The versions of `make test-lowest` are the lower bounds of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND = re.compile(r"([\w-]+)(?:\[.*?\])?>=([\d.]+)")
NOT_TESTED = {"torch"}


def bounds() -> dict[str, str]:
    """Lower bounds of what `make test-lowest` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    entries = [*project["dependencies"], *extras["files"], *extras["figures"]]
    entries += [entry for entry in extras["dev"] if entry.startswith(("hypothesis", "pytest>"))]
    return dict(BOUND.match(entry).groups() for entry in entries)  # type: ignore[union-attr]


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def test_every_lower_bound_is_the_version_that_is_tested() -> None:
    tested = pinned()
    assert set(tested) == set(bounds())
    for name, bound in bounds().items():
        if name not in NOT_TESTED:
            assert f"{tested[name]}.".startswith(f"{bound}."), name
            assert set(tested[name].removeprefix(bound)) <= {".", "0"}, name
