#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The output of a run: a progress line that fits the terminal from the first step on, lines with losses where there is no
# terminal, and no colour where none is wanted.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train
run=("$train" quick.toml --workers 2 --set train.epochs=4 --set logging.every_steps=1000)

# A log without a terminal: loss, bytes and communication, at most one line per epoch in so short a run.
"${run[@]}" --set logging.every_steps=1 --output plain 2>plain.txt || fail "a run without a terminal"
grep -qE 'I epoch .*training loss [0-9.]+  .*/s  .* sent per step  exposed communication ' plain.txt ||
  fail "no training loss in: $(cat plain.txt)"
[ "$(grep -c 'training loss' plain.txt)" -le 4 ] || fail "more than one line per epoch"
! grep -q $'\033' plain.txt || fail "control codes without a terminal"
diff <(grep -c 'training loss' plain.txt) <(grep -c 'training loss' plain/log.txt) || fail "log.txt has other lines"

if ! command -v script >/dev/null || ! script --version 2>/dev/null | grep -q util-linux; then
  echo "skipped: a terminal needs script of util-linux"
  finish
  exit
fi

# on_terminal COLUMNS COMMAND...: the output of the command on a terminal of that width.
on_terminal() {
  local columns=$1
  shift
  TERM=xterm script -qec "stty cols $columns; $(printf '%q ' "$@")" /dev/null
}

for columns in 40 80 120; do
  on_terminal $columns "${run[@]}" --output "run$columns" >terminal.txt </dev/null || fail "a run at $columns columns"
  # One line for each erasure: what is between two control codes.
  tr '\r' '\n' <terminal.txt | sed 's/\x1b\[[0-9;]*[A-Za-z]//g' | grep -a 'step [0-9]*/[0-9]*  loss' | grep -av ' I ' >lines.txt
  [ -s lines.txt ] || fail "no progress line at $columns columns, where no step is recorded before the last"
  head -1 lines.txt | grep -q 'step 1/' || fail "the first step is not shown at $columns columns"
  awk -v columns="$columns" 'length >= columns { exit 1 }' lines.txt || fail "a line of $columns columns or more"
  ! grep -aq 'training loss' terminal.txt || fail "notes beside the progress line"
  grep -q 'training loss' "run$columns/log.txt" || fail "no training loss in the log file"
done
on_terminal 120 "${run[@]}" --output color </dev/null | grep -aq $'\033\[3[0-9]m' || fail "no colour on a terminal"
NO_COLOR=1 on_terminal 120 "${run[@]}" --output plain_too </dev/null | grep -a $'\033\[3[0-9]m' && fail "colour with NO_COLOR"
! TERM=dumb script -qec "$(printf '%q ' "${run[@]}") --output dumb" /dev/null </dev/null | grep -aq $'\033\[[JK]' ||
  fail "a progress line on a terminal that cannot erase"
finish
