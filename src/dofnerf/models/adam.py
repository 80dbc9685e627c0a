"""Adam with a learning rate for each group of parameters: PyTorch's fused step without its class.

To make a `torch.optim.Adam` imports the whole of torch's compiler, which takes seconds, in every training. Its function
does the same arithmetic, bit by bit, and the state has the same names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam


class Adam:
    """`param_groups` are as in PyTorch, each with `params`, `lr` and `betas`. `state` has, of each parameter that was
    moved, `exp_avg`, `exp_avg_sq` and `step`, the number of steps as float32."""

    def __init__(self, groups: Sequence[Mapping[str, Any]], eps: float) -> None:
        self.param_groups: list[dict[str, Any]] = [{"lr": 0.0, **group} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}
        self.eps = eps

    def zero_grad(self) -> None:
        for value in self._parameters():
            value.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters that have a gradient."""
        for group in self.param_groups:
            values = [value for value in group["params"] if value.grad is not None]
            self.state |= {value: _nothing(value) for value in values if value not in self.state}
            states = [self.state[value] for value in values]
            mean, square, count = ([one[name] for one in states] for name in ("exp_avg", "exp_avg_sq", "step"))
            adam(
                values,
                [value.grad for value in values],
                mean,
                square,
                [],
                count,
                fused=True,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=0.0,
                eps=self.eps,
                maximize=False,
            )

    def state_of(self) -> dict[int, dict[str, Tensor]]:
        """The state by the number of the parameter, over all groups."""
        return {i: self.state[value] for i, value in enumerate(self._parameters()) if value in self.state}

    def restore(self, state: Mapping[int, Mapping[str, Tensor]]) -> None:
        """Take over what `state_of` gave."""
        parameters = self._parameters()
        self.state = {
            parameters[i]: {name: tensor.to(parameters[i].device, copy=True) for name, tensor in one.items()}
            for i, one in state.items()
        }

    def _parameters(self) -> list[nn.Parameter]:
        return [value for group in self.param_groups for value in group["params"]]


def _nothing(value: nn.Parameter) -> dict[str, Tensor]:
    moments = {name: torch.zeros_like(value.detach()) for name in ("exp_avg", "exp_avg_sq")}
    return {**moments, "step": torch.zeros((), dtype=torch.float32, device=value.device)}
