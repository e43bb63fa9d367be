"""AdamW and SGD by the fused operations of torch.

`torch.optim` imports torch's compiler with the first optimiser that is made, which takes one to two
seconds of the first fit of every process; these call the same operations without it. The state is
named as there, so that saved fits can be continued.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Optimiser(ABC):
    """One group of parameters, and what is kept about each of them.

    `grad_scale`: a number () that gradients are divided by while they are read; None = as they are.
    """

    def __init__(self, parameters: Iterable[Tensor], **options: Any) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": list(parameters), **options}]
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self.grad_scale: Tensor | None = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        parameters = [p for p in self.param_groups[0]["params"] if p.grad is not None]
        if parameters:
            self._update(parameters, [p.grad for p in parameters])

    @abstractmethod
    def _update(self, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        """Update these parameters."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or set them to zero."""
        for parameter in self.param_groups[0]["params"]:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def state_dict(self) -> dict[str, Any]:
        """What is kept, by the number of the parameter."""
        numbers = {p: number for number, p in enumerate(self.param_groups[0]["params"])}
        return {"state": {numbers[p]: dict(own) for p, own in self.state.items()}}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Continue from what `state_dict` gave, copied to where the parameters are.

        Anything of another shape is a ValueError: the fused operations would read beyond its end.
        """
        parameters = self.param_groups[0]["params"]
        self.state = {}
        for number, own in saved["state"].items():
            self._check_state(parameters[number], own)
            device = parameters[number].device
            copies = {name: value.to(device).clone() for name, value in own.items()}
            self.state[parameters[number]] = copies

    def _check_state(self, parameter: Tensor, own: dict[str, Tensor]) -> None:
        expected = {name: (like.shape, like.dtype) for name, like in self.new(parameter).items()}
        if {name: (value.shape, value.dtype) for name, value in own.items()} != expected:
            raise ValueError("the state of the optimiser does not fit the parameters")

    @abstractmethod
    def new(self, parameter: Tensor) -> dict[str, Tensor]:
        """What is kept about a parameter before its first step."""


class AdamW(Optimiser):
    """Adam with decoupled weight decay (`torch.optim.AdamW` with `fused=True`)."""

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        weight_decay: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, betas=betas, eps=eps)

    def new(self, parameter: Tensor) -> dict[str, Tensor]:
        """See `Optimiser`."""
        return {
            "step": torch.zeros((), dtype=torch.float32, device=parameter.device),
            "exp_avg": torch.zeros_like(parameter),
            "exp_avg_sq": torch.zeros_like(parameter),
        }

    def _update(self, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        for parameter in parameters:
            if parameter not in self.state:
                self.state[parameter] = self.new(parameter)
        states, group = [self.state[p] for p in parameters], self.param_groups[0]
        steps = [own["step"] for own in states]
        torch._foreach_add_(steps, 1)
        torch._fused_adamw_(
            parameters,
            gradients,
            [own["exp_avg"] for own in states],
            [own["exp_avg_sq"] for own in states],
            [],
            steps,
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            grad_scale=self.grad_scale,
        )


class SGD(Optimiser):
    """Stochastic gradient descent with momentum (`torch.optim.SGD` with `fused=True`)."""

    def __init__(
        self, parameters: Iterable[Tensor], lr: float, weight_decay: float, momentum: float
    ) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, momentum=momentum)

    def new(self, parameter: Tensor) -> dict[str, Tensor]:
        """See `Optimiser`."""
        return {"momentum_buffer": torch.zeros_like(parameter)}

    def _update(self, parameters: list[Tensor], gradients: list[Tensor]) -> None:
        # With the first step of all, the operation itself fills the buffers with the gradients.
        group, first = self.param_groups[0], not self.state
        for parameter in parameters:
            if parameter not in self.state:
                self.state[parameter] = self.new(parameter)
        torch._fused_sgd_(
            parameters,
            gradients,
            [self.state[p]["momentum_buffer"] for p in parameters],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            momentum=group["momentum"],
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=first,
            grad_scale=self.grad_scale,
        )
