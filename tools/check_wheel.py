"""Checks a built wheel and sdist as a user meets them: installed in clean environments, elsewhere.

    python tools/check_wheel.py dist

With this Python the wheel is installed with all its dependencies, whose wheels must have the hashes
of lock.txt, and the quick start of the README runs in an empty folder. With every other Python of
`VERSIONS` that is found, it is installed with the light dependencies only: torch has no wheel for
every Python everywhere. There it has to compile, to import and to show its help.
"""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from pathlib import Path

from lock import where

ROOT = Path(__file__).parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
LIGHT = ("typer", "rich", "jinja2")  # what `viewgap --help` needs
HERE = "{}.{}".format(*sys.version_info)


def main(dist: Path) -> None:
    (wheel,), (sdist,) = sorted(dist.glob("*.whl")), sorted(dist.glob("*.tar.gz"))
    check_wheel_files(wheel)
    check_sdist_files(sdist)
    for version in VERSIONS:
        started = time.monotonic()
        python = find_python(version)
        if python is None:
            print(f"Python {version}: not found, skipped")
            continue
        with tempfile.TemporaryDirectory() as folder:
            if version == HERE:
                check_everything(wheel, Path(folder))
            else:
                check_light(wheel, python, version, Path(folder))
        kind = "all dependencies" if version == HERE else "light dependencies"
        print(
            f"Python {version}: passed with {kind}, {time.monotonic() - started:.0f} s", flush=True
        )


# ------------------------------------------------------------------ what is in the files


def check_wheel_files(path: Path) -> None:
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        (place,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(wheel.read(place))
    source = ROOT / "src"
    ours = {
        str(file.relative_to(source))
        for file in source.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert ours <= names, f"not in the wheel: {sorted(ours - names)}"
    strangers = {n for n in names - ours if ".dist-info/" not in n and not n.startswith("viewgap/")}
    assert not strangers, f"should not be in the wheel: {sorted(strangers)}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Name"] == "viewgap"
    assert metadata["Version"] == project["version"]
    assert f"\nversion: {project['version']}\n" in (ROOT / "CITATION.cff").read_text()
    assert metadata["Requires-Python"] == project["requires-python"]
    required = {re.split(r"[\[<>=; ]", line)[0] for line in metadata.get_all("Requires-Dist")}
    assert {re.split(r"[\[<>=; ]", line)[0] for line in project["dependencies"]} <= required
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1e6:.1f} MB")


def check_sdist_files(path: Path) -> None:
    with tarfile.open(path) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    wanted = {"pyproject.toml", "README.md", "LICENSE", "src/viewgap/__init__.py", "docs/conf.py"}
    assert wanted <= names, f"not in the sdist: {sorted(wanted - names)}"
    built = ("docs/_build", "docs/generated", "docs/gallery", ".venv", "out/")
    assert not [name for name in names if name.startswith(built)]
    print(f"{path.name}: {len(names)} files, {path.stat().st_size / 1e6:.1f} MB")


# ------------------------------------------------------------------ in a clean environment


def find_python(version: str) -> str | None:
    """An interpreter of this version: this one, one on the path, or one of pyenv."""
    if version == HERE:
        return sys.executable
    versions = Path.home() / ".pyenv" / "versions"
    candidates = [shutil.which(f"python{version}"), *versions.glob(f"{version}.*/bin/python")]
    for candidate in filter(None, candidates):
        probe = [str(candidate), "-c", "import sys, venv; print('{}.{}'.format(*sys.version_info))"]
        done = subprocess.run(probe, capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return str(candidate)
    return None


def check_everything(wheel: Path, folder: Path) -> None:
    venv.create(folder / "env", with_pip=True)
    if where() in (ROOT / "lock.txt").read_text(encoding="utf-8"):
        pip(folder, "--require-hashes", "-r", str(ROOT / "lock.txt"))
        pip(folder, "--no-deps", str(wheel))
        call(folder, "python", "-m", "pip", "check")
    else:
        print("lock.txt is of another platform: installed without hashes")
        pip(folder, "-c", str(ROOT / "constraints.txt"), str(wheel))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (quick_start,) = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
    work = folder / "work"
    work.mkdir()
    (work / "quick_start.py").write_text(quick_start, encoding="utf-8")
    call(folder, "python", "quick_start.py")
    call(folder, "viewgap", "methods")
    check_import(folder)


def check_light(wheel: Path, python: str, version: str, folder: Path) -> None:
    subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
    (folder / "work").mkdir()
    pip(folder, "-c", str(ROOT / "constraints.txt"), *LIGHT)
    pip(folder, "--no-deps", str(wheel))
    package = folder / "env" / "lib" / f"python{version}" / "site-packages" / "viewgap"
    call(folder, "python", "-m", "compileall", "-q", str(package))
    call(folder, "viewgap", "fit", "--help")
    check_import(folder)


def check_import(folder: Path) -> None:
    """The package comes from the environment, not from the repository, and is light."""
    lines = (
        "import sys, viewgap",
        "assert 'env' in viewgap.__file__, viewgap.__file__",
        "assert not {'torch', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)",
        "assert viewgap.__version__[0].isdigit()",
    )
    call(folder, "python", "-c", "\n".join(lines))


def pip(folder: Path, *arguments: str) -> None:
    call(folder, "python", "-m", "pip", "install", "-q", "--no-compile", *arguments)


def call(folder: Path, program: str, *arguments: str) -> None:
    """Run a program of the environment, away from the repository."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    place = folder / "work"
    done = subprocess.run(
        [str(folder / "env" / "bin" / program), *arguments],
        cwd=place if place.is_dir() else folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{program} {' '.join(arguments)}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
