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

# What goes wrong is named, and leaves nothing.
expect 1 'test.bin is not in the archives of cifar100' "$get_data" --checksums sums cifar100 partial
[ -z "$(ls -A partial)" ] || fail "an incomplete archive left files"
head -c 100 mirror/cifar-10-binary.tar.gz >short && mv short mirror/cifar-10-binary.tar.gz
expect 1 'cifar-10-binary.tar.gz: SHA-256' "$get_data" --checksums sums cifar10 short
[ -z "$(ls -A short)" ] || fail "a truncated archive left files"
DRAGONN_MIRROR=$work/absent expect 1 'no such file: .*absent/cifar-10-binary.tar.gz' "$get_data" cifar10 none
DRAGONN_MIRROR=file://$work/absent expect 1 'cannot fetch file://.*absent' "$get_data" cifar10 none
expect 2 "unknown data set 'cifar11'; valid: cifar10" "$get_data" cifar11 none
expect 2 'usage' "$get_data" cifar10
expect 2 'no such file: absent' "$get_data" --checksums absent cifar10 none
echo "0000  other" >few
expect 1 'few has no line for cifar-10-binary.tar.gz' "$get_data" --checksums few cifar10 none
expect 0 'DRAGONN_MIRROR' "$get_data" --help

[ "$failures" = 0 ] || { echo "$failures failed" >&2; exit 1; }
echo "all passed"
