#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package where something is wrong. Of three ranks under DDP one disagrees, stays away, stops or is killed: every rank
# gets one exception of one line within the deadline, which names that rank. Wrong types, shapes, devices, threads and forks are
# errors of one line, after which the exchange goes on. Some thousand steps of DDP take no more memory than some hundred. Skipped,
# with the reason, without PyTorch.
. "$(dirname "$0")/lib.sh" "$1"
use_python_package

cat >faults.py <<'PYTHON'
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dragonn

TOPK = '[compression]\nmethod = "topk"\ndensity = {}\n[comm]\ntimeout_s = {}\n'
# What finds out why a rank is late asks it, and waits some seconds for its answer; the rest is for a busy machine.
ENOUGH_SECONDS = 30
rank = int(sys.argv[1])
store = dist.FileStore("store", 3)
dist.init_process_group("gloo", store=store, rank=rank, world_size=3)
os.environ.update(RANK=str(rank), WORLD_SIZE="3", MASTER_ADDR="127.0.0.1")


def step(model):
    model(torch.ones(2, 20)).sum().backward()


def connected(timeout, density=0.1):
    """A model in several buckets, and its hook, after two steps: DDP itself has nothing to tell other ranks any more."""
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Sequential(*(torch.nn.Linear(20, 20) for _ in range(4))), bucket_cap_mb=0.002)
    hook = dragonn.DdpHook(model, TOPK.format(density, timeout))
    step(model)
    step(model)
    return model, hook


def fails(statuses, texts, function, kind=dragonn.DragonnError):
    begin = time.monotonic()
    try:
        function()
    except kind as error:
        assert all(text in str(error) for text in texts) and "\n" not in str(error), error
        assert kind is not dragonn.DragonnError or error.status in statuses, (error.status, error)
        assert time.monotonic() - begin < ENOUGH_SECONDS, error
    else:
        raise AssertionError(f"no error: {texts}")


# Ranks that disagree.
fails(["config"], ["rank 1 has another config than rank 0"], lambda: connected(60, density=0.2 if rank == 1 else 0.1))
fails(["config"], ["rank 2 has another list of tensors than rank 0"], lambda: dragonn.Exchange(
    [("weight", (3, 4)), ("bias", (3,))][: 1 if rank == 2 else 2], rendezvous=dragonn.rendezvous()))
frozen = torch.nn.Linear(20, 20)
frozen.bias.requires_grad = rank != 2
fails(["config"], ["rank 2 has another list of tensors than rank 0"], lambda: dragonn.LocalSteps(
    frozen, torch.optim.SGD(frozen.parameters(), lr=0.1), 'update.scheme = "local"\n'))

# A thread beside another one, and a process that is forked, are refused, and the hook goes on.
model, hook = connected(60)


def refused(function):
    try:
        function()
    except dragonn.DragonnError as error:
        assert error.status == "usage" and "another thread uses the handle" in str(error), error
        time.sleep(0.01)
        return True
    return False


def exchange_alone():
    while refused(lambda: hook.exchange.exchange([parameter.grad for parameter in model.parameters()])):
        pass


if rank == 0:
    beside = threading.Thread(target=exchange_alone)
    beside.start()
    while not refused(hook.exchange.statistics):
        time.sleep(0.01)
    store.set("refused", "1")
    beside.join()
else:
    store.wait(["refused"])
    exchange_alone()
child = os.fork()
if child == 0:
    signal.alarm(60)
    fails(["usage"], ["which forked this process"], lambda: step(model))
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
step(model)
hook.exchange.close()

# A rank that has nothing to exchange.
model, hook = connected(2)
if rank != 1:
    fails(["timeout", "communication"], ["rank 1: nothing for 2 s (comm.timeout_s)"], lambda: step(model))
dist.barrier()
if rank == 1:
    fails(["communication"], ["rank 1"], lambda: step(model))
fails(["communication"], ["the group has ended"], hook.exchange.close)

# A rank that is stopped in the middle of its backward, and goes on when the others have their error.
store.set(f"process{rank}", str(os.getpid()))
model, hook = connected(2)
if rank == 1:
    model.module[0].weight.register_hook(lambda grad: os.kill(os.getpid(), signal.SIGSTOP))
fails(["timeout", "communication"], ["rank 1"], lambda: step(model))
store.set(f"failed{rank}", "1")
if rank == 0:
    store.wait(["failed2"])
    os.kill(int(store.get("process1")), signal.SIGCONT)
dist.barrier()

# A rank that is killed there: known at once, whatever the deadline.
model, hook = connected(600)
if rank == 2:
    model.module[0].weight.register_hook(lambda grad: os.kill(os.getpid(), signal.SIGKILL))
fails(["communication"], ["of rank 2 has ended"], lambda: step(model))
print("one exception each")
os._exit(0)
PYTHON
processes=()
for rank in 0 1 2; do
  timeout 200 python3 -W ignore faults.py $rank >faults.$rank 2>&1 &
  processes+=($!)
done
for rank in 0 1 2; do
  status=0 expected=$((rank == 2 ? 137 : 0))
  wait "${processes[$rank]}" || status=$?
  [ $status = $expected ] || fail "rank $rank: exit code $status instead of $expected: $(grep -m 5 Error faults.$rank || tail -5 faults.$rank)"
  [ $rank = 2 ] || grep -qx "one exception each" faults.$rank || fail "rank $rank: $(tail -5 faults.$rank)"
done

cat >wrong.py <<'PYTHON'
import os
import threading

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dragonn


def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError(f"no error: {text}")


# An exchange of tensors.
ones = torch.ones
with dragonn.Exchange([("weight", (3, 4)), ("bias", (3,))]) as exchange:
    for text, kind, bad in (
            ("is torch.float64: expected float32", TypeError, ones(3, 4, dtype=torch.float64)),
            ("is torch.complex64: expected float32", TypeError, ones(3, 4, dtype=torch.complex64)),
            ("is torch.int32: expected float32", TypeError, ones(3, 4, dtype=torch.int32)),
            ("is list: expected float32", TypeError, [1.0] * 12),
            ("is NoneType: expected float32", TypeError, None),
            ("is torch.strided on meta: expected a dense one on the CPU", TypeError, ones(3, 4, device="meta")),
            ("has 11 elements: expected 12", ValueError, ones(11)),
            ("has the shape (4, 3): expected (3, 4)", ValueError, ones(4, 3)),
            ("has the shape (12,): expected (3, 4)", ValueError, ones(12)),
            ("has the shape (4, 3): expected (3, 4)", ValueError, numpy.ones((4, 3), "float32")),
            ("has gaps in memory", ValueError, ones(3, 8)[:, ::2]),
            ("has gaps in memory", ValueError, ones(1, 4).expand(3, 4))):
        fails(kind, f"the gradient of weight {text}", lambda: exchange.exchange([bad, ones(3)]))
        fails(kind, f"the gradient of weight {text}", lambda: exchange.begin({0: bad}))
    exchange.exchange([ones(4, 3).t(), ones(3)])  # another order in memory
    exchange.exchange([ones(3, 4), ones(3)])
    assert exchange.statistics()["exchanges"] == 2

# Under DDP, and with local steps.
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def ddp(module):
    model = DistributedDataParallel(module)
    return model, dragonn.DdpHook(model)


for text, module in (("weight is float64: expected float32, bfloat16 or float16", torch.nn.Linear(3, 2).double()),
                     ("weight is on meta: expected cpu or cuda", torch.nn.Linear(3, 2, device="meta"))):
    fails(TypeError, f"the parameter {text}", lambda: dragonn.LocalSteps(
        module, torch.optim.SGD(module.parameters(), lr=0.1), 'update.scheme = "local"\n'))
fails(TypeError, "the parameter weight is float64", lambda: ddp(torch.nn.Linear(3, 2).double()))
model, hook = ddp(torch.nn.Embedding(10, 4, sparse=True))
fails(TypeError, "the gradient of weight is torch.sparse_coo on cpu: expected a dense one",
      lambda: model(torch.tensor([1, 2])).sum().backward())
hook.exchange.close()
print("all refused")
os._exit(0)
PYTHON
timeout 100 python3 -W ignore wrong.py >wrong.log 2>&1 || fail "wrong arguments: $(grep -m 5 Error wrong.log || tail -5 wrong.log)"

torchrun 2 "$ROOT/scripts/soak_ddp.py" --steps 1500 \
  >soak.log 2>&1 || fail "memory: $(grep '^rank' soak.log || tail -5 soak.log)"
grep -q '^rank 1: 1500 steps, .* MB more at most$' soak.log || fail "no memory of a rank: $(cat soak.log)"
finish
