"""Do damaged and hostile files end in a typed error? `python -m benchmarks.fuzz --help`.

Random damage to a saved model (as it is, and with the checksums made right again), and to data in
every format that the tests write. Each case must end in a `ViewgapError` or in an answer; a saved
model with its old checksums must answer exactly as before or be refused. Cases run in a child
process, so that a crash or a hang is counted, too, and the rest goes on after it.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from benchmarks.record import ROOT

sys.path.insert(0, str(ROOT / "tests" / "helpers"))

OUT = ROOT / "benchmarks" / "fuzz.json"
SECONDS = 20  # a case that takes longer hangs
MODEL_FILES = ("model.json", "weights.safetensors", "checksums.json")
BAD = ("foreign error", "other answer", "hang", "crash")
NUMBERS = (
    b"1e999",
    b"nan",
    b"-1",
    b'"',
    b",,,",
    b"\n",
    b"\xff" * 8,
    bytes(8),
    b"[[[[",
    b"\xef\xbb\xbf",
)


# ------------------------------------------------------------------ damage


def damaged(data: bytes, chance: random.Random) -> bytes:
    """One to four random changes; half of them where formats keep their headers."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        size = len(found)
        ends = min(size, 400)
        place = chance.choice((chance.randrange(size + 1), chance.randrange(ends + 1)))
        place = size - place if chance.random() < 0.25 else place
        length = chance.randint(1, 24)
        match chance.choice(("bit", "bytes", "remove", "repeat", "number", "cut")):
            case "bit" if place < size:
                found[place] ^= 1 << chance.randrange(8)
            case "bytes":
                found[place : place + length] = chance.randbytes(length)
            case "remove":
                del found[place : place + length]
            case "repeat":
                found[place:place] = found[place : place + length]
            case "number":
                word = chance.choice(NUMBERS)
                found[place : place + len(word)] = word
            case "cut" if chance.random() < 0.3:
                del found[place:]
    return bytes(found)


def damaged_inside(data: bytes, chance: random.Random) -> bytes:
    """A zip archive of which one member was damaged before it was packed: its checksum is right."""
    out = BytesIO()
    with zipfile.ZipFile(BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        names = source.namelist()
        hit = chance.choice(names)
        for name in names:
            content = source.read(name)
            target.writestr(name, damaged(content, chance) if name == hit else content)
    return out.getvalue()


# ------------------------------------------------------------------ what is damaged


class Model:
    """A small saved model, and the file of it that is damaged.

    `signed`: with the checksums made right again; `cut`: only cut short, at a place of each case.
    """

    def __init__(self, folder: Path, method: str, file: str, signed: bool, cut: bool) -> None:
        import viewgap

        full = viewgap.load_dataset("synthetic", n_samples=60, seed=0)
        views, labels = viewgap.amputate(full.views, full.labels, seed=0)
        kind = {"late_fusion_ridge": viewgap.LateFusionRidge, "scsd": viewgap.SCSD}[method]
        small = {"n_networks": 2, "hidden": (8,), "embedding": 8, "codebook_size": 8}
        settings = small | {"max_epochs": 1} if method == "scsd" else {}
        viewgap.save_model(kind(random_state=0, **settings).fit(views, labels), folder)
        self.folder, self.rows = folder, views[:8]
        self.file, self.signed, self.cut = file, signed, cut
        self.original = {name: (folder / name).read_bytes() for name in MODEL_FILES}
        self.expected = viewgap.load_model(folder).predict_proba(self.rows)

    def run(self, chance: random.Random) -> str:
        import viewgap

        files = dict(self.original)
        whole = files[self.file]
        cut = whole[: chance.randrange(len(whole))] if self.cut else b""
        files[self.file] = cut if self.cut else damaged(whole, chance)
        if self.signed:
            sums = {n: checksum(files[n]) for n in MODEL_FILES[:2]}
            files["checksums.json"] = json.dumps(sums).encode()
        for name, content in files.items():
            (self.folder / name).write_bytes(content)
        found = viewgap.load_model(self.folder).predict_proba(self.rows)
        same = found.tobytes() == self.expected.tobytes()
        return "answered" if same or self.signed else "other answer"


class Data:
    """The data of the tests in one format."""

    def __init__(self, folder: Path, format_: str) -> None:
        from written_data import WRITERS, small_cll

        folder.mkdir()
        self.written = WRITERS[format_](folder, small_cll())
        self.original = {path: path.read_bytes() for path in files_of(self.written)}
        read_all(self.written)  # undamaged it can be read

    def run(self, chance: random.Random) -> str:
        path = chance.choice(list(self.original))
        content = self.original[path]
        inside = zipfile.is_zipfile(path) and chance.random() < 0.5
        path.write_bytes((damaged_inside if inside else damaged)(content, chance))
        try:
            read_all(self.written)
        finally:
            path.write_bytes(content)
        return "answered"


def files_of(written: Any) -> list[Path]:
    """The files of data that the tests wrote."""
    path = written.path
    return sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]


def read_all(written: Any) -> None:
    """Read data that the tests wrote, every value."""
    from viewgap.data.formats import read_data

    data = read_data(written.path, **written.options)
    for name in data.views.names:
        data.views.rows(name)


def checksum(content: bytes) -> dict[str, Any]:
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def targets() -> dict[str, Callable[[Path], Model | Data]]:
    """What can be damaged, by name."""
    from written_data import WRITERS

    def model(*how: Any) -> Callable[[Path], Model]:
        return lambda folder: Model(folder, *how)

    def data(format_: str) -> Callable[[Path], Data]:
        return lambda folder: Data(folder, format_)

    found: dict[str, Callable[[Path], Model | Data]] = {}
    for method in ("late_fusion_ridge", "scsd"):
        for file in MODEL_FILES:
            found[f"model {method} {file}"] = model(method, file, False, False)
            found[f"model {method} {file}, cut"] = model(method, file, False, True)
            if file != MODEL_FILES[-1]:
                found[f"model {method} {file}, signed again"] = model(method, file, True, False)
    return found | {f"data {name}": data(name) for name in WRITERS}


# ------------------------------------------------------------------ in the child


class TooLong(BaseException):
    """Raised by the alarm; no handler of errors takes it for one."""


def work(target: str, first: int, last: int, seed: int) -> None:
    """Run cases; a line when one begins and one when it ends."""

    def stop(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, stop)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        thing = targets()[target](Path(folder) / "thing")
        for number in range(first, last):
            print(json.dumps({"begin": number}), flush=True)
            start = time.process_time()
            signal.alarm(SECONDS)
            faulthandler.dump_traceback_later(2 * SECONDS, exit=True)  # where no signal is heard
            outcome, detail = attempt(thing, random.Random(f"{seed} {target} {number}"))
            signal.alarm(0)
            faulthandler.cancel_dump_traceback_later()
            took = round(time.process_time() - start, 3)
            print(json.dumps({"case": number, "outcome": outcome, "detail": detail, "s": took}))


def attempt(thing: Model | Data, chance: random.Random) -> tuple[str, str]:
    from viewgap.errors import ViewgapError

    try:
        return thing.run(chance), ""
    except ViewgapError as error:
        return "refused", type(error).__name__
    except TooLong:
        return "hang", ""
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno}"
        return "foreign error", f"{type(error).__name__}: {error} at {where}"[:300]


# ------------------------------------------------------------------ in the parent


def fuzz(target: str, cases: int, seed: int) -> dict[str, Any]:
    """All cases of one target: how they ended, and what must not be."""
    ended: list[dict[str, Any]] = []
    first = 0
    while first < cases:
        ended += list(_child(target, first, cases, seed))
        first = ended[-1]["case"] + 1
    found = [entry for entry in ended if entry["outcome"] in BAD]
    counts = dict(Counter(entry["outcome"] for entry in ended))
    slowest = max(entry.get("s", 0.0) for entry in ended)
    return {"target": target, "cases": cases, "ended": counts, "slowest_s": slowest, "bad": found}


def _child(target: str, first: int, last: int, seed: int) -> Iterator[dict[str, Any]]:
    command = [sys.executable, "-m", "benchmarks.fuzz", "--seed", str(seed), "--child"]
    done = subprocess.run(
        [*command, target, str(first), str(last)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    begun = [line["begin"] for line in lines if "begin" in line]
    ended = [line for line in lines if "case" in line]
    if not begun:
        raise RuntimeError(
            f"{target}: the child ended with {done.returncode} before its first case"
        )
    yield from ended
    if done.returncode and (not ended or ended[-1]["case"] < begun[-1]):
        yield {"case": begun[-1], "outcome": "crash", "detail": f"ended with {done.returncode}"}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="of every target")
    parser.add_argument(
        "--only", default="", metavar="REGEX", help="targets with this in their name"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT, help="file to keep the figures in")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.child:
        target, first, last = options.child
        work(target, int(first), int(last), options.seed)
        return 0
    from benchmarks.machine import machine_name

    command = f"python -m benchmarks.fuzz --cases {options.cases} --seed {options.seed}"
    command += f" --only '{options.only}'" if options.only else ""
    results = []
    for target in (name for name in targets() if re.search(options.only, name)):
        results.append(fuzz(target, options.cases, options.seed))
        found = {"command": command, "machine": machine_name("cpu"), "targets": results}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        line = f"{target}: {results[-1]['ended']}, slowest {results[-1]['slowest_s']} s"
        print(line, file=sys.stderr, flush=True)
        for entry in results[-1]["bad"][:5]:
            print(f"  {entry}", file=sys.stderr, flush=True)
    return 1 if any(result["bad"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
