"""A list of what a wheel needs (SBOM, CycloneDX 1.6), from the metadata of what is installed.

    python tools/sbom.py dist

writes `dist/viewgap-VERSION.cdx.json` for the wheel in `dist`: the wheel with its SHA-256, every
package that the library needs (scope "required") and those that an extra adds ("optional"), with
version, licence and, where lock-all.txt has this version, the hash of its wheel; and who needs
whom. Versions are those of the environment that the tests ran in. Same input, same bytes: time
and serial number come from the wheel.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections.abc import Mapping
from email.message import Message
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from installed import Installed, closure, in_wheel
from lock import NOT_FOR_USERS, ROOT, sha256

NAME = "viewgap"
LOCKED = re.compile(r"^(\S+)==(\S+) \\\n +--hash=sha256:(\w{64})$", re.M)


def main(dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    sbom = describe(wheel)
    problems = check(sbom)
    if problems:
        sys.exit("\n".join(problems))
    out = dist / f"{NAME}-{sbom['metadata']['component']['version']}.cdx.json"
    out.write_text(json.dumps(sbom, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{out.name}: {len(sbom['components'])} packages")


# ------------------------------------------------------------------ what is listed


def describe(wheel: Path) -> dict[str, Any]:
    """The list for this wheel, as JSON."""
    ours = in_wheel(wheel)
    needed = closure(ours)
    listed = closure(ours, set(ours.metadata.get_all("Provides-Extra") or []) - NOT_FOR_USERS)
    hashes = locked_hashes()
    components = [
        component(name, package, "required" if name in needed else "optional", hashes)
        for name, package in sorted(listed.items())
        if name != NAME
    ]
    own = component(NAME, listed[NAME], "required", {})
    own |= {"type": "library", "hashes": [digest(sha256(wheel))]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, sha256(wheel))}",
        "version": 1,
        "metadata": {"timestamp": built_at(wheel), "component": own},
        "components": components,
        "dependencies": [
            {"ref": purl(name, package), "dependsOn": [purl(n, listed[n]) for n in package.needs]}
            for name, package in sorted(listed.items())
        ],
    }


def component(
    name: str, package: Installed, scope: str, hashes: Mapping[tuple[str, str], str]
) -> dict[str, Any]:
    """One package."""
    reference = purl(name, package)
    found: dict[str, Any] = {"type": "library", "bom-ref": reference, "name": name}
    found |= {"version": package.version, "purl": reference, "scope": scope}
    stated = licence(package.distribution.metadata)
    if stated:
        found["licenses"] = [stated]
    if (name, package.version) in hashes:
        found["hashes"] = [digest(hashes[name, package.version])]
    return found


def purl(name: str, package: Installed) -> str:
    """The package's URL in the sense of the purl specification; no address."""
    return f"pkg:pypi/{name}@{package.version.replace('+', '%2B')}"


def digest(value: str) -> dict[str, str]:
    return {"alg": "SHA-256", "content": value}


def licence(metadata: Message) -> dict[str, Any] | None:
    """What the package says: an SPDX expression, else words of its own."""
    # With the backport importlib_metadata imported, metadata[...] of an absent field is an error.
    expression = metadata.get("License-Expression")
    if expression:
        return {"expression": expression}
    classifiers = metadata.get_all("Classifier") or []
    names = [c.rpartition(" :: ")[2] for c in classifiers if c.startswith("License :: ")]
    first_line = (metadata.get("License") or "").strip().partition("\n")[0]
    name = " / ".join(names) or first_line
    return {"license": {"name": name}} if name else None


def locked_hashes() -> dict[tuple[str, str], str]:
    text = (ROOT / "lock-all.txt").read_text(encoding="utf-8")
    return {(name, version): value for name, version, value in LOCKED.findall(text)}


def built_at(wheel: Path) -> str:
    """SOURCE_DATE_EPOCH, else the time that the files of the wheel have (it is reproducible)."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if epoch:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(epoch)))
    with ZipFile(wheel) as archive:
        year, month, day, hour, minute, second = max(i.date_time for i in archive.infolist())
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"


# ------------------------------------------------------------------ is it complete?


def check(sbom: Mapping[str, Any]) -> list[str]:
    """What is wrong with a list; nothing, if it can be used."""
    everything = [sbom["metadata"]["component"], *sbom["components"]]
    known = [entry["bom-ref"] for entry in everything]
    problems = [f"{ref}: listed twice" for ref in sorted({r for r in known if known.count(r) > 1})]
    for entry in everything:
        missing = [key for key in ("name", "version", "purl", "scope") if not entry.get(key)]
        problems += [f"{entry['bom-ref']}: no {key}" for key in missing]
        if not entry.get("licenses"):
            problems.append(f"{entry['bom-ref']}: no licence")
    told = {entry["ref"]: entry["dependsOn"] for entry in sbom["dependencies"]}
    problems += [f"{ref}: nothing about what it needs" for ref in known if ref not in told]
    strangers = {need for needs in told.values() for need in needs} | set(told)
    problems += [f"{ref}: needed, and not listed" for ref in sorted(strangers - set(known))]
    return problems


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
