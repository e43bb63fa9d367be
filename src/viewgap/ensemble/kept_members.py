"""Members of an ensemble in a checkpoint: those that ended are not fitted again.

A network that was at work goes on from its own epochs, in the same folder; any other method that
was at work begins again.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from urllib.parse import quote

import numpy as np

from viewgap.checkpoints import FINISHED, LEFT_OUT, MEMBERS, CheckpointFolder
from viewgap.ensemble.members import PARTS, Member, share
from viewgap.errors import CheckpointError
from viewgap.methods.base import MultiViewClassifier
from viewgap.state import State
from viewgap.training.processes import is_main_process


def state_of(member: Member) -> State:
    """A fitted member and its answers, for a file or another process."""
    state = member.model._get_state()
    arrays = {f"model/{name}": array for name, array in state.arrays.items()}
    arrays["out_of_fold"] = np.asarray(member.out_of_fold, dtype=np.float64)
    return State(arrays, {"model": state.metadata, "seconds": member.seconds})


def member_of(
    state: State, name: str, model: MultiViewClassifier, parent: MultiViewClassifier, n_rows: int
) -> Member:
    """The member of which this is the state; the unfitted `model` becomes it."""
    shape = (n_rows, len(parent.label_names_))
    out_of_fold = state.array("out_of_fold", shape, np.float64)
    share(parent, model)
    model._only_predicts = True
    model._set_state(State(state.part("model/"), state.metadata["model"]))
    model.is_fitted_ = True
    return Member(name, model, out_of_fold, float(state.metadata["seconds"]))


class KeptMembers:
    """What a checkpoint knows of the members; without one, nothing."""

    def __init__(self, root: CheckpointFolder | None) -> None:
        self._root = root

    def folder(self, name: str) -> CheckpointFolder | None:
        """Where a member is kept."""
        return None if self._root is None else self._root.child(MEMBERS, quote(name, safe=""))

    def seconds(self, names: Iterable[str]) -> float:
        """How long earlier processes were at work on these members."""
        folders = [self.folder(name) for name in names]
        return sum(folder.peek()[1] for folder in folders if folder is not None)

    def has_ended(self, name: str) -> bool:
        """Whether there is nothing more to do for a member."""
        folder = self.folder(name)
        return folder is not None and folder.has_ended()

    def is_begun(self, name: str) -> bool:
        """Whether anything is known of a member."""
        folder = self.folder(name)
        return folder is not None and folder.peek()[0] is not None

    def find(
        self, name: str, model: MultiViewClassifier, parent: MultiViewClassifier, n_rows: int
    ) -> Member | str | None:
        """A member that was fitted, or why one was left out; None where it has not ended.

        `model`: the unfitted method, which becomes the member.
        """
        folder = self.folder(name)
        loaded = None if folder is None or not self.has_ended(name) else folder.load()
        if folder is None or loaded is None:
            return None
        step, state = loaded
        try:
            if step == LEFT_OUT:
                return str(state.metadata["note"])
            return member_of(state, name, model, parent, n_rows)
        except Exception as error:  # whatever a method's own reading of a strange state ends in
            raise CheckpointError(
                f"{folder.path} does not hold this member ({str(error)[:200]}); delete it to fit "
                "the member again"
            ) from error

    def keep(self, member: Member) -> None:
        """Keep a fitted member and its answers; of one that all fit together the first does."""
        folder = self.folder(member.name)
        if folder is None or not is_main_process():
            return
        folder.save(FINISHED, state_of(member), seconds=member.seconds)
        shutil.rmtree(folder.path / PARTS, ignore_errors=True)

    def keep_note(self, name: str, note: str, seconds: float) -> None:
        """Keep that a member was left out, so that it is not tried again."""
        folder = self.folder(name)
        if folder is not None and is_main_process():
            folder.save(LEFT_OUT, State({}, {"note": note}), seconds=seconds)
