#!/usr/bin/env bash
# dragonn-bench takes a user's own gradients, writes down what each method selects from them, and prints tables and help
# that fit a terminal.
. "$(dirname "$0")/lib.sh" "$1"
bench=$BIN/dragonn-bench

# write_npy FILE SHAPE BYTES: a float32 array in NumPy's format. Its header is padded to 118 = 0x76 bytes.
write_npy() {
  {
    printf '\223NUMPY\001\000\166\000'
    printf "%-117s\n" "{'descr': '<f4', 'fortran_order': False, 'shape': ($2), }"
    printf "$3"
  } >"$1"
}
write_npy first.npy "5," '\xcd\xcc\xcc\x3d\x00\x00\x00\xbf\x9a\x99\x99\x3e\x00\x00\x00\x3f\xcd\xcc\x4c\xbe' # .1 -.5 .3 .5 -.2
write_npy second.npy "5, 1" '\x00\x00\x80\x3f\x00\x00\x00\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00' # 1 2 0 0 0
write_npy short.npy "1," '\x00\x00\x80\x3f'
write_npy nan.npy "1," '\x00\x00\xc0\x7f'

"$bench" compress --sparsifier topk --density 0.4 --rounds 2 --input first.npy --input second.npy \
  --dump dump.json --json rows.json >/dev/null || fail "a run on files"
cat >expected.json <<'JSON'
[{"sparsifier":"topk","step":0,"numel":5,"density":0.4,"k":2,"threshold":0.5,"indices":[1,3],"values":[-0.5,0.5]},{"sparsifier":"topk","step":1,"numel":5,"density":0.4,"k":2,"threshold":1.0,"indices":[0,1],"values":[1.0,2.0]}]
JSON
cmp -s dump.json expected.json || fail "the dump is $(cat dump.json)"
[ "$(grep -c '"mode"' rows.json)" = 2 ] || fail "a row for each mode"
grep -q '"distribution": "gradient-file"' rows.json || fail "rows say where the gradient is from"
"$bench" compress --sparsifier dgc,topk --numel 1000 --rounds 2 --json saved.json >/dev/null || fail "two methods"
[ "$(grep -c '"below_dgc": 0\.0,' saved.json)" = 2 ] && [ "$(grep -c '"below_dgc": -\?[0-9]' saved.json)" = 4 ] ||
  fail "dgc saves nothing of its own time, and topk what it does: $(cat saved.json)"
[ "$(grep -c '"bytes": 4000\.0' saved.json)" = 2 ] && [ "$(grep -c '"bytes": 12000\.0' saved.json)" = 2 ] ||
  fail "the bytes of a selection, alone and fused: $(cat saved.json)"

# (0, 0, 0, 1, 2) has mean 0.6 and variance 0.8, so that Pareto's shape is 0.275 and its scale 0.435; half of the entries reach 0.
"$bench" fit --input second.npy --json fit.json >/dev/null || fail "fits of a file"
row=$(grep -A4 '"share": 0.5,' fit.json)
for value in '"magnitude": 0.0' '"exponential": 0.41588' '"pareto": 0.3321'; do
  grep -q "$value" <<<"$row" || fail "not $value, where half of the entries are: $row"
done

# A sign and a byte per entry, and with five ranks' codes as with one.
"$bench" quantize --numel 100000 --ranks 5 --rounds 2 --json codes.json >/dev/null || fail "quantizers"
[ "$(grep -c '"stage"' codes.json)" = 5 ] || fail "encode, settle, decode of signsgd; encode, decode of qsgd: $(cat codes.json)"
[ "$(grep -c '"bits_per_element": 1\.0' codes.json)" = 3 ] || fail "a bit per entry for signsgd: $(cat codes.json)"
[ "$(grep -c '"bits_per_element": 8\.2' codes.json)" = 2 ] || fail "a byte and norms per entry for qsgd: $(cat codes.json)"

# Every codec of indices: none takes more than raw32, and rice comes near the bound.
"$bench" codec --numel 100000 --density 0.01 --pattern random --rounds 2 --json lists.json >/dev/null || fail "codecs"
grep -q '"index_bits": 32.0' lists.json || fail "raw32: $(cat lists.json)"
grep -A8 '"indices": "rice"' lists.json | grep -q '"index_bits": 8\.' || fail "rice: $(cat lists.json)"

# expect_refusal CODE PATTERN ARGUMENT...: dragonn-bench ends with CODE and one line that matches PATTERN.
expect_refusal() {
  local code=$1 pattern=$2 output status=0
  shift 2
  output=$("$bench" "$@" 2>&1 >/dev/null) || status=$?
  [ "$status" = "$code" ] || fail "exit code $status instead of $code: $* ($output)"
  [ "$(wc -l <<<"$output")" = 1 ] && grep -qE -e "$pattern" <<<"$output" || fail "no '$pattern' from $*: $output"
}
expect_refusal 1 "nan.npy: element 0 is nan" compress --input nan.npy
expect_refusal 1 "short.npy: 1 elements, and first.npy has 5" compress --input first.npy --input short.npy
expect_refusal 2 "no such file: absent.npy" compress --input absent.npy
expect_refusal 2 "levels = 128: expected integer in .1, 127." quantize --set qsgd.levels=128
expect_refusal 1 "nan.npy: element 0 is nan" fit --input nan.npy
expect_refusal 2 "--distribution normal: with --input" compress --input first.npy --distribution normal
expect_refusal 2 "--set dgc.strategy=grace: expected a measured method" compress --sparsifier topk --set dgc.strategy=grace
expect_refusal 2 "density = 0: expected a number in" compress --density 0
expect_refusal 2 "density = 2: expected a number in" decode --density 2

"$bench" compress --kernel all --numel 5000 --rounds 1 --distribution sparse --json - 2>/dev/null >kernels.json
grep -q '"passes":' kernels.json && ! grep '"passes":' kernels.json | grep -qv '"passes": 1.0' ||
  fail "every kernel reads the gradient once"
"$bench" decode --ranks 2,3 --numel 1000 --density 0.1 --rounds 1 --json decode.json >/dev/null || fail "decode"
[ "$(grep -c '"of_two"' decode.json)" = 6 ] || fail "a row for each decoding and number of ranks"

write_npy mat_0.npy "2, 1" '\x00\x00\x80\x3f\x00\x00\x80\x3f'
"$bench" collective --ranks 3 --numel 3000 --density 0.01 --steps 2 --json all.json >/dev/null || fail "all collectives"
for name in allgather cltk dense dsa exdyna gtopk index_union oktopk; do
  grep -q "\"collective\": \"$name\"" all.json || fail "no row of $name"
done
for phase in reuse recompute period; do
  "$bench" collective --collective oktopk --ranks 2 --numel 1000 --json - 2>/dev/null | grep -q "\"phase\": \"$phase\"" ||
    fail "no phase $phase of oktopk"
done
write_npy acc_0.npy "4," '\x00\x00\x40\x40\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x00' # 3 0 1 0
write_npy acc_1.npy "4," '\x00\x00\x80\x3f\x00\x00\x00\xc0\x00\x00\x80\x3f\x00\x00\x00\x00' # 1 -2 1 0
"$bench" collective --collective allgather --ranks 2 --density 0.25 --input 'acc_{rank}.npy' --dump out >/dev/null ||
  fail "an exchange of files"
write_npy sum.npy "4," '\x00\x00\x40\x40\x00\x00\x00\xc0\x00\x00\x00\x00\x00\x00\x00\x00'    # 3 -2 0 0
write_npy left_0.npy "4," '\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x00' # 0 0 1 0
write_npy left_1.npy "4," '\x00\x00\x80\x3f\x00\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x00' # 1 0 1 0
for pair in sum:sum residual_0:left_0 residual_1:left_1 acc_1:acc_1; do
  # The last 16 bytes are the values.
  cmp -s <(tail -c 16 "out/${pair%:*}.npy") <(tail -c 16 "${pair#*:}.npy") || fail "${pair%:*}.npy of the exchange"
done
expect_refusal 2 "unknown collective 'all_reduce'; valid: allgather" collective --collective all_reduce
expect_refusal 2 "--input acc.npy: expected a path with .rank. in it" collective --input acc.npy
expect_refusal 2 "no such file: acc_2.npy" collective --ranks 3 --input 'acc_{rank}.npy'
expect_refusal 2 "--dump out: 2 exchanges" collective --collective dense,gtopk --dump out
expect_refusal 2 "unknown network preset 'lan'" collective --network lan
expect_refusal 2 "density = 0: expected a number in" collective --density 0
expect_refusal 1 "mat_0.npy: 2 dimensions; a gradient has one" collective --collective dense --ranks 1 --input 'mat_{rank}.npy'

# gTop-k, figure 9, by the paper's formulas: 2L alpha + 4kL beta, and L alpha + 2k(P-1) beta.
"$bench" collective --collective gtopk,allgather --ranks 4,32 --numel 25000000 --density 0.001 --network 1gbe \
  --payload-only --svg figure.svg --json figure.json >/dev/null || fail "a virtual cluster"
for seconds in 0.0089 0.0223 0.0062 0.0579; do
  grep -q "\"seconds\": $seconds" figure.json || fail "no exchange of $seconds s"
done
grep -c '"of_formula": 1.0\|"of_formula": 0.9999' figure.json | grep -qx 4 || fail "virtual seconds are the formulas'"
grep -q "</svg>" figure.svg || fail "a figure"
"$bench" collective --collective all --ranks 3 --numel 3000 --density 0.01 --payload-only --latency-us 5 --gbps 1 \
  --json sizes.json >/dev/null || fail "size-only exchanges"
grep -q '"compute": "zero"' sizes.json || fail "rows say that time is virtual"
expect_refusal 2 "--payload-only: expected local workers on a network" collective --payload-only
expect_refusal 2 "--payload-only: index_union" collective --payload-only --network 1gbe --collective index_union
expect_refusal 2 "--payload-only: messages have no content that a code could shorten" collective --payload-only \
  --network 1gbe --collective allgather --set codec.indices=rice
expect_refusal 2 "--latency-us and --gbps: expected both" collective --gbps 1

# Update schemes on the tensors of a GPT-2 of 223,104 parameters: 54 tiles of 64 x 64 and 30 vectors of 64 are 3,486 entries, of 8
# bytes if they are raw. A round is 3 steps of 100 ms, their message and the agreement, each with 50 ms of latency at 12.5 MB/s.
rounds() {
  "$bench" rounds --classes 100 --set model.layers=1 --set model.hidden=128 --set model.heads=2 --set model.positions=64 \
    --inner-steps ${inner_steps:-3} --json - "$@" 2>rounds.txt
}
raw="--method sparseloco --set compression.codec.indices=raw32 --set compression.codec.values=float32"
for scale in 1 2; do
  rounds $raw --ranks 2 --scale $scale >rounds.json || fail "rounds: $(cat rounds.txt)"
  for value in '"parameters": 223104.0' '"message_bytes": 27888.0' '"bytes_formula": 9296.0' '"bytes_of_formula": 1.0' \
    '"mean": 9301.33' '"seconds_per_step": 0.134077' '"dense_bytes": 892416.0' '"times_fewer": 95.9'; do
    grep -q "$value" rounds.json || fail "not $value at scale $scale: $(cat rounds.json)"
  done
done
rounds $raw --ranks 4,5 --set compression.collective=gtopk >rounds.json || fail "rounds of gtopk: $(cat rounds.txt)"
[ "$(grep -c '"bytes_of_formula": 1.0' rounds.json)" = 2 ] || fail "other bytes of gtopk: $(cat rounds.json)"
# A ring of 4: 6 messages of a quarter of the gradient, and 2 of the agreement.
rounds --method dense,diloco --ranks 4 --gbps 0.1,10 >rounds.json || fail "dense rounds: $(cat rounds.txt)"
for seconds in 0.60709 0.50107 0.26903 0.23369; do
  grep -q "\"seconds_per_step\": $seconds" rounds.json || fail "no step of $seconds s: $(cat rounds.json)"
done
# Two fragments take turns, each beside a step that is longer than its messages.
inner_steps=4 rounds --method streaming_diloco,streaming_sparseloco --ranks 2 --overlap-steps 1 --step-ms 300 >rounds.json ||
  fail "streaming rounds: $(cat rounds.txt)"
[ "$(grep -c '"computing": \(1.0\|0.99999\)' rounds.json)" = 2 ] || fail "the exchange is not hidden: $(cat rounds.json)"
grep -q '"bytes_of_formula": 1.0' rounds.json || fail "other bytes of fragments: $(cat rounds.json)"
expect_refusal 2 "--scale 5: it must divide the last axis of embedding.weight, .50304, 768." rounds --scale 5
expect_refusal 2 "--compute measured: expected --scale 1" rounds --scale 2 --compute measured
expect_refusal 2 "--method: localsgd not in .dense,topk" rounds --method localsgd

# Without failures all time but that of forming the group goes into steps. With many an elastic run keeps most of its speed, more where
# death is noticed at once; a run that restarts does not.
"$bench" goodput --seconds 1000 --steps-to-failure 1000000000 --json goodput.json >/dev/null || fail "goodput"
for value in '"failures": 0,' '"elastic": 0.999,' '"fixed": 1.0'; do
  grep -q "$value" goodput.json || fail "not $value without failures: $(cat goodput.json)"
done
for silent in 0 0.5 1; do
  "$bench" goodput --seconds 20000 --steps-to-failure 50 --silent $silent --json goodput.json >/dev/null || fail "goodput, silent $silent"
  sed -n 's/.*"elastic": \([0-9.]*\),*/\1/p; s/.*"fixed": \([0-9.]*\),*/\1/p' goodput.json
done >shares
paste -sd' ' shares | awk '{ exit !($1 > $3 && $3 > $5 && $3 > 0.9 && $5 > 0.8 && $4 < 0.3) }' || fail "shares: $(cat shares)"
expect_refusal 2 "--silent" goodput --silent 2

# A bad command line ends with one line that names the nearest valid word.
names="codec, collective, compress, decode, fit, goodput, loader, network, profile, quantize, rounds, sample, step"
expect_refusal 2 "^dragonn-bench: unknown subcommand 'decod'; did you mean 'decode'. valid: $names$" decod --ranks 2
expect_refusal 2 "^dragonn-bench: no subcommand; valid: $names$"
expect_refusal 2 "^dragonn-bench: unknown option '--versoin'; did you mean '--version'" --versoin
expect_refusal 2 "^dragonn-bench decode: unknown option '--rank'; did you mean '--ranks'. valid options: dragonn-bench decode --help$" \
  decode --rank 2
expect_refusal 2 "^dragonn-bench decode: unknown option '--nmel'; did you mean '--numel'" decode --ranks=2 --nmel=3
expect_refusal 2 "^dragonn-bench decode: unexpected argument '3'" decode 3
expect_refusal 2 "^dragonn-bench decode: --decode: foo not in .sparse,coo,dense.$" decode --decode foo
expect_refusal 2 "unknown sparsifier 'topkk'; did you mean 'topk'" compress --sparsifier topkk
expect_refusal 2 "unknown model 'resnet21'; did you mean 'resnet20'" network --model resnet21
expect_refusal 2 "density = 0: expected a number in" network --density 0

# Quick: small sizes, few rounds, and a line that says so.
DRAGONN_QUICK=1 "$bench" compress --sparsifier topk --numel 100000000,1000 --rounds 50 --json quick.json >quick.log 2>&1 ||
  fail "DRAGONN_QUICK=1: $(tail -3 quick.log)"
grep -q 'DRAGONN_QUICK' quick.log || fail "DRAGONN_QUICK=1 passes in silence"
grep -q '"numel": 65536' quick.json && grep -q '"numel": 1000' quick.json || fail "other sizes: $(cat quick.json)"
DRAGONN_QUICK=1 "$bench" decode --numel=100 --ranks=2 >quick.log 2>&1 || fail "--numel=100: $(tail -3 quick.log)"
status=0
"$bench" decode --json absent/rows.json >quick.log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q 'absent/rows.json: there is no folder absent' quick.log || fail "no folder: $status, $(cat quick.log)"
status=0
DRAGONN_QUICK=soon "$bench" network >quick.log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q 'DRAGONN_QUICK=soon: expected a number' quick.log || fail "DRAGONN_QUICK=soon: $status, $(cat quick.log)"

version=$("$bench" --version) && [ "${version#dragonn-bench }" = "$("$BIN/dragonn-train" --version | sed 's/^dragonn-train //')" ] ||
  fail "the version: $version"
"$bench" --help >help.txt && [ "$(grep -c '^  dragonn-bench ' help.txt)" = 3 ] || fail "examples of the program"
# Every example of a help begins with its own subcommand, and every subcommand has two or three.
for name in ${names//,/}; do
  grep -q "^  $name  " help.txt || fail "the help does not name $name"
  "$bench" "$name" --help >"help-$name.txt" || fail "the help of $name"
  count=$(grep -c "^  dragonn-bench $name\\( \\|$\\)" "help-$name.txt")
  [ "$count" = 2 ] || [ "$count" = 3 ] || fail "$count examples of $name"
done

# width FILE: the longest line.
width() { wc -L <"$1"; }
# table NAME COLUMNS ARGUMENT...: the narrow table has COLUMNS in its header and fits; --wide and the JSON have every key.
table() {
  local name=$1 columns=$2 header
  shift 2
  "$bench" "$name" "$@" --json "$name.json" >"$name.txt" 2>"$name.err" || fail "$name: $(cat "$name.err")"
  [ "$(width "$name.txt")" -le 100 ] || fail "$name: $(width "$name.txt") columns: $(cat "$name.txt")"
  grep -qE "^ *${columns// / +}$" "$name.txt" || fail "$name: no header '$columns': $(cat "$name.txt")"
  "$bench" "$name" "$@" --wide >"$name.wide" 2>/dev/null || fail "$name --wide"
  header=" $(head -1 "$name.wide" | tr -s ' ') "
  # Keys of the rows stand four spaces in; those of objects in them further.
  for key in $(sed -n 's/^    "\([a-z0-9_]*\)":.*/\1/p' "$name.json" | sort -u); do
    [[ $header == *" $key "* ]] || fail "$name --wide: no column $key in $header"
  done
}
table compress "sparsifier mode seconds_median selected_over_k of_read of_accumulate below_dgc" \
  --sparsifier dgc,topk --numel 1000 --rounds 1
grep -q '^device cpu, numel 1000, density 0.001, distribution laplace, threads 1$' compress.txt ||
  fail "what is the same in all rows stands above them: $(cat compress.txt)"
table compress "numel density sparsifier mode seconds_median selected_over_k of_read" \
  --sparsifier topk --kernel all --numel 1000,1000000 --density 0.1,0.00001 --rounds 1
table quantize "quantizer stage seconds_median gigabytes_per_second bits_per_element of_read" --numel 1000 --rounds 1
table decode "decode ranks entries seconds_median gigabytes_per_second of_two" --numel 1000 --rounds 1
table loader "threads samples_per_second samples_per_second_lowest samples_per_second_highest" --data synthetic_images \
  --set synthetic_images.train_samples=100 --batch 10 --rounds 1
# A profile has every layer in both passes, the loss and the update, and shares of the whole.
"$bench" step --model mlp --sample 12 --set 'hidden=[5]' --rounds 2 --profile --json profile.json >/dev/null || fail "a profile"
for part in '"layer": "hidden0"' '"layer": "output"' '"layer": "loss"' '"pass": "forward"' '"pass": "backward"' '"pass": "update"'; do
  grep -q "$part" profile.json || fail "the profile lacks $part: $(cat profile.json)"
done
awk -F '[:,]' '/"share":/ { sum += $2 } END { exit !(sum > 0.999 && sum < 1.001) }' profile.json ||
  fail "shares of a step: $(grep share profile.json)"
table step "model parameters seconds_median samples_per_second gflops of_gemm" --model mlp --sample 12 --rounds 1
table sample "prompt prompt_tokens_per_second tokens_per_second milliseconds of_read" --vocabulary 50 --prompt 3,5 --tokens 4 \
  --set layers=1 --set hidden=16 --set heads=2 --rounds 1
expect_refusal 2 "layer layer0 .LSTM. cannot continue a text" sample --model lstm_lm --set hidden=8
table fit "share magnitude exponential gamma pareto" --input first.npy
table profile "sparsifier numel encode_seconds decode_seconds runs" --sparsifier topk,dgc --max-numel 2048
table collective "ranks collective phase seconds bytes_sent bytes_of_formula messages global" --ranks 2,3 --numel 1000
table rounds "method steps_per_exchange computing seconds_per_step bytes_sent times_fewer bytes_of_formula" --ranks 2 --inner-steps 2 --classes 100 \
  --method topk,diloco --set model.layers=1 --set model.hidden=32 --set model.heads=2
table network "backend bytes seconds seconds_fit gbps fit_latency_us fit_gbps" --model mlp,resnet20 --workers 8

# The prediction is the formulas': 14 messages of a ring of 8, and 2 * 7/8 of 4 bytes per parameter of resnet20.
read -r latency_us gbps < <(sed -n 's/.*network.latency_us=\(.*\) --set network.gbps=\(.*\)/\1 \2/p' network.txt)
said=$(sed -n 's/.*resnet20 (1.08 MB): dense ring allreduce \([0-9.e+]* [mu]*s\), topk at density 0.01 .*/\1/p' network.txt)
awk -v said="$said" -v alpha="$latency_us" -v gbps="$gbps" 'BEGIN {
  split(said, parts, " ")
  seconds = parts[1] * (parts[2] == "us" ? 1e-6 : parts[2] == "ms" ? 1e-3 : 1)
  expected = 14 * alpha * 1e-6 + 2 * 7 / 8 * 4 * 269722 * 8 / (gbps * 1e9)
  exit !(seconds > 0.99 * expected && seconds < 1.01 * expected)
}' || fail "not the prediction at $latency_us us and $gbps Gbit/s: $said: $(cat network.txt)"
settings=$(sed -n 's/^  \(--set network.model.*\)/\1/p' network.txt)
"$BIN/dragonn-train" quick.toml $settings --print-config >resolved.toml || fail "dragonn-train does not take $settings"
grep -q "^model = \"alpha-beta\"" resolved.toml || fail "no such network: $(grep -A8 network resolved.toml)"

# Pairs of nodes: threads are the workers of one node. Its file is a network for as many.
"$bench" network --pairs --seconds 0.01 --json pairs.json >pairs.txt 2>/dev/null || fail "pairs"
grep -qE '^backend +from +to +latency_us +gbps$' pairs.txt || fail "no table of pairs: $(cat pairs.txt)"
"$BIN/dragonn-train" quick.toml --workers 2 --set network.model=alpha-beta --set network.file=pairs.json --output on-pairs 2>/dev/null ||
  fail "dragonn-train does not take $(cat pairs.json)"
grep -q '"file": "pairs.json"' on-pairs/summary.json || fail "the summary does not name the network file"
sed 's/"inside_gbps": [0-9.e+-]*/"inside_gbps": 0/' pairs.json >zero.json
status=0
"$BIN/dragonn-train" quick.toml --workers 2 --set network.model=alpha-beta --set network.file=zero.json >zero.log 2>&1 || status=$?
[ "$status" = 2 ] && grep -q 'network.file: zero.json: nodes 0: inside_gbps = 0: expected number above 0' zero.log ||
  fail "a bad network file: $status, $(cat zero.log)"
expect_refusal 2 "seconds" network --seconds 1

# Progress: lines on the standard error, and on a terminal one line that is gone in the end.
"$bench" decode --numel 1000 --rounds 1 --ranks 2,3 --progress-every 0 >/dev/null 2>progress.txt || fail "progress"
[ "$(wc -l <progress.txt)" = 12 ] && ! grep -vqE '^decode: [0-9]+ %, [0-9]+ s so far, about [0-9]+ s left \(.* done\)$' progress.txt ||
  fail "a line for each measurement: $(cat progress.txt)"
tail -1 progress.txt | grep -q "^decode: 100 %, .* about 0 s left (dense of 3 ranks, round 1 done)" || fail "the end: $(tail -1 progress.txt)"
for run in "collective --ranks 2 --numel 1000" "compress --sparsifier topk --numel 1000" "quantize --numel 1000" "network" \
  "step --model mlp --sample 12 --rounds 2" "profile --sparsifier topk --max-numel 1024" "fit --input first.npy"; do
  "$bench" $run --progress-every 0 2>&1 >/dev/null | tail -1 | grep -q "^${run%% *}: " || fail "no progress of $run"
  [ "${run%% *}" = network ] || "$bench" $run --progress-every 0 2>&1 >/dev/null | tail -1 | grep -q ": 100 %, " ||
    fail "$run does not come to 100 %"
done
"$bench" decode --numel 1000 --rounds 1 --progress-every 1e6 2>&1 >/dev/null | grep . && fail "progress sooner than asked for"
if command -v script >/dev/null; then
  script -qec "'$bench' decode --numel 1000 --rounds 1 --ranks 2,3 --progress-every 0" terminal.txt </dev/null >/dev/null
  [ "$(grep -c 'so far' terminal.txt)" = 1 ] && [ "$(tr '\r' '\n' <terminal.txt | grep -c 'so far')" = 12 ] ||
    fail "one line is rewritten: $(cat -v terminal.txt)"
fi

# Labels of CTC are made up without its blank.
"$bench" step --model lstm_speech --batch 5 --classes 9 --set layers=1 --set hidden=7 --set channels=3 --sample 24x33 \
  --rounds 1 >/dev/null || fail "speech with few classes"
"$bench" step --model lstm_speech --batch 5 --classes 2 --set layers=1 --set hidden=7 --set channels=3 --sample 24x33 \
  --rounds 1 --dump speech >/dev/null || fail "speech with one class beside the blank"
[ "$(tail -c 20 speech/labels.npy | od -An -td4 | tr -s ' \n' ' ')" = " 1 1 1 1 1 " ] || fail "labels of CTC"

finish
