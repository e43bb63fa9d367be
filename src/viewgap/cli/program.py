"""The program `viewgap`: its commands, and what an error looks like from outside."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from viewgap.cli import (
    bench,
    compare,
    completion,
    datasets,
    decisions,
    explanation,
    inspection,
    model,
    model_files,
    model_report,
    prediction,
    serving,
    tuning,
)
from viewgap.cli.job import LAUNCHER
from viewgap.cli.output import (
    AsJson,
    print_json,
    print_rows,
    print_table,
    say,
    show_help_without_command,
)
from viewgap.errors import (
    SettingError,
    ViewgapError,
    ViewgapWarning,
    command_line_words,
    is_out_of_memory,
    printable,
)
from viewgap.interruption import Interrupted, termination_as_interrupt

# 3 is for `viewgap check`: suspicious data. 70 is what sysexits.h calls an internal error.
DONE, BAD_DATA, MISUSE, FAULT, INTERRUPTED, TERMINATED = 0, 1, 2, 70, 130, 143

app = typer.Typer(
    name="viewgap",
    help="Multi-label classification for data in several views, when views and labels are missing.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(inspection.inspect)
app.command()(compare.compare)
app.command()(completion.complete)
app.command()(model.fit)
app.command()(tuning.tune)
app.command()(prediction.check)
app.command()(prediction.predict)
app.command()(decisions.calibrate)
app.command()(decisions.decide)
app.command()(explanation.explain)
app.command()(explanation.suggest)
app.command()(model.evaluate)
app.command()(prediction.info)
app.command()(model_files.verify)
app.command()(model_files.export)
app.command()(model_files.push)
app.command()(serving.serve)
app.command()(model_report.report)
app.add_typer(datasets.app, name="datasets")
app.add_typer(bench.app, name="bench")


@app.command()
def methods(json: AsJson = False) -> None:
    """List the methods, one line each."""
    from dataclasses import asdict

    from viewgap.methods import names

    if json:
        from viewgap.methods.catalogue import catalogue

        print_json([asdict(entry) for entry in catalogue()])
        return
    from viewgap.methods.catalogue import read_metadata

    found = {name: read_metadata(name) for name in names()}
    rows = [
        {
            "method": name,
            "year": str(own.year or ""),
            "summary": own.summary,
            "certainty": own.certainty or "baseline",
        }
        for name, own in found.items()
    ]
    print_rows(rows)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for results.json and report.html.")] = Path(
        "out/demo"
    ),
    folds: Annotated[int, typer.Option(min=1, max=10, help="How many folds to run.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the records as JSON.")] = False,
) -> None:
    """Train SCSD and baselines, print a table, write a report.

    The data is MultiDigits with half of the views and half of the training labels missing.
    """
    from viewgap.demo import run_demo

    result = run_demo(out, folds=folds)
    if json:
        print_json([record.to_dict() for record in result.records])
    else:
        print_table(result.table)
    say(f"results {result.results}")
    say(f"report {result.report}")


@app.callback(invoke_without_command=True)
def _about(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        import viewgap

        print(viewgap.__version__)
        raise typer.Exit
    show_help_without_command(context)


def main() -> None:
    """Entry point of the program."""
    code = run(sys.argv[1:])
    if LAUNCHER in os.environ:  # threads of a process group do not always survive an orderly exit
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors become one line on stderr."""
    with _notes_on_stderr(), command_line_words(), termination_as_interrupt() as terminations:
        try:
            result = app(
                args=list(arguments),
                prog_name="viewgap",
                standalone_mode=False,
                obj=tuple(arguments),  # for commands that say how to go on
            )
            sys.stdout.flush()
        except BrokenPipeError:
            return _quiet_end()
        except SystemExit as end:  # how typer ends when the reader of a pipe has gone
            return end.code if isinstance(end.code, int) else FAULT
        except (KeyboardInterrupt, typer.Abort) as error:
            signals = (one for one in (error, error.__cause__) if isinstance(one, Interrupted))
            result = next((one.exit_code for one in signals), INTERRUPTED)
        except Exception as error:
            return _explain(error)
    if result == INTERRUPTED and terminations:  # some typer make 130 of any interrupt
        result = terminations[0].exit_code
    if result in (INTERRUPTED, TERMINATED) and LAUNCHER not in os.environ:
        _say("interrupted")
    return result if isinstance(result, int) else DONE


def _explain(error: Exception) -> int:
    if isinstance(error, ViewgapError):
        _say(str(error))
        return MISUSE if isinstance(error, SettingError) else BAD_DATA
    if is_out_of_memory(error):
        _say(f"not enough memory ({error}); use less data at a time or a machine with more memory")
        return BAD_DATA
    describe = getattr(error, "format_message", None)  # typer's own: the command line is wrong
    if describe is not None:
        context: Any = getattr(error, "ctx", None)
        command = context.command_path if context else "viewgap"
        _say(f"{describe()} (see {command} --help)")
        return MISUSE
    print(printable("".join(traceback.format_exception(error, limit=-20))), file=sys.stderr)
    _say(
        f"internal error: {type(error).__name__}: {error}. This is a fault of viewgap, not of "
        "your data; please report it with the lines above"
    )
    return FAULT


def _say(text: str) -> None:
    say(f"viewgap: {text}")


def _quiet_end() -> int:
    # what is still buffered must not raise once more when the interpreter closes stdout
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BAD_DATA


@contextlib.contextmanager
def _notes_on_stderr() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("always", ViewgapWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, ViewgapWarning):
                _say(f"note: {message}")
            else:
                usual(message, category, *rest, **more)

        warnings.showwarning = show
        yield
