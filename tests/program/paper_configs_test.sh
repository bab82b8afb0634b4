#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every config of the papers' experiments plans its run, on made-up data; a twin trains by scripts/experiments.py.
. "$(dirname "$0")/lib.sh" "$1"
train=$BIN/dragonn-train

# Data as each experiment expects it. CIFAR's files and generated points are not read for a plan.
mkdir -p data/{squad,cifar10,cifar100,imagenet/{train,val}/{a,b},ptb,wikitext-2,wikipedia,wiki10-31k,an4/{etc,wav}}
words='the cat sat on the mat and the dog sat on the cat'
for ((i = 0; i < 300; ++i)); do echo "$words $words $words"; done >text
for file in ptb/ptb.{train,valid,test}.txt wikitext-2/{wiki.{train,valid,test}.tokens,test.txt,valid.txt} wikipedia/{train,valid}.txt; do
  cp text "data/$file"
done
for folder in data/imagenet/*/*; do # a PNG of one pixel
  base64 -d <<<iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC >"$folder/1.png"
done
printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwho\nsat\ncat\n' >data/squad/vocab.txt
for file in train dev; do
  echo '{"version": "1.1", "data": [{"title": "a", "paragraphs": [{"context": "cat sat", "qas": [{"id": "1",
    "question": "who sat", "answers": [{"text": "cat", "answer_start": 0}]}]}]}]}' >"data/squad/$file-v1.1.json"
done
for file in train test; do # three points of three features and labels
  printf '3 3 3\n0 0:1 1:.5\n1,2 1:1\n0 2:1\n' >"data/wiki10-31k/$file.txt"
  for ((i = 0; i < 80; ++i)); do
    echo "u$i" >>"data/an4/etc/an4_$file.fileids"
    echo "A B (u$i)" >>"data/an4/etc/an4_$file.transcription"
  done
done
for ((i = 0; i < 80; ++i)); do head -c 32000 /dev/zero >"data/an4/wav/u$i.raw"; done

planned=0
for config in "$ROOT"/configs/papers/*/*.toml; do
  "$train" "$config" --dry-run >plan.txt 2>errors.txt || fail "--dry-run of ${config#"$ROOT"/}: $(tail -1 errors.txt)"
  grep -q '^checkpoint: ' plan.txt || fail "no plan of ${config#"$ROOT"/}"
  [[ $config == *_small.toml || -f ${config%.toml}_small.toml ]] || fail "${config#"$ROOT"/} has no small twin"
  name=${config#"$ROOT"/configs/papers/}
  [[ $config == *_small.toml ]] || grep -qF "\`$name\`" "$ROOT/configs/README.md" || fail "configs/README.md does not name $name"
  planned=$((planned + 1))
done
[ "$planned" -ge 50 ] || fail "only $planned configs of papers"

# twins ARGUMENT...: one step of each run.
twins() {
  DRAGONN_DATA=$WORK/data "$ROOT/scripts/experiments.py" "$ROOT/scripts/grids/paper_twins.toml" --bin "$BIN" --output out \
    --set train.max_steps=1 --set data.test_samples=20 "$@" 2>errors.txt
}
xml=(--only 'dragonn-xml_linear-*')
twins "${xml[@]}" >table.md || fail "the twin of dragonn/xml_linear: $(cat errors.txt)"
grep -qE '^\| `dragonn-xml_linear` \| `dragonn` \| precision_at_1 \|( [0-9.]+, [0-9]+ kB \|){5} ' table.md || fail "its row: $(cat table.md)"
finished=$(stat -c %Y.%i "out/dragonn-xml_linear-dense/summary.json")
[ -z "$(twins --print "${xml[@]}")" ] || fail "--print lists runs that are done"
rm -r "out/dragonn-xml_linear-0.01"
twins --table "${xml[@]}" >table.md && fail "--table does not say that a run is missing"
grep -qE '\| not run yet \| [0-9.]+, [0-9]+ kB \| .*unknown at 0.01' table.md || fail "the missing run: $(cat table.md)"
[ "$finished" = "$(stat -c %Y.%i "out/dragonn-xml_linear-dense/summary.json")" ] || fail "the dense run was repeated"
[ "$(twins --print | wc -l)" -ge 75 ] || fail "not all twins: $(cat errors.txt)"
twins --only 'dragonn-xml' >table.md && fail "a twin that is not there"
grep -q -- '--only dragonn-xml: no such run: expected patterns of .*dragonn-xml_linear-dense' errors.txt ||
  fail "a twin that is not there: $(cat errors.txt)"

finish
