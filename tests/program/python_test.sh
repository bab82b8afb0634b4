#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The Python package: as a communication hook of PyTorch DDP, dense has the losses of DDP, a resumed run the bits of an
# uninterrupted one, also when one meets over MPI and the other over TCP, and wrong gradients are exceptions of one line. What
# travels during backward has the bits of one call, on a GPU's stand-in, too. A step with NaN can be skipped, the config is
# TOML in any form, and momentum that would be applied twice is an error. Local steps are DiLoCo's. The examples of the documents run. Skipped, with
# the reason, without PyTorch.
. "$(dirname "$0")/lib.sh" "$1"
use_python_package
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
example=$ROOT/examples/pytorch_ddp.py
options="--width 4 --batch 4"

# value KEY VARIANT FILE: of the line of that variant.
value() { python3 -c 'import json, sys
for line in open(sys.argv[3]):
    if line.startswith("{") and json.loads(line)["variant"] == sys.argv[2]: print(json.loads(line)[sys.argv[1]])' "$@"; }

# shellcheck disable=SC2086: options are words
timeout 200 mpirun -np 2 python3 "$example" $options --variants plain,dense,dgc --steps 4 --save saved --save-at 2 \
  >whole.log 2>&1 || fail "mpirun: $(tail -5 whole.log)"
torchrun 2 "$example" $options --variants dgc --steps 4 \
  --resume saved >resumed.log 2>&1 || fail "torchrun: $(tail -5 resumed.log)"

python3 -c 'import ast, sys
plain, dense = (ast.literal_eval(text) for text in sys.argv[1:])
assert len(plain) == 4 and all(abs(a - b) < 1e-4 for a, b in zip(plain, dense)), (plain, dense)' \
  "$(value loss plain whole.log)" "$(value loss dense whole.log)" || fail "dense has other losses than DDP: $(cat whole.log)"
[ -n "$(value parameters_hash dgc whole.log)" ] || fail "no hash: $(cat whole.log)"
[ "$(value parameters_hash dgc whole.log)" = "$(value parameters_hash dgc resumed.log)" ] ||
  fail "a resumed run has other parameters: $(cat whole.log resumed.log)"
[ "$(value steps dgc resumed.log)" = 4 ] || fail "nothing was resumed: $(cat resumed.log)"

cat >errors.py <<'PYTHON'
import doctest
import os
import pickle
import signal

import numpy
import torch

import dragonn


def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError(f"no error: {text}")


weight, bias = numpy.ones((3, 4), "float32"), numpy.ones(3, "float32")
with dragonn.Exchange([("weight", (3, 4)), ("bias", (3,))], '[compression]\nmethod = "topk"\n') as exchange:
    run = lambda *gradients: lambda: exchange.exchange(gradients)
    fails(TypeError, "the gradient of weight is float64: expected float32, bfloat16 or float16", run(weight.astype("float64"), bias))
    fails(ValueError, "the gradient of weight has 6 elements: expected 12", run(weight[:2, :3].copy(), bias))
    fails(ValueError, "has gaps in memory", run(numpy.ones((3, 8), "float32")[:, :4], bias))
    fixed = weight.copy()
    fixed.flags.writeable = False
    fails(ValueError, "the gradient of weight is read-only", run(fixed, bias))
    fails(TypeError, "torch.sparse_coo on cpu: expected a dense one", run(torch.ones(3, 4).to_sparse(), bias))
    fails(ValueError, "there are 1 gradients: expected 2", run(weight))
    fails(dragonn.DragonnError, "of weight on rank 0 holds NaN", run(weight * float("nan"), bias))
    fails(dragonn.DragonnError, "truncated", lambda: exchange.load_state(exchange.state()[:-1]))
    exchange.exchange([weight, bias])
    assert exchange.statistics()["exchanges"] == 1
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        fails(dragonn.DragonnError, "which forked this process", run(weight, bias))
        fails(dragonn.DragonnError, "which forked this process", exchange.close)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    exchange.exchange([weight, bias])
fails(ValueError, "closed", run(weight, bias))
with dragonn.Exchange([("weight", (3, 4)), ("bias", (3,))]) as exchange:
    exchange.begin({1: bias})
    fails(dragonn.DragonnError, "an exchange has begun", run(weight, bias))
    fails(dragonn.DragonnError, "some tensors have not begun", exchange.wait)
    fails(ValueError, "there is no tensor 2: expected 0 to 1", lambda: exchange.begin({2: bias}))
    exchange.begin({0: torch.ones(3, 4, dtype=torch.bfloat16)})
    exchange.wait()
    exchange.begin({1: bias})  # given up at the end
assert doctest.testmod(dragonn._exchange)[0] == 0
assert pickle.loads(pickle.dumps(dragonn.DragonnError(4, "late"))).status == "timeout"
for kind, text, arguments in (
        (TypeError, "the config is NoneType: expected str", ([("weight", (3, 4))], None)),
        (ValueError, "the config has a NUL character", ([("weight", (3, 4))], "seed = 1\0[oops]")),
        (TypeError, "the name of a tensor is int: expected str", ([(3, (3, 4))],)),
        (ValueError, "an extent of tensor weight is -3: expected at least 1", ([("weight", (-3, 4))],)),
        (ValueError, "steps_per_epoch is -1: expected at least 0", ([("weight", (3, 4))], "", -1))):
    fails(kind, text, lambda: dragonn.Exchange(*arguments))
fails(dragonn.DragonnError, "compression.densty", lambda: dragonn.Exchange(
    [("weight", (3, 4))], "[compression]\ndensty = 0.1\n"))
PYTHON
python3 -W ignore errors.py >errors.log 2>&1 || fail "errors: $(tail -5 errors.log)"

cp "$HERE/diloco.py" .
cat >hook.py <<'PYTHON'
import contextlib
import copy
import os
import pickle
import socket
import threading
import time
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dragonn
from diloco import Diloco
from dragonn._staging import Staging

DGC = '[compression]\nmethod = "dgc"\ndensity = 0.1\n'
MOMENTUM = "[optimizer]\nmomentum = 0.5\n" + DGC
dist.init_process_group("gloo")
rank = dist.get_rank()


def ddp(**options):
    torch.manual_seed(1)
    layers = [torch.nn.Linear(20, 20) for _ in range(4)]
    return DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.002, **options)


def fails(kind, texts, call):
    try:
        call()
    except kind as error:
        assert all(text in str(error) for text in texts) and "\n" not in str(error), error
    else:
        raise AssertionError(f"no error: {texts}")


def same_on_all_ranks(values):
    all_values = [torch.empty_like(values) for _ in range(dist.get_world_size())]
    dist.all_gather(all_values, values)
    return all(torch.equal(values, other) for other in all_values)


def trained(bad, steps=7, skips=None, **options):
    """Trains with NaN on rank 1 in the steps `bad`, and leaves out the steps `skips`. Returns the parameters."""
    model = ddp(**options)
    hook = dragonn.DdpHook(model, MOMENTUM)
    optimizer = torch.optim.SGD(hook.parameter_groups(momentum=0.5), lr=0.05, momentum=0.5)
    skipped = []
    for step in range(steps):
        if step in (skips or []):
            continue
        inputs = torch.randn((8, 20), generator=torch.Generator().manual_seed(100 * step + rank))
        if step in bad and rank == 1:
            inputs[3, 5] = float("nan")
        try:
            model(inputs).pow(2).mean().backward()
        except dragonn.DragonnError as error:
            assert error.status == "non_finite" and ("on rank 1" in str(error)) == (rank == 1), error
            optimizer.zero_grad()
            skipped.append(step)
            continue
        optimizer.step()
        optimizer.zero_grad()
    assert skipped == bad, skipped
    assert hook.exchange.statistics()["exchanges"] == steps - len(bad) - len(skips or [])
    hook.exchange.close()
    parameters = torch.cat([value.detach().flatten() for value in model.parameters()])
    assert parameters.isfinite().all()
    assert same_on_all_ranks(parameters), f"other parameters on another rank: {bad}, {options}"
    return parameters


# A step with NaN, also the first one and two in a row: training goes on as if these steps had not been.
for options in {}, {"static_graph": True}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": True}:
    assert torch.equal(trained([2], **options), trained([], skips=[2], **options)), options
trained([0, 3, 4])



class StandIn:
    """The interface of torch.cuda, with one stream, whose work is done when an event behind it is waited for."""

    done, current = threading.Event(), object()

    class Stream:
        def __init__(self, device):
            assert device.type == "cpu"

        def wait_stream(self, stream):
            assert stream is StandIn.current

    class Event:
        def record(self, stream):
            assert isinstance(stream, StandIn.Stream)

        def synchronize(self):
            time.sleep(0.01)
            StandIn.done.set()

    @staticmethod
    def current_stream(device):
        return StandIn.current

    @staticmethod
    @contextlib.contextmanager
    def stream(stream):
        yield


def layers(dtype=torch.float32):
    torch.manual_seed(1)
    return torch.nn.Sequential(*(torch.nn.Linear(20, 20) for _ in range(4))).to(dtype)


def inputs_of(step, dtype=torch.float32):
    return torch.randn((8, 20), generator=torch.Generator().manual_seed(100 * step + rank)).to(dtype)


def by_hook(make_hook, dtype=torch.float32, steps=5):
    """Parameters and gradients after steps of a model in two buckets."""
    model = DistributedDataParallel(layers(dtype), bucket_cap_mb=0.002)
    hook = make_hook(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    begun = []
    begin = hook.exchange._begin
    hook.exchange._begin = lambda records, owners: (begun.append(len(records)), begin(records, owners))
    for step in range(steps):
        optimizer.zero_grad()
        model(inputs_of(step, dtype)).float().pow(2).mean().backward()
        optimizer.step()
    assert sum(begun) == 8 * steps and len(begun) == 2 * steps - 1, begun  # DDP's first step has one bucket
    hook.exchange.close()
    return [value.detach().clone() for value in model.parameters()] + [value.grad.clone() for value in model.parameters()]


def by_exchange(dtype=torch.float32, steps=5):
    """The same without DDP, all gradients in one call."""
    model = layers(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with dragonn.Exchange([(name, tuple(value.shape)) for name, value in model.named_parameters()], DGC,
                          rendezvous=dragonn._ddp.rendezvous()) as exchange:
        for step in range(steps):
            optimizer.zero_grad()
            model(inputs_of(step, dtype)).float().pow(2).mean().backward()
            exchange.exchange([value.grad for value in model.parameters()])
            optimizer.step()
    return [value.detach() for value in model.parameters()] + [value.grad for value in model.parameters()]


def staged(model):
    hook = dragonn.DdpHook(model, DGC)
    hook.staging = Staging(torch.device("cpu"), StandIn)
    return hook


# What travels during backward, or is copied by a thread, has the bits of one call with all gradients, in 16 bits, too.
for dtype in torch.float32, torch.bfloat16, torch.float16:
    expected = by_exchange(dtype)
    for make in (lambda model: dragonn.DdpHook(model, DGC)), staged:
        assert all(torch.equal(a, b) for a, b in zip(by_hook(make, dtype), expected)), dtype
assert StandIn.done.is_set()
fails(ValueError, ["non_finite is 'ignore': expected one of 'raise', 'skip', 'nan'"],
      lambda: dragonn.DdpHook(ddp(), DGC, non_finite="ignore"))

# Instead of an exception a step that is not finite can leave no gradients, or NaN on every rank.
for policy, wanted in ("skip", lambda grad: grad is None), ("nan", lambda grad: bool(grad.isnan().all())):
    model = ddp()
    hook = dragonn.DdpHook(model, DGC, non_finite=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    before = [value.detach().clone() for value in model.parameters()]
    model(inputs_of(0) * (float("inf") if rank == 1 else 1)).sum().backward()
    assert all(wanted(value.grad) for value in model.parameters()) and hook.skipped == 1
    if policy == "skip":
        optimizer.step()
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
    hook.exchange.close()

# A bucket that holds most gradients, and so leaves no backward to hide its exchange, is named.
dragonn._ddp.LATE_BUCKET_BYTES = 6000
for megabytes, wanted in (1, ["a bucket of DDP holds 0 of 0 MB of gradients"]), (0.001, []):
    model = DistributedDataParallel(layers(), bucket_cap_mb=megabytes)
    hook = dragonn.DdpHook(model, DGC)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(3):
            model(inputs_of(step)).pow(2).mean().backward()
    hook.exchange.close()
    assert [str(warning.message).partition(",")[0] for warning in caught] == wanted, caught

# A pickled hook goes on with its error feedback.
model = ddp()
hook = dragonn.DdpHook(model, DGC)
model(inputs_of(0)).sum().backward()
twin = copy.deepcopy(model.module)
saved = pickle.dumps(hook)
means = []
for again in (lambda: (model, hook)), (lambda: (DistributedDataParallel(twin), pickle.loads(saved))):
    model, hook = again()
    if means:
        hook.attach(model)
    model.zero_grad()
    model(inputs_of(1)).sum().backward()
    means.append([value.grad for value in model.parameters()])
    hook.exchange.close()
assert all(torch.equal(a, b) for a, b in zip(*means))

# A rank that fails in the middle of backward gives the step up, for all.
model = ddp()
hook = dragonn.DdpHook(model, DGC)


def failing(grad):
    raise RuntimeError("on purpose")


model(inputs_of(0)).sum().backward()
if rank == 1:
    model.module[0].weight.register_hook(failing)  # in the second of two buckets
fails(RuntimeError, ["on purpose" if rank == 1 else "another rank gave up the step"],
      lambda: model(inputs_of(0)).sum().backward())
hook.exchange.close()

# A rank that hangs: an exception names it.
model = ddp()
hook = dragonn.DdpHook(model, "comm.timeout_s = 2.0\n" + DGC)
if rank == 0:
    fails(dragonn.DragonnError, ["rank 1"], lambda: model(inputs_of(0)).sum().backward())
    fails(dragonn.DragonnError, ["the group has ended"], hook.exchange.close)
dist.barrier()
if rank == 1:
    fails(dragonn.DragonnError, ["rank 0"], lambda: model(inputs_of(0)).sum().backward())
    hook.exchange.abort("done")



def local_steps(config, steps=12, resume_at=None):
    """Losses and parameters of local steps, and the number of exchanges."""
    model, losses = layers(), []

    def begin():
        return dragonn.LocalSteps(model, torch.optim.AdamW(model.parameters(), lr=0.01), config)

    local = begin()
    for step in range(steps):
        if step == resume_at:
            state = pickle.loads(pickle.dumps((local.state_dict(), model.state_dict())))
            local.close()
            local = begin()
            model.load_state_dict(state[1])
            local.load_state_dict(state[0])
        local.zero_grad()
        loss = model(inputs_of(step)).pow(2).mean()
        loss.backward()
        local.step(last=step == steps - 1)
        losses.append(loss.item())
    exchanges = local.exchange.statistics()["exchanges"]
    local.close()
    return losses, torch.cat([value.detach().flatten() for value in model.parameters()]), exchanges


def diloco(steps=12, round_steps=4):
    """Losses and parameters by PyTorch alone."""
    model, losses = layers(), []
    optimizer, reference = torch.optim.AdamW(model.parameters(), lr=0.01), Diloco(model)
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(inputs_of(step)).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % round_steps == 0:
            reference.round()
    return losses, torch.cat([value.detach().flatten() for value in model.parameters()])


# Local steps: DiLoCo is that of its algorithm, up to rounding; with compression, fragments and overlap all ranks end with the
# same parameters, and a resumed run has the bits of an uninterrupted one.
LOCAL = 'compression.method = "{}"\ncompression.density = 0.05\nupdate = {{ scheme = "local", inner_steps = {} }}\n'
losses, parameters, exchanges = local_steps(LOCAL.format("dense", 4).replace("compression.density = 0.05\n", ""))
expected = diloco()
assert exchanges == 3 and all(abs(a - b) < 1e-6 for a, b in zip(losses, expected[0])), (losses, expected[0])
assert (parameters - expected[1]).abs().max() < 1e-5
for steps in "4", "4, fragments = 2", "6, fragments = 2, overlap_steps = 1, mix = 0.5", "4, median_clip = true":
    config = LOCAL.format("topk", steps)
    losses, parameters, exchanges = local_steps(config)
    assert same_on_all_ranks(parameters), steps
    for at in 4, 5:  # in "6, ..." a result is on its way after step 5
        assert torch.equal(local_steps(config, resume_at=at)[1], parameters), (steps, at)
fails(dragonn.DragonnError, ["update.inner_seconds and update.inner_steps_from need a training run"],
      lambda: local_steps(LOCAL.format("topk", "4, inner_seconds = 1.0")))
fails(dragonn.DragonnError, ['the config has no update.scheme = "local"'], lambda: local_steps(DGC))

# Configs under torchrun, where the port next to MASTER_PORT is taken.
taken = socket.socket()
taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if rank == 0:
    try:
        taken.bind(("", int(os.environ["MASTER_PORT"]) + 1))
        taken.listen()
    except OSError:
        pass  # by another program
dist.barrier()
for config in ("# without a table [comm]\n" + DGC, "comm.timeout_s = 60\n" + DGC, DGC + "[comm]\ntimeout_s = 60.0\n",
               "comm = { timeout_s = 60.0 }\n" + DGC, 'comm.backend = "tcp"\n' + DGC):
    hook = dragonn.DdpHook(ddp(), config)
    assert hook.exchange.size == dist.get_world_size()
    hook.exchange.close()
fails(dragonn.DragonnError, ["config:1:6: comm.timeouts = 60: unknown key"],
      lambda: dragonn.DdpHook(ddp(), "comm.timeouts = 60\n"))

# Momentum twice is an error before the step; the groups of the hook, or momentum in one place, are right.
for config, make, texts in (
        (MOMENTUM, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
         ["SGD has momentum = 0.9 for 0.weight", "optimizer.momentum = 0.5", "hook.parameter_groups"]),
        (MOMENTUM, lambda model: torch.optim.Adam(model.parameters()), ["Adam has betas[0] = 0.9 for 0.weight"]),
        (MOMENTUM, lambda model: torch.optim.SGD(model.parameters(), lr=0.1), None),
        (DGC, lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), None)):
    model = ddp()
    hook = dragonn.DdpHook(model, config)
    optimizer = make(model)
    model(torch.ones(2, 20)).sum().backward()
    fails(ValueError, texts, optimizer.step) if texts else optimizer.step()
    hook.exchange.close()
    optimizer.step()

# Not started by a launcher that the library knows, the ranks would train apart.
for name in ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
    os.environ.pop(name)
fails(ValueError, [f"rank 0 of 1, and DDP rank {rank} of 2: expected"], lambda: dragonn.DdpHook(ddp(), DGC))
dist.destroy_process_group()
PYTHON
torchrun 2 hook.py >hook.log 2>&1 ||
  fail "hook: $(grep -m 5 'Error' hook.log || tail -5 hook.log)"

python3 "$HERE/python_blocks.py" "$ROOT/docs/library.md" "$ROOT/python/README.md" >blocks.py || fail "no blocks of Python"
torchrun 2 blocks.py >blocks.log 2>&1 ||
  fail "examples of the documents: $(grep -m 5 'Error' blocks.log || tail -5 blocks.log)"

finish
