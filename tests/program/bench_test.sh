#!/usr/bin/env bash
# dragonn-bench takes a user's own gradients, and writes down what each method selects from them.
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

# Of (0, 0, 0, 1, 2): mean 0.6, variance 0.8, so that Pareto's shape is 0.275 and its scale 0.435; half of the entries reach 0.
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
  --json hollow.json >/dev/null || fail "hollow exchanges"
grep -q '"compute": "zero"' hollow.json || fail "rows say that time is virtual"
expect_refusal 2 "--payload-only: expected local workers on a network" collective --payload-only
expect_refusal 2 "--payload-only: index_union" collective --payload-only --network 1gbe --collective index_union
expect_refusal 2 "--latency-us and --gbps: expected both" collective --gbps 1

finish
