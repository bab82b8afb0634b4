#!/usr/bin/env bash
# A run that is killed at any moment, or stopped by a signal, and resumed ends with the parameters of the whole run; while
# it lasts no other run writes in its folder.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train

long=(quick.toml --workers 3 --set train.epochs=40 --set checkpoint.every_steps=20)
"$train" "${long[@]}" --output whole 2>/dev/null || fail "the whole run"
expected=$(parameters_hash whole)
[ -n "$expected" ] || fail "no parameters_hash in whole/summary.json"

# wait_for_checkpoint RUN_DIR: until the run that was started last has saved something.
wait_for_checkpoint() { wait_until $! has_checkpoint "$1" || fail "$1 saved no checkpoint"; }

for round in 1 2 3; do
  overlap=$([ $round = 2 ] && echo true || echo false) # it may change on the way
  "$train" "${long[@]}" --set compression.overlap="$overlap" --output killed 2>/dev/null &
  wait_for_checkpoint killed
  sleep "0.$((RANDOM % 4))"
  kill -KILL $! 2>/dev/null
  wait $! 2>/dev/null
  "$train" "${long[@]}" --output killed --resume auto 2>/dev/null || fail "resuming after SIGKILL, round $round"
  [ "$(parameters_hash killed)" = "$expected" ] || fail "another result after SIGKILL, round $round"
  rm -rf killed
done

for signal in TERM INT USR1; do
  # A background job of a script ignores SIGINT unless it asks for it.
  (trap - INT; exec "$train" "${long[@]}" --set train.epochs=4000 --output stopped 2>/dev/null) &
  wait_for_checkpoint stopped
  kill "-$signal" $!
  wait $!
  status=$?
  [ "$status" = 75 ] || fail "exit code $status instead of 75 after SIG$signal"
  "$train" "${long[@]}" --output stopped --resume auto 2>/dev/null
  rm -rf stopped
done

# A fault while a checkpoint is written: it does not count, and the run goes on from the one before.
if has_fault_points; then
  for fault in save:1:3:throw commit:0:3:throw commit:0:3:kill; do
    DRAGONN_FAULT=$fault "$train" "${long[@]}" --output faulty 2>faulty.log && fail "$fault did not end the run"
    [ "$(ls faulty/checkpoints | grep -v partial)" = "$(printf 'step-00000020\nstep-00000040')" ] ||
      fail "$fault left $(ls faulty/checkpoints)"
    "$train" "${long[@]}" --output faulty --resume auto 2>/dev/null || fail "resuming after $fault"
    [ "$(parameters_hash faulty)" = "$expected" ] || fail "another result after $fault"
    rm -rf faulty
  done
  # Before the first step, where nothing can be lost, SIGINT and SIGTERM end the process, and at any time a second one does.
  blocks_signals() { (((0x$(awk '/^SigBlk/ { print $2 }' "/proc/$1/status") & 0x4202) == 0x4202)); } # PROCESS
  is_saving() { compgen -G "held/checkpoints/*.partial" >/dev/null; }
  for signal in INT TERM; do
    for place in start save; do
      (trap - INT; DRAGONN_FAULT=$place:0:1:sleep=60 exec "$train" "${long[@]}" --output held 2>held.log) &
      if [ $place = save ]; then
        wait_until $! is_saving && kill "-$signal" $!
      else
        wait_until $! blocks_signals $! && kill -USR1 $!
      fi
      sleep 0.2
      kill "-$signal" $! || fail "one signal killed the run that was held at $place: $(tail -3 held.log)"
      wait $!
      status=$?
      [ "$status" = $((128 + $(kill -l $signal))) ] || fail "exit code $status after SIG$signal at $place"
      rm -rf held
    done
  done
  DRAGONN_FAULT=save:1:3:sing expect_error 2 "DRAGONN_FAULT=save:1:3:sing: expected PLACE" -- "$train" "${long[@]}" --output faulty
fi

# The warning that it sends more than dense would comes once in a run, resumed or not.
dear=(quick.toml --workers 3 --set compression.density=0.9 --set checkpoint.every_steps=1)
"$train" "${dear[@]}" --set train.max_steps=3 --output dear 2>/dev/null || fail "the first part of the dear run"
"$train" "${dear[@]}" --set train.max_steps=6 --output dear --resume auto 2>/dev/null || fail "resuming the dear run"
[ "$(grep -c 'dense is faster on any network' dear/summary.json)" = 1 ] || fail "not one warning: $(cat dear/summary.json)"

# A run that is suspended for longer than its deadline goes on as if nothing had happened.
"$train" "${long[@]}" --set comm.timeout_s=6 --output suspended 2>suspended.log &
wait_for_checkpoint suspended
kill -STOP $!
sleep 8
kill -CONT $!
wait $! || fail "a suspended run did not go on: $(tail -1 suspended.log)"
[ "$(parameters_hash suspended)" = "$expected" ] || fail "another result after a suspension"

# A run whose folder is gone has lost its results, and says so.
"$train" "${long[@]}" --set train.epochs=4000 --output gone 2>gone.log &
wait_for_checkpoint gone
mv gone elsewhere
wait $! && fail "a run without its folder ended with exit code 0"
grep -qE " E .*gone/(metrics.jsonl was removed|checkpoints)" gone.log || fail "not said: $(tail -1 gone.log)"

"$train" "${long[@]}" --set train.epochs=4000 --output busy 2>/dev/null &
wait_for_checkpoint busy
for resume in "" "--resume auto"; do
  # shellcheck disable=SC2086
  expect_error 2 "busy: another process writes there" -- "$train" "${long[@]}" --output busy $resume
done
[ ! -e busy/earlier-1 ] || fail "a refused run moved the files of the one at work"
# A thread of its own takes SIGINT, SIGUSR1 and SIGTERM: signals interrupt none of those that compute.
takers=0
for status in /proc/$!/task/*/status; do
  blocked=$(awk '/^SigBlk/ { print $2 }' "$status")
  (((0x$blocked & 0x4202) == 0x4202)) || takers=$((takers + 1))
done
[ "$takers" = 1 ] || fail "$takers threads take signals"
kill -TERM $!
wait $!
[ $? = 75 ] || fail "the run whose folder another one wanted did not go on"
finish
