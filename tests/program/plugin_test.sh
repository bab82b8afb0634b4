#!/usr/bin/env bash
# Plug-ins: components of one's own are listed, chosen and configured as the program's, on every backend, and a run's folder
# knows its plug-ins. A shared object that does not fit is refused with one line, before anything of it runs.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
unset MASTER_ADDR MASTER_PORT RANK WORLD_SIZE
cp "$BIN"/../plugins/*.so . || exit 1
own="--set compression.method=every_nth"

# It is listed with its file, and its keys are valid.
"$train" --plugin every_nth.so --list >list.txt || fail "--list"
grep -qxF "sparsifier every_nth: one of every n / k entries, the next ones at the next step (plug-in $WORK/every_nth.so)" list.txt ||
  fail "--list has $(grep every_nth list.txt)"
grep -q '^method every_nth: .*every_nth.so' list.txt || fail "--list has no method every_nth"
! grep 'sparsifier topk' list.txt | grep -q plug-in || fail "--list marks the program's own"
"$train" --plugin every_nth.so --list sparsifiers every_nth | grep -qE "^Plug-in +$WORK/every_nth.so" || fail "--list sparsifiers every_nth"
"$train" --plugin shortcuts.so --set model.blocks=3 --set model.name=shortcuts --print-config >config.txt || fail "--print-config"
grep -qxF "plugins = [\"$WORK/shortcuts.so\"]" config.txt && grep -qx 'blocks = 3' config.txt || fail "--print-config: $(head -30 config.txt)"
"$train" quick.toml --plugin every_nth.so $own --workers 2 --dry-run 2>&1 | grep -q every_nth || fail "--dry-run"
expect_error 2 "compression.method=every_nth: expected" -- "$train" quick.toml $own

# By the option, and by a line in the config, which is relative to the config.
"$train" quick.toml --workers 2 --plugin every_nth.so $own --output whole 2>log || fail "--plugin: $(cat log)"
grep -qF "plug-in $WORK/every_nth.so: sparsifier every_nth" whole/log.txt || fail "the log names no plug-in"
mkdir -p folder/inner
(echo 'plugins = ["../../every_nth.so"]' && sed 's/^method = .*/method = "every_nth"/' quick.toml) >folder/inner/own.toml
"$train" folder/inner/own.toml --workers 2 --plugin ./every_nth.so --output by-config 2>log || fail "plugins = [...]: $(cat log)"
grep -qxF "plugins = [\"$WORK/every_nth.so\"]" by-config/config.toml || fail "config.toml: $(grep plugins by-config/config.toml)"
"$train" folder/inner/own.toml --list methods | grep -q ^every_nth || fail "--list with a config"
[ -n "$(parameters_hash whole)" ] && [ "$(parameters_hash whole)" = "$(parameters_hash by-config)" ] || fail "other parameters by the config"

# A run folder needs no option; a plug-in that is gone is named.
"$train" quick.toml --workers 2 --plugin every_nth.so $own --set train.max_steps=7 --output part 2>log || fail "the first part: $(cat log)"
(cd folder && "$train" --resume ../part --set train.max_steps=0 2>../log) || fail "--resume: $(cat log)"
[ "$(parameters_hash whole)" = "$(parameters_hash part)" ] || fail "--resume ends with other parameters"
"$train" --evaluate whole 2>log | grep -q '"accuracy"' || fail "--evaluate: $(cat log)"
"$train" --export weights.safetensors --from whole 2>log || fail "--export: $(cat log)"
"$BIN/dragonn" sample whole 2>&1 | grep -q '"synthetic_images" does not keep its tokenizer' || fail "dragonn sample does not load a run's plug-in"
mv every_nth.so moved.so
expect_error 2 "whole/config.toml:[0-9]+:1: plugins: $WORK/every_nth.so: .*no such file" -- "$train" --evaluate whole
"$train" --evaluate whole --set 'plugins=["moved.so"]' 2>log | grep -q '"accuracy"' || fail "a moved plug-in: $(cat log)"
mv moved.so every_nth.so

# Ranks that are processes, and one that fails for all.
tcp() { # NAME FILE_OF_RANK_1
  local rank
  codes=()
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 "$train" quick.toml --set comm.backend=tcp --set "comm.rendezvous=file:$WORK/$1.meet" $own \
      --plugin "$([ $rank = 1 ] && echo "$2" || echo every_nth.so)" --output "$1" >"$1.$rank.log" 2>&1 &
    ids[rank]=$!
  done
  for rank in 0 1; do wait "${ids[rank]}"; codes+=($?); done
}
tcp by-tcp every_nth.so
[ "${codes[*]}" = "0 0" ] && [ "$(parameters_hash whole)" = "$(parameters_hash by-tcp)" ] || fail "tcp: ${codes[*]} $(cat by-tcp.*.log)"
tcp lacking absent.so
[ "${codes[*]}" = "2 2" ] || fail "a rank without its plug-in over TCP: ${codes[*]}"
[ "$(cat lacking.*.log | grep -c ' E rank 1: --plugin absent.so: .*no such file')" = 1 ] || fail "over TCP: $(cat lacking.*.log)"
timeout 300 mpirun -np 2 "$train" quick.toml $own --plugin every_nth.so --output by-mpi 2>log || fail "mpirun: $(tail -3 log)"
[ "$(parameters_hash whole)" = "$(parameters_hash by-mpi)" ] || fail "other parameters under mpirun"
cat >of_rank.sh <<'SCRIPT'
plugin=every_nth.so
[ "$OMPI_COMM_WORLD_RANK" = 1 ] && plugin=absent.so
exec "$@" --plugin $plugin
SCRIPT
timeout 300 mpirun -np 2 bash of_rank.sh "$train" quick.toml $own --output lacking 2>log
[ $? = 2 ] && [ "$(grep -c ' E rank 1: --plugin absent.so: .*no such file' log)" = 1 ] || fail "a rank without its plug-in under mpirun: $(cat log)"
[ ! -e lacking ] || fail "a rank without its plug-in left a folder"

# Every kind, from plug-ins that hide their symbols, too: copies of the program's components give the same bits.
parts="model.name=@mlp data.name=@synthetic_images optimizer.name=@sgd schedule.name=@constant compression.sparsifier=@topk
  compression.memory=@residual compression.collective=@allgather compression.density_schedule=@constant
  compression.codec.indices=@rice compression.codec.values=@int8"
sets() { for part in $parts; do echo "--set ${part/@/$1}"; done; }
"$train" quick.toml --workers 3 $(sets '') --output own 2>log || fail "the program's components: $(cat log)"
for plugin in all_kinds all_kinds_hidden; do
  "$train" --list --plugin $plugin.so >list.txt || fail "$plugin: --list"
  [ "$(grep -c " own_.*(plug-in .*/$plugin.so)" list.txt)" = 13 ] || fail "$plugin lists $(grep own_ list.txt)"
  "$train" quick.toml --workers 3 --plugin $plugin.so $(sets own_) --output $plugin 2>log || fail "$plugin: $(cat log)"
  [ -n "$(parameters_hash own)" ] && [ "$(parameters_hash own)" = "$(parameters_hash $plugin)" ] || fail "$plugin: other parameters"
done
"$train" quick.toml --workers 2 --plugin all_kinds.so --plugin shortcuts.so --set model.name=shortcuts \
  --set compression.method=own_signsgd --output two 2>log || fail "two plug-ins: $(cat log)"
"$BIN/dragonn-bench" compress --plugin every_nth.so --sparsifier every_nth --numel 4096 --rounds 2 2>log | grep -q every_nth ||
  fail "dragonn-bench: $(cat log)"

# Refused, with nothing written.
rm -rf runs
echo "no object" >text.so
head -c 3000 every_nth.so >cut.so
mkfifo pipe.so
refuse() { expect_error 2 "E --plugin $1: $2" -- "$train" quick.toml --plugin "$1"; }
refuse absent.so "no such file"
refuse text.so "it is no shared object"
refuse cut.so "it is no plug-in|it is no shared object"
refuse pipe.so ".*pipe.so is no regular file"
refuse "$train" "it is no plug-in of dragonn"
refuse refused_symbol.so "it is no plug-in of dragonn: expected DRAGONN_PLUGIN"
refuse refused_abi.so "it was built for dragonn 0.0.1, headers 0123456789abcdef, GCC 1.*, and this program is dragonn 0"
refuse refused_copy.so "it contains a copy of dragonn's libraries: link it with dragonn::plugin alone"
refuse refused_empty.so "it registers no component"
refuse refused_undefined.so ".*undefined symbol: .*never_defined_function"
refuse refused_duplicate.so "sparsifier 'topk' is registered by .*topk.cpp and by .*refused.cpp"
cp every_nth.so again.so
expect_error 2 "E --plugin again.so: sparsifier 'every_nth' is registered by $WORK/every_nth.so .*every_nth.cpp" -- \
  "$train" quick.toml --plugin every_nth.so --plugin again.so
expect_error 2 "refused_hidden.so: the sparsifier 'dsa' has the name of another method" -- "$train" quick.toml --plugin refused_hidden.so
expect_error 2 "E --plugin absent.so: no such file" -- "$train" --list --plugin absent.so
expect_error 2 "plugins=every_nth.so: expected list of strings" -- "$train" quick.toml --set plugins=every_nth.so
(echo 'plugins = 3' && cat quick.toml) >three.toml
expect_error 2 "three.toml:1:1: plugins = 3: expected list of strings" -- "$train" three.toml
(echo 'plugins = ["nowhere.so"]' && cat quick.toml) >nowhere.toml
expect_error 2 "nowhere.toml:1:1: plugins: nowhere.so: no such file: $WORK/nowhere.so" -- "$train" nowhere.toml
[ ! -e runs ] || fail "a plug-in that was refused left a folder"
finish
