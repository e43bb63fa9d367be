"""The members of an ensemble dealt out to processes: each fits some of them, as if alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping

import viewgap.strict_json as strict_json
from viewgap.ensemble.kept_members import member_of, state_of
from viewgap.ensemble.members import Member
from viewgap.errors import RunError, ViewgapError
from viewgap.methods._processes import several_processes
from viewgap.methods.base import MultiViewClassifier
from viewgap.state import State
from viewgap.training.processes import ProcessGroup, alone

Results = dict[str, Member | str]
Models = dict[str, MultiViewClassifier]


def fit_dealt_out(
    models: Mapping[str, MultiViewClassifier],
    parent: MultiViewClassifier,
    n_rows: int,
    fit: Callable[[Models, Results], None],
) -> Results:
    """Let process r of W fit the members r, r + W, ...; all of them get the results of all.

    `fit` adds the results of the members that it is given, in their order. What it fails with is
    raised by every process: of several errors that of the first member, as in one process.
    """
    group, results = several_processes(), Results()
    if group is None:
        fit(dict(models), results)
        return results
    own = list(models)[group.rank :: group.world_size]
    failed: Exception | None = None
    with group.long_wait() as wait:
        with warnings.catch_warnings(record=True) as said, alone():
            try:
                fit({name: models[name] for name in own}, results)
            except Exception as error:
                failed = error
        wait()
        texts = group.gather_objects([(w.category, str(w.message)) for w in said])
    for kind, text in (one for own_texts in texts for one in own_texts):
        warnings.warn(text, kind, stacklevel=2)
    for number, name in enumerate(models):
        source = number % group.world_size
        if source == group.rank:
            _send(group, results.get(name), failed)
            continue
        found, interrupted = group.broadcast_object(None, source)
        if isinstance(found, Exception):
            raise found
        if not isinstance(found, str):
            found = member_of(found, name, models[name], parent, n_rows)
            found.model.interrupted_ = interrupted
        results[name] = found
    return {name: results[name] for name in models}


def _send(group: ProcessGroup, result: Member | str | None, failed: Exception | None) -> None:
    """Send a result to all others, or why there is none, and fail with that."""
    if isinstance(result, Member):
        state = state_of(result)
        metadata = strict_json.decode(strict_json.encode(state.metadata, "the state of a member"))
        sent = State(state.arrays, metadata)  # as from a file
        group.broadcast_object((sent, result.model.interrupted_), group.rank)
    elif result is not None or failed is None:
        group.broadcast_object((result, False), group.rank)
    else:
        group.broadcast_object((_readable(failed), False), group.rank)
        raise failed


def _readable(error: Exception) -> Exception:
    """The error, or its words, if another process might not be able to read it."""
    known = isinstance(error, ViewgapError) or type(error).__module__ == "builtins"
    if known and all(isinstance(word, str) for word in error.args):
        return error
    return RunError(f"{type(error).__name__}: {error}")
