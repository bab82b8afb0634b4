#!/usr/bin/env bash
# Every command that the documents show runs as it is printed, on small data and for a few steps.
. "$(dirname "$0")/lib.sh" "$1"

mkdir -p checkout/data/{cifar10,wikitext2,an4,tinyshakespeare}
(
  cd checkout/data/cifar10 || exit 1
  cifar data_batch_1.bin 210  # five of these feed 32 workers
  for i in 2 3 4 5; do ln -s data_batch_1.bin "data_batch_$i.bin"; done
  cifar test_batch.bin 40
)
(
  cd checkout/data/wikitext2 || exit 1
  for _ in $(seq 400); do echo "the quick brown fox jumps over the lazy dog and all of the other dogs sleep on"; done >train.txt
  for part in valid test; do ln -s train.txt "$part.txt"; done
  for part in train valid test; do ln -s train.txt "wiki.$part.tokens"; done
  cp train.txt ../tinyshakespeare/input.txt
)
# an4 PART: utterances of a second of noise, as AN4 has them: 16 kHz, 16 bits, the larger byte first.
an4() {
  local i
  mkdir -p "wav/$1"
  for i in $(seq 12); do
    echo "$1/u$i" >>"etc/an4_$1.fileids"
    echo "<s> ONE TWO </s> (u$i)" >>"etc/an4_$1.transcription"
    head -c 32000 /dev/urandom >"wav/$1/u$i.raw"
  done
}
(
  cd checkout/data/an4 || exit 1
  mkdir etc
  an4 train
  an4 test
)

unset DRAGONN_DATA
python3 -B "$HERE/documented_commands.py" "$ROOT" "$BIN" checkout || fail "commands of the documents"
finish
