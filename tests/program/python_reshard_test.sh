#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# States of the Python package on another number of ranks: three ranks save, and two or four go on. The hook's error feedback
# loses no gradient, and DiLoCo goes on as PyTorch computes it. Skipped, with the reason, without PyTorch.
. "$(dirname "$0")/lib.sh" "$1"
use_python_package

cp "$HERE/diloco.py" .
cat >reshard.py <<'PYTHON'
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dragonn
from diloco import Diloco

TOPK = 'compression = { method = "topk", density = 0.1 }\n'
LOCAL = 'update = { scheme = "local", inner_steps = 3 }\n'
saves, count = sys.argv[1] == "save", int(sys.argv[2])  # of the ranks that save
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert saves == (size == count)


def path(of):
    return f"state-{of}.pt"


def states():
    return [torch.load(path(of), weights_only=True) for of in range(count)]


def draw(step):
    return torch.randn((8, 20), generator=torch.Generator().manual_seed(100 * step + rank))


def means(hook, model, gradients):
    """The sum of the hook's means of these gradients of the model's weight, times the number of ranks."""
    total = torch.zeros(8, 20)
    for gradient in gradients:
        model.zero_grad()
        (model(torch.eye(20)) * gradient.T).sum().backward()
        total += model.module.weight.grad * size
    return total


def hooked():
    """What three ranks give is what arrives, there and behind the change of ranks."""
    model = DistributedDataParallel(torch.nn.Linear(20, 8, bias=False))
    hook = dragonn.DdpHook(model, TOPK)
    if not saves:
        saved = states()
        hook.load_state_dict(saved[0]["hook"], [state["hook"] for state in saved])
        zeros = torch.zeros(8, 20)
        arrived = saved[0]["arrived"] + means(hook, model, [zeros] * 40)
        given = sum(state["given"] for state in saved)
        assert (arrived - saved[0]["arrived"]).abs().max() > 0.1
        assert torch.allclose(arrived, given, atol=1e-4), (arrived - given).abs().max()
    else:
        gradients = [draw(step) for step in range(5)]
        arrived = means(hook, model, gradients)
    state = {"hook": hook.state_dict(), "arrived": arrived, "given": sum(gradients)} if saves else {}
    hook.exchange.close()
    return state


def made():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 10), torch.nn.Tanh(), torch.nn.Linear(10, 4))


def flat(model):
    return torch.cat([value.detach().flatten() for value in model.parameters()])


def local():
    """Two rounds of three ranks, then two of another number."""
    model, reference = made(), Diloco(made())
    steps = dragonn.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), LOCAL)
    reference_steps = torch.optim.SGD(reference.model.parameters(), lr=0.1)
    if not saves:
        saved = states()
        model.load_state_dict(saved[0]["model"])
        steps.load_state_dict(saved[0]["local"], [state["local"] for state in saved])
        reference.model.load_state_dict(saved[0]["model"])
        for shared, value in zip(reference.common, reference.model.parameters()):
            shared.data.copy_(value.detach())
        reference.outer.load_state_dict(saved[0]["outer"])
    for step in range(6):
        inputs = draw(step + 10 * saves)
        for twin, optimizer in (model, steps), (reference.model, reference_steps):
            optimizer.zero_grad()
            twin(inputs).pow(2).mean().backward()
            optimizer.step()
        if step % 3 == 2:
            reference.round()
    assert (flat(model) - flat(reference.model)).abs().max() < 1e-6, (flat(model) - flat(reference.model)).abs().max()
    state = {"model": model.state_dict(), "local": steps.state_dict(), "outer": reference.outer.state_dict()}
    steps.close()
    return state


def refused():
    """Of states that are missing, or of too few ranks, an error says it."""
    model = made()
    steps = dragonn.LocalSteps(model, torch.optim.SGD(model.parameters(), lr=0.1), LOCAL)
    saved = [state["local"] for state in states()]
    for arguments, text in ((saved[0],), f"expected rank {rank} of {size}"), ((saved[0], saved[::-1]), "expected rank 0 of 3"):
        try:
            steps.load_state_dict(*arguments)
        except dragonn.DragonnError as error:
            assert error.status == "state" and text in str(error), error
        else:
            raise AssertionError(f"no error: {text}")
    steps.close()


state = {**hooked(), **local()}
if saves:
    torch.save(state, path(rank))
else:
    refused()
dist.destroy_process_group()
PYTHON
for size in 3 2 4; do
  [ "$size" = 3 ] && phase=save || phase=load
  torchrun "$size" reshard.py $phase 3 >"$size.log" 2>&1 || fail "$size ranks, $phase: $(grep -m 5 'Error' "$size.log" || tail -5 "$size.log")"
done
finish
