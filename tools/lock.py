"""Pins with hashes of everything that viewgap needs, for `pip install --require-hashes`.

    python tools/lock.py

writes `lock.txt` (the library) and `lock-all.txt` (with all extras a user can ask for). Versions
are those of constraints.txt; the hashes are computed from the wheels that pip fetches from the
indexes it is configured for. They are of this platform and this Python: others get other wheels.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).parents[1]
FILES = {"lock.txt": False, "lock-all.txt": True}
NOT_FOR_USERS = {"dev", "docs"}


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for name, with_extras in FILES.items():
        text = lock(wanted(project, with_extras))
        (ROOT / name).write_text(text, encoding="utf-8")
        print(f"{name}: {text.count('==')} packages")


def wanted(project: dict[str, object], with_extras: bool) -> list[str]:
    """The requirements of pyproject.toml, with or without those of the extras."""
    lines = list(project["dependencies"])  # type: ignore[call-overload]
    if with_extras:
        extras = project["optional-dependencies"].items()  # type: ignore[attr-defined]
        lines += [line for name, own in extras if name not in NOT_FOR_USERS for line in own]
    return lines


def lock(requirements: Iterable[str]) -> str:
    """The lines of a lock file."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--only-binary", ":all:"]
        command += ["-c", str(ROOT / "constraints.txt"), "-d", folder, *requirements]
        subprocess.run(command, check=True)
        entries = sorted(map(entry, Path(folder).iterdir()))
    return head() + "".join(entries)


def entry(wheel: Path) -> str:
    name, version, _, _ = parse_wheel_filename(wheel.name)
    return f"{name}=={version} \\\n    --hash=sha256:{sha256(wheel)}\n"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def head() -> str:
    return (
        "# Made by `make lock` from constraints.txt; do not edit.\n"
        f"# {where()}. Elsewhere wheels, and so hashes, are others.\n"
        "# pip install --require-hashes -r THIS_FILE, then pip install --no-deps viewgap\n"
    )


def where() -> str:
    """The platform whose wheels pip takes here."""
    version = "{}.{}".format(*sys.version_info)
    return f"{platform.python_implementation()} {version}, {sysconfig.get_platform()}"


if __name__ == "__main__":
    main()
