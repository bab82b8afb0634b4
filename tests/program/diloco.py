# SPDX-License-Identifier: MIT
"""A reference for tests of local steps."""
import torch
import torch.distributed as dist


class Diloco:
    """DiLoCo, arXiv:2311.08105, algorithm 1, by PyTorch alone: round() follows the inner steps of `model`."""

    def __init__(self, model):
        self.model = model
        self.common = [torch.nn.Parameter(value.detach().clone()) for value in model.parameters()]
        self.outer = torch.optim.SGD(self.common, lr=0.7, momentum=0.9, nesterov=True)

    def round(self):
        for shared, own in zip(self.common, self.model.parameters()):
            shared.grad = shared.detach() - own.detach()
            dist.all_reduce(shared.grad)
            shared.grad /= dist.get_world_size()
        self.outer.step()
        for shared, own in zip(self.common, self.model.parameters()):
            own.data.copy_(shared.detach())
