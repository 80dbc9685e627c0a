"""Adam against PyTorch's class."""

import torch
from torch import nn

from dofnerf.models.adam import Adam


def parameters():
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator)) for shape in ((7, 3), (5,), (2,))]


def run(values, adam, steps):
    for step in steps:
        adam.zero_grad()
        loss = values[0].sin().sum() + (values[1] * (step + 1)).square().sum()
        (loss + values[2].sum() if step > 2 else loss).backward()
        adam.param_groups[0]["lr"] = 0.1 * 0.9**step
        adam.step()


def test_adam_gives_the_bits_of_pytorchs_class_and_goes_on_from_a_kept_state():
    ours, theirs, again = parameters(), parameters(), parameters()

    def groups(values):
        return [{"params": values[:1], "betas": (0.9, 0.99)}, {"params": values[1:], "lr": 0.03, "betas": (0.8, 0.95)}]

    mine, first, second = (Adam(groups(values), eps=1e-15) for values in (ours, again, again))
    run(ours, mine, range(8))
    run(theirs, torch.optim.Adam(groups(theirs), eps=1e-15, fused=True), range(8))
    run(again, first, range(4))
    assert set(first.state_of()) == {0, 1, 2}
    second.restore(first.state_of())
    run(again, second, range(4, 8))
    for one, other, third in zip(ours, theirs, again, strict=True):
        assert torch.equal(one, other) and torch.equal(one, third)
