"""The errors and warnings a user of viewgap can catch: one small tree.

The first level tells whose turn it is: `InputError` and the file errors are about what was handed
in, `RunError` is about what the machine did meanwhile. A message says what was expected, what was
found, where, and what to do.
"""

from __future__ import annotations


class ViewgapError(Exception):
    """Everything that viewgap raises on purpose."""


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


class ModelFileError(ViewgapError):
    """A saved model is missing, damaged, or cannot be trusted."""


class RunError(ViewgapError):
    """A run could not go on: diverged, no space, no permission, stopped."""


class ViewgapWarning(UserWarning):
    """Something worth knowing that did not stop the work."""
