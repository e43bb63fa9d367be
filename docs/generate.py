"""Parts of the pages that are made when the documentation is built: methods and source files."""

from __future__ import annotations

import ast
import contextlib
import io
import json
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "viewgap"


def methods() -> str:
    """A table of all methods, as `viewgap methods --json` lists them."""
    from viewgap.cli import run

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(["methods", "--json"]) == 0
    lines = ["| name, class | idea | paper | written from |", "|---|---|---|---|"]
    for entry in json.loads(printed.getvalue()):
        name = f"`{entry['method']}` {{py:obj}}`~viewgap.{entry['class_name']}`"
        cells = (name, entry["summary"], entry["reference"] or "–", entry["certainty"])
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tree() -> str:
    """Every source file with the first line of its docstring, folder by folder."""
    lines: list[str] = []
    for folder in [SOURCE, *sorted(p for p in SOURCE.rglob("*") if (p / "__init__.py").is_file())]:
        name = f"{folder.relative_to(SOURCE.parent)}/"
        lines += [f"### `{name}`", "", first_line(folder / "__init__.py"), ""]
        files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
        if files:
            lines += ["| file | |", "|---|---|"]
            lines += [f"| `{path.name}` | {first_line(path)} |" for path in files]
        lines.append("")
    return "\n".join(lines)


def first_line(path: Path) -> str:
    """The first sentence of a module's docstring, safe inside a table."""
    docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return docstring.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def write(folder: Path) -> None:
    """Write the parts as files that the pages include."""
    folder.mkdir(exist_ok=True)
    for part in (methods, tree):
        (folder / f"{part.__name__}.md").write_text(part() + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(__file__).parent / "generated")
