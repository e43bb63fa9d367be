"""The errors and warnings a user of viewgap can catch: one small tree.

The first level tells whose turn it is: `InputError` and the file errors are about what was handed
in, `RunError` is about what the machine did meanwhile. A message says what was expected, what was
found, where, and what to do, in the words of the place it appears in: `parameter` names the option
on the command line and the parameter in Python.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path


class ViewgapError(Exception):
    """Everything that viewgap raises on purpose."""

    def __str__(self) -> str:
        return printable(super().__str__())


class InputError(ViewgapError, ValueError):
    """Something passed by the user cannot be used as it is."""


class ViewError(InputError):
    """A view has the wrong shape, type, name or values."""


class LabelError(InputError):
    """The label matrix has the wrong shape, type or values."""


class EmptyRowsError(InputError):
    """Some samples have no observed view at all."""


class SettingError(InputError):
    """A parameter has a value outside its range."""


class DataFileError(ViewgapError):
    """A data file is missing, damaged, or not what its name says."""


def damaged_file(path: Path, reason: object) -> DataFileError:
    """Return the error for a data file whose contents cannot be read."""
    return DataFileError(
        f"{path}: the file is damaged or not what its name says ({reason}); "
        "get a fresh copy of it and compare the checksums"
    )


class ModelFileError(ViewgapError):
    """A saved model is missing, damaged, or cannot be trusted."""


class CheckpointError(ViewgapError):
    """A checkpoint or study is there already, belongs to another fit, or is damaged."""


class RunError(ViewgapError):
    """A run could not go on: diverged, no space, no permission, stopped."""


class LostProcessesError(RunError):
    """Another process of the same fit has ended, or cannot be reached."""


class ViewgapWarning(UserWarning):
    """Something worth knowing that did not stop the work."""

    def __str__(self) -> str:
        return printable(super().__str__())


class ViewgapDeprecationWarning(ViewgapWarning, FutureWarning):
    """An old name was used that works for one more release."""


# ---------------------------------------------------------------------- text from outside

# Marks that change the direction of the text around them: a name could look like another one.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def printable(text: str) -> str:
    """Return text that cannot command a terminal: control characters are written as `\\x1b`.

    Names, ids, paths and answers of servers come from outside and stand in messages. Line breaks
    and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(letter) if is_control(letter) else letter for letter in text)


def is_control(letter: str) -> bool:
    """Whether a letter commands the terminal, or cannot be written at all."""
    if letter in "\n\t":
        return False
    return unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") or letter in _DIRECTIONS


def _escaped(letter: str) -> str:
    number = ord(letter)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def first_few(items: Iterable[object], most: int = 5) -> str:
    """Return the first of many names for a message, as in `a, b, ...`."""
    first = list(islice(items, most + 1))
    return ", ".join(map(str, first[:most])) + (", ..." if len(first) > most else "")


def counted(number: int, noun: str) -> str:
    """Return `1 column`, `1,200 columns`."""
    return f"{number:,} {noun if number == 1 else noun + 's'}"


# ---------------------------------------------------------------------- memory

_TORCH_OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, numpy or torch say with this error that memory has ended."""
    if isinstance(error, MemoryError):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in text for words in _TORCH_OUT_OF_MEMORY)


@contextmanager
def typed_memory_errors(doing: str, advice: str) -> Iterator[None]:
    """Raise `RunError` where memory ends, with what was being done and what helps."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, ViewgapError) or not is_out_of_memory(error):
            raise
        text = str(error).strip().partition("\n")[0][:200]
        reason = f" ({text})" if text else ""
        raise RunError(f"not enough memory {doing}{reason}; {advice}") from error


# ---------------------------------------------------------------------- words of the place

_OPTIONS = {
    "checkpoint_dir": "--checkpoint",
    "confidence_level": "--confidence-level",
    "cv": "--folds",
    "groups": "--groups",
    "metric": "--metric",
    "time_limit": "--time-limit",
    "decimal": "--decimal",
    "id_column": "--id-column",
    "label_columns": "--label-columns",
    "label_separator": "--label-separator",
    "nan": "--missing",
    "overwrite": "--overwrite",
    "params": "--set",
    "per_label": "--per-label",
    "profile": "--profile",
    "random_state": "--seed",
    "resume": "--resume",
    "search": "--search",
    "study_dir": "--out",
    "target_level": "--target-level",
    "time_budget": "--time-budget",
    "trials": "--trials",
    "variant": "--variant",
    "Y": "--labels",
    "labels": "--labels",
    "views": "--views",
}
_on_command_line: ContextVar[bool] = ContextVar("on_command_line", default=False)


@contextmanager
def command_line_words(enabled: bool = True) -> Iterator[None]:
    """Messages made inside name options of the command line instead of parameters of Python."""
    token = _on_command_line.set(enabled)
    try:
        yield
    finally:
        _on_command_line.reset(token)


def parameter_words() -> AbstractContextManager[None]:
    """Messages made inside name parameters, wherever they appear."""
    return command_line_words(enabled=False)


def parameter(name: str, value: object = None) -> str:
    """Return a parameter as the reader of a message would type it.

    `nan='missing_view'` in Python, `--missing missing_view` on the command line. With no value,
    or with True for an option that is a switch, the option stands alone.
    """
    if not _on_command_line.get():
        return name if value is None else f"{name}={value!r}"
    option = _OPTIONS.get(name)
    if option is None:
        return f"--set {name}" if value is None else f"--set {name}={value}"
    return option if value is None or value is True else f"{option} {value}"


def remedy(python: str, command_line: str) -> str:
    """Return what to do, where Python and the command line have different ways to do it."""
    return command_line if _on_command_line.get() else python
