"""The networks of a committee dealt out to processes: each trains some of them, on whole batches.

No step waits for another process; after every epoch all take each network from the one that has
trained it. The numbers are those of one process, to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from viewgap.training.batches import BatchSource, Step
from viewgap.training.committee import networks_of
from viewgap.training.divergence import broken_term, divergence, in_batch
from viewgap.training.fit_state import FitState
from viewgap.training.processes import ProcessGroup
from viewgap.training.settings import TrainingSettings
from viewgap.training.steps import PlainSteps


class DealtSteps(PlainSteps):
    """Process r of W trains the networks r, r + W, ..."""

    def __init__(
        self, state: FitState, source: BatchSource, settings: TrainingSettings, group: ProcessGroup
    ) -> None:
        super().__init__(state, source, settings)
        self._group = group
        self._networks = networks_of(state.network)
        self._own = range(group.rank, len(self._networks), group.world_size)
        self._names: list[str] = []

    def run(self, batches: Sequence[Sequence[Tensor]]) -> dict[str, Tensor]:
        """See `Steps`. Which rows and views the batches have is drawn for all networks."""
        state, layout = self._state, self._state.network.layout
        epochs = [self._source.epoch(own, layout, state.order) for own in batches]
        wanted = [epochs[k] for k in self._own] if len(epochs) > 1 else epochs
        n_steps, found = epochs[0].n_batches, []
        if self._own:
            with self._source.steps(wanted) as steps:
                for number, step in enumerate(steps, start=1):
                    found.append(self._train_own(step, number, n_steps))
        else:
            for _ in range(n_steps):
                self._update()
        self._exchange()
        return self._sums(found, n_steps)

    def _train_own(self, step: Step, number: int, count: int) -> Tensor:
        """A step of the own networks; their loss terms, (networks, terms)."""
        indices, batches = step
        networks, share = [self._networks[k] for k in self._own], 1.0 / len(self._networks)
        own_batches = batches if len(batches) > 1 else batches * len(networks)
        self._state.optimiser.zero_grad(set_to_none=True)
        found: list[dict[str, Tensor]] = []
        for network, batch in zip(networks, own_batches, strict=True):
            terms = network.loss_terms(batch)
            (share * torch.stack(list(terms.values())).sum()).backward()
            found.append({name: share * value.detach() for name, value in terms.items()})
        self._names = list(found[0])
        named = ({name: float(value) for name, value in terms.items()} for terms in found)
        for broken in filter(None, map(broken_term, named)):
            ids = [self._source.sample_ids(index.rows) for index in indices]
            raise divergence(self._state.epoch, f"{broken} {in_batch(number, count, ids)}")
        self._update()
        return torch.stack([torch.stack(list(terms.values())) for terms in found])

    def _update(self) -> None:
        """Clipping by the gradients of all networks, optimiser, average."""
        state, settings = self._state, self._settings
        average = state.next_average_step(settings.ema_decay)
        if settings.max_grad_norm > 0:
            norms = [
                (p.new_zeros(()) if p.grad is None else torch.linalg.vector_norm(p.grad))
                for p in state.network.parameters()
            ]
            norm = torch.linalg.vector_norm(self._group.sum(torch.stack(norms)))
            scale = ((norm + 1e-6) / settings.max_grad_norm).clamp(min=1.0)
            state.optimiser.grad_scale = scale.float()
        state.optimiser.step()
        state.update_average(average)
        if self._low_precision is not None:
            self._low_precision.refresh()

    @torch.no_grad()
    def _exchange(self) -> None:
        """Take every network, and what the optimiser keeps of it, from its process."""
        state, group = self._state, self._group
        kept = None if state.averaged is None else networks_of(state.averaged)
        for k, network in enumerate(self._networks):
            source = k % group.world_size
            weights = list(network.parameters())
            known = [n for n, p in enumerate(weights) if p in state.optimiser.state]
            tensors = list(network.state_dict().values())
            if kept is not None:
                tensors += kept[k].state_dict().values()
            for n in group.broadcast_object(known, source):
                own = state.optimiser.state.setdefault(weights[n], state.optimiser.new(weights[n]))
                tensors += own.values()
            group.broadcast_all(tensors, source)
            for generator in network.generators():
                drawn = generator.get_state()
                group.broadcast_all([drawn], source)
                generator.set_state(drawn)
        if self._low_precision is not None:
            self._low_precision.refresh()

    def _sums(self, found: Sequence[Tensor], n_steps: int) -> dict[str, Tensor]:
        """Sums of the loss terms over steps, added up in the order of one process."""
        names: list[str] = self._group.broadcast_object(self._names)
        like = next(self._state.network.parameters())
        table = like.new_zeros(n_steps, len(self._networks), len(names))
        if found:
            table[:, list(self._own)] = torch.stack(list(found)).to(table.dtype)
        table, totals = self._group.sum(table), like.new_zeros(len(names))
        for number, step in enumerate(table):
            of_step = torch.stack([step[:, n].sum() for n in range(len(names))])
            totals = of_step if number == 0 else totals + of_step
        return dict(zip(names, totals, strict=True))
