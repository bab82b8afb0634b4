#!/usr/bin/env bash
# The choice of tensors by cost: opposite decisions on a slow and a fast network, the same ones on all ranks, on a resume and
# on a rerun; a profile that is of no use is refused before anything is written.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
bench=$BIN/dragonn-bench
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# A machine that takes 0.1 ms to encode and 0.02 ms to decode a tensor of any size here.
row() {
  printf '{"version":1,"device":"cpu","sparsifier":"topk","memory":"residual","decode":"sparse","density":0.05,"ranks":3,"threads":1,"numel":%d,"runs":10,"encode_seconds":1e-4,"decode_seconds":2e-5}' "$1"
}
printf '[%s,%s]\n' "$(row 16)" "$(row 4096)" >fixed.json
by_cost=(quick.toml --set comm.workers=3 --set compression.select_tensors=cost_model --set compression.profile=fixed.json)
slow=(--set network.model=alpha-beta --set network.latency_us=10 --set network.gbps=0.001)
fast=(--set network.model=alpha-beta --set network.preset=100g-ib)

# decisions RUN_DIR: of every tensor at the last density, from profile.json.
decisions() {
  python3 -c 'import json, sys
for t in json.load(open(sys.argv[1]))["decisions"][-1]["tensors"]: print(t["tensor"], t["decision"])' "$1/profile.json"
}
# summary RUN_DIR KEY: a number of summary.json.
summary() { sed -nE "s/.*\"$2\": ([0-9.e-]+).*/\1/p" "$1/summary.json"; }

"$train" "${by_cost[@]}" "${slow[@]}" --output slow 2>/dev/null || fail "the slow network"
"$train" "${by_cost[@]}" "${fast[@]}" --output fast 2>/dev/null || fail "the fast network"
[ "$(decisions slow | cut -d' ' -f2 | sort -u)" = sparse ] || fail "not all tensors sparse on the slow network: $(decisions slow)"
[ "$(decisions fast | cut -d' ' -f2 | sort -u)" = dense ] || fail "not all tensors dense on the fast network: $(decisions fast)"
[ "$(decisions slow | cut -d' ' -f1)" = "$(decisions fast | cut -d' ' -f1)" ] || fail "tables of other tensors"
grep -q 'sparsifying pays: at density 0.05 exchanges add .* dense wins above' slow/log.txt || fail "no advice in slow/log.txt"
[ "$(summary slow tensors_sparse)" = 2 ] && [ "$(summary fast tensors_sparse)" = 0 ] || fail "other counts of tensors"
grep -q '"density_local"' slow/metrics.jsonl || fail "nothing was sparsified on the slow network"
grep -q '"density_local"' fast/metrics.jsonl && fail "something was sparsified on the fast network"
grep -q 'dense is faster for everything' fast/summary.json || fail "no warning in fast/summary.json"
grep -q 'dense is faster' slow/summary.json && fail "a wrong warning in slow/summary.json"

# Dense by decision is dense: the bytes of the dense method, though with another accumulator.
"$train" quick.toml --workers 3 --set compression.method=dense --output plain 2>/dev/null || fail "the dense run"
[ "$(parameters_hash fast)" != "$(parameters_hash slow)" ] || fail "both networks led to one result"

# Sparsifying all the same is warned of.
"$train" quick.toml --workers 3 --set compression.profile=fixed.json "${fast[@]}" --output warned 2>/dev/null || fail "the warned run"
grep -q 'dense is faster for everything' warned/summary.json || fail "no warning where all tensors are sparsified"
[ "$(summary warned tensors_sparse)" = 2 ] || fail "select_tensors = all left a tensor dense"

# The dry run shows the same table.
"$train" "${by_cost[@]}" "${fast[@]}" --dry-run >dry.txt || fail "the dry run"
for word in T_full T_enc T_dec T_spr decision; do grep -q "$word" dry.txt || fail "no column $word in the table"; done
grep -q 'dense is faster for everything: ' dry.txt && [ "$(grep -cE 'weight .* dense$' dry.txt)" -ge 2 ] || fail "no table in the dry run: $(cat dry.txt)"

# All ranks decide alike under mpirun, and as local workers do.
timeout 300 mpirun -np 3 "$train" "${by_cost[@]}" "${slow[@]}" --output mpi 2>mpi.log || fail "mpirun: $(tail -3 mpi.log)"
[ "$(parameters_hash mpi)" = "$(parameters_hash slow)" ] || fail "other parameters under mpirun"
# Also where everything is measured: ranks that disagreed would wait for each other in vain.
timeout 300 mpirun -np 3 "$train" quick.toml --set compression.select_tensors=cost_model --output measured 2>mpi.log ||
  fail "mpirun, measured: $(tail -3 mpi.log)"
# A rerun with what that run measured decides as it did.
"$train" quick.toml --workers 3 --set compression.select_tensors=cost_model --set compression.profile=measured/profile.json \
  --output rerun 2>/dev/null || fail "the rerun"
[ "$(decisions rerun)" = "$(decisions measured)" ] || fail "the rerun decided otherwise"
[ "$(parameters_hash rerun)" = "$(parameters_hash measured)" ] || fail "the rerun has another result"

# Processes measure briefly, for an advice before the first step, which changes nothing.
advised=(quick.toml --set compression.method=topk)
timeout 300 mpirun -np 3 "$train" "${advised[@]}" --output advised 2>mpi.log || fail "mpirun, advised: $(tail -3 mpi.log)"
timeout 300 mpirun -np 3 "$train" "${advised[@]}" --set logging.advice=false --output silent 2>mpi.log || fail "mpirun, not advised"
advice='exchanges add .* to a step, dense ones .* between 3 workers \(measured briefly; profile measured briefly\)'
grep -E "$advice" advised/log.txt | head -1 | grep -q . || fail "no advice of an MPI run: $(cat advised/log.txt)"
[ "$(grep -nE "$advice" advised/log.txt | head -1 | cut -d: -f1)" -lt "$(grep -n 'step ' advised/log.txt | head -1 | cut -d: -f1)" ] ||
  fail "the advice came after the first step: $(cat advised/log.txt)"
grep -q 'exchanges add' silent/log.txt && fail "an advice although logging.advice = false"
[ -e silent/profile.json ] && fail "a profile although logging.advice = false"
[ "$(parameters_hash advised)" = "$(parameters_hash silent)" ] || fail "the advice changed the result"
# Workers without a network of their own have none to measure.
"$train" "${advised[@]}" --workers 3 --output threads 2>/dev/null || fail "local workers"
grep -q 'exchanges add' threads/log.txt && fail "local workers were advised on a network that they have not"
# Quantizers are advised, too; a profile of one is measured by dragonn-bench.
"$bench" profile --sparsifier qsgd --memory none --ranks 3 --max-numel 4096 --json qsgd.json >/dev/null || fail "a profile of a quantizer"
"$train" quick.toml --workers 3 --set compression.method=qsgd --set compression.profile=qsgd.json "${slow[@]}" --output quantized \
  2>/dev/null || fail "a quantizer with a profile"
grep -q 'quantized exchanges add' quantized/log.txt || fail "no advice on a quantizer: $(cat quantized/log.txt)"

# A resumed run decides as before, whatever became of the profile.
cp fixed.json lost.json
stop=("${by_cost[@]}" "${slow[@]}" --set compression.profile=lost.json)
"$train" "${stop[@]}" --set train.max_steps=7 --set checkpoint.every_steps=1 --output resumed 2>/dev/null || fail "the first part"
sed -i 's/1e-4/1e4/g' lost.json
cp -r resumed resumed-too
"$train" "${stop[@]}" --output resumed --resume auto 2>/dev/null || fail "resuming with another profile"
rm lost.json
"$train" "${stop[@]}" --output resumed-too --resume auto 2>/dev/null || fail "resuming without the profile"
for run in resumed resumed-too; do
  [ "$(parameters_hash $run)" = "$(parameters_hash slow)" ] || fail "$run: another result than the uninterrupted run"
done

# What a run sends corrects an advice that took something else, in one line; exact counts need no correction.
long=(quick.toml --workers 3 --set train.epochs=100 --set train.max_steps=930 --set train.eval_every_epochs=0)
"$train" "${long[@]}" "${slow[@]}" --set compression.method=exdyna --output online 2>/dev/null || fail "exdyna on the slow network"
corrected='steps 11 to 20: each worker sends .* a step, .* times the .* that the advice took; .* at density 0.05 exchanges add'
[ "$(grep -c "$corrected" online/log.txt)" = 1 ] || fail "exdyna's advice is not corrected: $(cat online/log.txt)"
"$train" "${long[@]}" --set compression.method=exdyna --output unpriced 2>/dev/null || fail "exdyna without a network"
[ "$(grep -c 'steps 11 to 20: each worker sends .* times the .* that were predicted (dense: ' unpriced/log.txt)" = 1 ] || fail "no correction without advice"
[ "$(parameters_hash unpriced)" = "$(parameters_hash online)" ] || fail "an advice changed the result"
"$train" "${long[@]}" "${slow[@]}" --output exact 2>/dev/null || fail "topk on the slow network"
grep -q 'each worker sends .* times' exact/log.txt && fail "exact counts are corrected: $(cat exact/log.txt)"
# Ranges are told where counts vary, and only there.
"$train" "${long[@]}" --set compression.method=exdyna --dry-run >varies.txt || fail "the dry run of exdyna"
grep -q 'the counts vary: expect .* kB, in the first 924 steps 0 B to .* kB per worker and step' varies.txt || fail "no range: $(cat varies.txt)"
grep -q 'each worker sends about 5 % of its gradient, .* in the first 924 steps' online/log.txt || fail "no range in the log"
"$train" "${long[@]}" --dry-run | grep -q 'counts vary' && fail "a range where counts are exact"
python3 -c 'import json
of = lambda run: json.load(open(f"{run}/summary.json"))["predicted_bytes_per_step"]
assert of("online")["low"] < of("online")["expected"] < of("online")["high"] < of("online")["first_steps"]["high"]
assert of("exact")["low"] == of("exact")["high"] and "first_steps" not in of("exact")' || fail "no ranges in summary.json"

# With one worker there is nothing to gain.
"$train" quick.toml --workers 1 --set compression.select_tensors=cost_model --output alone 2>/dev/null || fail "one worker"
grep -q 'one worker' alone/summary.json || fail "one worker is not warned"

# Profiles that are of no use, before a run folder is made.
expect_error 2 "no such file: lost.json" -- "$train" "${stop[@]}" --output no
expect_error 2 "fixed.json.*no rows of sparsifier 'topk', density 0.05, 4 ranks, device cpu; it has topk at density 0.05 for 3 ranks on cpu; .*dragonn-bench profile" -- \
  "$train" "${by_cost[@]}" --workers 4 --output no
sed 's/"numel":16/"numel":-16/' fixed.json >damaged.json
expect_error 1 "damaged.json: row 0: numel = -16: expected integer in" -- "$train" "${by_cost[@]}" --set compression.profile=damaged.json --output no
[ -e no ] && fail "a refused profile left a run folder"

# The output of dragonn-bench is a profile.
"$bench" profile --sparsifier topk --density 0.05 --ranks 3 --max-numel 4096 --json own.json >/dev/null || fail "dragonn-bench profile"
"$train" "${by_cost[@]}" "${slow[@]}" --set compression.profile=own.json --output own 2>/dev/null || fail "a profile of dragonn-bench"
status=0
"$bench" profile --density 2 --json no.json >/dev/null 2>bench.log || status=$?
[ "$status" = 2 ] && grep -q 'density' bench.log && [ ! -e no.json ] || fail "dragonn-bench profile --density 2: $status, $(cat bench.log)"
finish
