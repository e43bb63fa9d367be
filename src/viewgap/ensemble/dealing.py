"""The members of an ensemble dealt out to processes: each fits some of them, as if alone.

Longest first, each to the process that has the least to do so far, by estimates of their seconds. A
committee of networks that would keep one process busy when all others have ended is fitted last, by
all of them together: every process trains some of its networks.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import viewgap.strict_json as strict_json
from viewgap.ensemble.kept_members import member_of, state_of
from viewgap.ensemble.members import Member
from viewgap.errors import RunError, ViewgapError
from viewgap.methods.base import MultiViewClassifier
from viewgap.methods.fitting.processes import several_processes
from viewgap.state import State
from viewgap.training.processes import ProcessGroup, alone, dealt_committees

Results = dict[str, Member | str]
Models = dict[str, MultiViewClassifier]

# What the exchange after an epoch costs every process, for each process that takes part, in steps
# of the whole committee: 0.3 to 0.4 of long steps (`benchmarks/processes.json`), 0.5 of short ones.
_EXCHANGE = 0.5


@dataclass(frozen=True)
class Costs:
    """Of a member: about how many seconds it takes; of a committee, networks and steps an epoch."""

    seconds: float
    networks: int = 1
    steps: int = 1

    def together(self, processes: int) -> float:
        """Seconds by all processes, each with its networks."""
        own = math.ceil(self.networks / processes) / self.networks
        return self.seconds * (own + _EXCHANGE * processes / self.steps)


@dataclass(frozen=True)
class Split:
    """Which process fits a member (`owner`), and what all fit together, after that."""

    owner: Mapping[str, int]
    together: Sequence[str] = ()

    @classmethod
    def of(cls, costs: Mapping[str, Costs], processes: int, committee: str = "auto") -> Split:
        """The split that is expected to end first; `committee` as in `process_group`."""
        committees = [name for name, cost in costs.items() if cost.networks > 1]
        committees.sort(key=lambda name: -costs[name].seconds)
        fewest = len(committees) if committee == "deal" else 0
        most = 0 if committee == "share" else len(committees)
        best, least = None, math.inf
        for count in range(fewest, most + 1):
            together = [name for name in costs if name in committees[:count]]
            owner, seconds = _deal_out(costs, together, processes)
            seconds += sum(costs[name].together(processes) for name in together)
            if seconds < least:
                best, least = cls(owner, together), seconds
        assert best is not None  # noqa: S101  (there is always one to try)
        return best


def _deal_out(
    costs: Mapping[str, Costs], without: Sequence[str], processes: int
) -> tuple[dict[str, int], float]:
    """Longest first to the least busy; the process of each, and the seconds of the busiest."""
    busy, owner = [0.0] * processes, {}
    for name in sorted(costs, key=lambda name: -costs[name].seconds):
        if name not in without:
            owner[name] = busy.index(min(busy))
            busy[owner[name]] += costs[name].seconds
    return owner, max(busy)


def fit_dealt_out(
    models: Mapping[str, MultiViewClassifier],
    parent: MultiViewClassifier,
    n_rows: int,
    costs: Callable[[], Mapping[str, Costs]],
    fit: Callable[[Models, Models, Results], None],
) -> Results:
    """Let every process fit its members, and then all what they fit together.

    `fit` adds the results of the members that it is given first, in their order; those that it is
    given second are fitted later. What it fails with is raised by every process: of several errors
    of members that processes fit alone that of the first member. `costs` are asked of one process.
    """
    group, results = several_processes(), Results()
    if group is None:
        fit(dict(models), {}, results)
        return results
    split: Split = group.on_main(lambda: Split.of(costs(), group.world_size, group.committee))
    later = {name: models[name] for name in split.together}
    own = {name: m for name, m in models.items() if split.owner.get(name) == group.rank}
    failed: Exception | None = None
    with group.long_wait() as wait:
        with warnings.catch_warnings(record=True) as said, alone():
            try:
                fit(own, later, results)
            except Exception as error:
                failed = error
        wait()
        texts = group.gather_objects([(w.category, str(w.message)) for w in said])
    for kind, text in (one for own_texts in texts for one in own_texts):
        warnings.warn(text, kind, stacklevel=2)
    for name, model in models.items():
        if name in later:
            continue
        source = split.owner[name]
        if source == group.rank:
            _send(group, results.get(name), failed)
            continue
        found, interrupted = group.broadcast_object(None, source)
        if isinstance(found, Exception):
            raise found
        if not isinstance(found, str):
            found = member_of(found, name, model, parent, n_rows)
            found.model.interrupted_ = interrupted
        results[name] = found
    with dealt_committees():
        fit(later, {}, results)
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
