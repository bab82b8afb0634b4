#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The exchange as a communication hook of PyTorch DDP: dense has the losses of DDP, a resumed run the bits of an
# uninterrupted one, also when one meets over MPI and the other over TCP, and wrong gradients are exceptions of one line.
# Skipped, with the reason, without PyTorch.
. "$(dirname "$0")/lib.sh" "$1"
reason=$(python3 -W ignore -c 'import numpy, torch' 2>&1) || { echo "skipped: ${reason##*$'\n'}"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMP_NUM_THREADS=1
export DRAGONN_LIBRARY=$BIN/../library/libdragonn.so PYTHONDONTWRITEBYTECODE=1
unset DRAGONN_DATA RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
example=$ROOT/examples/pytorch_ddp.py
options="--width 4 --batch 4"

# value KEY VARIANT FILE: of the line of that variant.
value() { python3 -c 'import json, sys
for line in open(sys.argv[3]):
    if line.startswith("{") and json.loads(line)["variant"] == sys.argv[2]: print(json.loads(line)[sys.argv[1]])' "$@"; }

# shellcheck disable=SC2086: options are words
timeout 200 mpirun -np 2 python3 "$example" $options --variants plain,dense,dgc --steps 4 --save saved --save-at 2 \
  >whole.log 2>&1 || fail "mpirun: $(tail -5 whole.log)"
timeout 200 python3 -m torch.distributed.run --standalone --nproc-per-node 2 "$example" $options --variants dgc --steps 4 \
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
import sys

sys.path.insert(0, sys.argv[1])
import numpy

import dragonn_exchange


def fails(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error) and "\n" not in str(error), error
    else:
        raise AssertionError(f"no error: {text}")


weight, bias = numpy.ones((3, 4), "float32"), numpy.ones(3, "float32")
with dragonn_exchange.Exchange([("weight", (3, 4)), ("bias", (3,))], '[compression]\nmethod = "topk"\n') as exchange:
    run = lambda *gradients: lambda: exchange.exchange(gradients)
    fails(TypeError, "the gradient of weight is float64: expected float32", run(weight.astype("float64"), bias))
    fails(ValueError, "the gradient of weight has 6 elements: expected 12", run(weight[:2, :3].copy(), bias))
    fails(ValueError, "has gaps in memory", run(numpy.ones((3, 8), "float32")[:, :4], bias))
    fails(ValueError, "there are 1 gradients: expected 2", run(weight))
    fails(dragonn_exchange.DragonnError, "of weight on rank 0 holds NaN", run(weight * float("nan"), bias))
    fails(dragonn_exchange.DragonnError, "truncated", lambda: exchange.load_state(exchange.state()[:-1]))
    exchange.exchange([weight, bias])
    assert exchange.statistics()["exchanges"] == 1
fails(ValueError, "closed", run(weight, bias))
fails(dragonn_exchange.DragonnError, "compression.densty", lambda: dragonn_exchange.Exchange(
    [("weight", (3, 4))], "[compression]\ndensty = 0.1\n"))
PYTHON
python3 -W ignore errors.py "$ROOT/examples" >errors.log 2>&1 || fail "errors: $(tail -5 errors.log)"

finish
