"""The networks of a committee dealt out to processes: each trains some of them, on whole batches.

No step waits for another process; after every epoch all take each network from the one that has
trained it. The numbers are those of one process, on a CPU to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from viewgap.training.batches.source import BatchSource
from viewgap.training.committee import networks_of
from viewgap.training.fit_state import FitState
from viewgap.training.processes import ProcessGroup
from viewgap.training.settings import TrainingSettings
from viewgap.training.steps.epoch import Dealt, make_steps


class DealtSteps:
    """Process r of W trains the networks r, r + W, ..."""

    def __init__(
        self, state: FitState, source: BatchSource, settings: TrainingSettings, group: ProcessGroup
    ) -> None:
        self._state, self._group = state, group
        self._networks = networks_of(state.network)
        self._own = range(group.rank, len(self._networks), group.world_size)
        dealt = Dealt(self._own, group.sum, group.device.type == "cuda")
        self._steps = make_steps(state, source, settings, dealt=dealt)

    def run(self, batches: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        """See `Steps`."""
        found = self._steps.run(batches)
        self._exchange()
        self.refresh()
        return self._of_all(found)

    def refresh(self) -> None:
        """See `Steps`."""
        self._steps.refresh()

    def close(self) -> None:
        """See `Steps`."""
        self._steps.close()

    @torch.no_grad()
    def _exchange(self) -> None:
        """Take every network, and what the optimiser keeps of it, from its process."""
        state, group = self._state, self._group
        kept = None if state.averaged is None else networks_of(state.averaged)
        told = group.gather_objects({k: self._facts_of(k) for k in self._own})
        facts = {k: found for own in told for k, found in own.items()}
        for k, network in enumerate(self._networks):
            weights = list(network.parameters())
            tensors = list(network.state_dict().values())
            if kept is not None:
                tensors += kept[k].state_dict().values()
            known, drawn = facts[k]
            for n in known:
                own = state.optimiser.state.setdefault(weights[n], state.optimiser.new(weights[n]))
                tensors += own.values()
            group.broadcast_all(tensors, k % group.world_size)
            for generator, drawn_by in zip(network.generators(), drawn, strict=True):
                generator.set_state(drawn_by)

    def _facts_of(self, k: int) -> tuple[list[int], list[Tensor]]:
        """Of which weights of a network the optimiser keeps something, and what was drawn."""
        network, known = self._networks[k], self._state.optimiser.state
        numbers = [n for n, p in enumerate(network.parameters()) if p in known]
        return numbers, [generator.get_state() for generator in network.generators()]

    def _of_all(self, found: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums of the loss terms of all networks."""
        names: list[str] = self._group.broadcast_object(list(found))
        like = next(self._state.network.parameters())
        table = like.new_zeros(len(names), len(self._networks))
        if found:
            table[:, list(self._own)] = torch.stack(list(found.values())).to(table.dtype)
        return dict(zip(names, self._group.sum(table), strict=True))
