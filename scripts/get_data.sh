#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches a data set: scripts/get_data.sh NAME DIR, with NAME one of cifar10, cifar100, mnist, fashion_mnist.
# DIR then holds the files that data.path = "DIR" needs. Every archive is checked before anything appears in DIR; a
# second call finds the files there and does nothing.
#
#   DRAGONN_MIRROR      a URL or a local folder that has the archives, instead of the official place
#   --checksums FILE    lines "SHA-256  archive" which replace the official checksums: for mirrors of other copies
set -euo pipefail

usage() { sed -n 's/^# \{0,1\}//; 3,8p' "$0"; }

die() {
  echo "get_data.sh: $1" >&2
  exit "${2:-1}"
}

# set_description NAME: where the archives are, which there are, and the files that must come out of them.
set_description() {
  local idx='train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte'
  case $1 in
    cifar10)
      base=https://www.cs.toronto.edu/~kriz
      archives=cifar-10-binary.tar.gz
      files='data_batch_1.bin data_batch_2.bin data_batch_3.bin data_batch_4.bin data_batch_5.bin test_batch.bin'
      ;;
    cifar100)
      base=https://www.cs.toronto.edu/~kriz
      archives=cifar-100-binary.tar.gz
      files='train.bin test.bin'
      ;;
    mnist)
      base=https://ossci-datasets.s3.amazonaws.com/mnist
      archives=${idx// /.gz }.gz
      files=$archives
      ;;
    fashion_mnist)
      base=http://fashion-mnist.s3-website.eu-central-1.amazonaws.com
      archives=${idx// /.gz }.gz
      files=$archives
      ;;
    *) die "unknown data set '$1'; valid: cifar10, cifar100, mnist, fashion_mnist" 2 ;;
  esac
}

# The official SHA-256 sums: data set, sum, archive.
official_checksums() {
  cat <<'SUMS'
cifar10 c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd cifar-10-binary.tar.gz
cifar100 58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec cifar-100-binary.tar.gz
mnist 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 train-images-idx3-ubyte.gz
mnist 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c train-labels-idx1-ubyte.gz
mnist 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 t10k-images-idx3-ubyte.gz
mnist f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 t10k-labels-idx1-ubyte.gz
fashion_mnist 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 train-images-idx3-ubyte.gz
fashion_mnist a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 train-labels-idx1-ubyte.gz
fashion_mnist 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 t10k-images-idx3-ubyte.gz
fashion_mnist 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 t10k-labels-idx1-ubyte.gz
SUMS
}

# expected_sum NAME ARCHIVE
expected_sum() {
  local sum
  if [ -n "$checksums" ]; then
    sum=$(awk -v archive="$2" '{ sub(/^\*/, "", $2) } $2 == archive { print $1; exit }' "$checksums")
    [ -n "$sum" ] || die "$checksums has no line for $2"
  else
    sum=$(official_checksums | awk -v name="$1" -v archive="$2" '$1 == name && $3 == archive { print $2 }')
  fi
  echo "$sum"
}

# fetch ARCHIVE TARGET
fetch() {
  local source=${DRAGONN_MIRROR:-$base}
  source=${source%/}/$1
  echo "fetching $source"
  case $source in
    http://* | https://* | ftp://* | file://*)
      command -v curl >/dev/null || die "curl is needed to fetch $source: run scripts/install_deps.sh"
      curl --fail --location --silent --show-error --retry 3 --connect-timeout 30 --output "$2" "$source" ||
        die "cannot fetch $source; DRAGONN_MIRROR can name another place (a URL or a folder)"
      ;;
    *)
      [ -f "$source" ] || die "no such file: $source (DRAGONN_MIRROR names the folder of the archives)"
      cp "$source" "$2"
      ;;
  esac
}

# verify NAME ARCHIVE FILE
verify() {
  local expected actual
  expected=$(expected_sum "$1" "$2")
  actual=$(sha256sum "$3" | cut -d ' ' -f 1)
  [ "$actual" = "$expected" ] || die "$2: SHA-256 is $actual, but should be $expected: damaged, or another file"
}

main() {
  checksums=
  local arguments=()
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) usage && exit 0 ;;
      --checksums)
        [ $# -ge 2 ] || die "--checksums needs a file" 2
        checksums=$2
        [ -f "$checksums" ] || die "no such file: $checksums" 2
        shift
        ;;
      -*) die "unknown option $1; valid: --checksums FILE, --help" 2 ;;
      *) arguments+=("$1") ;;
    esac
    shift
  done
  [ ${#arguments[@]} = 2 ] || die "usage: scripts/get_data.sh [--checksums FILE] NAME DIR (see --help)" 2
  local name=${arguments[0]} target=${arguments[1]} archive file missing=
  set_description "$name"

  for file in $files; do [ -f "$target/$file" ] || missing=$file; done
  if [ -z "$missing" ]; then
    echo "$target has $name already"
    exit 0
  fi

  # On the file system of the target, so that the moves at the end are renames.
  mkdir -p "$target" || die "cannot create $target"
  work=$(mktemp -d "$target/.get_data.XXXXXX") || die "cannot write to $target"
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/content"
  for archive in $archives; do
    fetch "$archive" "$work/$archive"
    verify "$name" "$archive" "$work/$archive"
    case $archive in
      *.tar.gz) tar -xzf "$work/$archive" -C "$work/content" --strip-components=1 --no-same-owner ;;
      *) mv "$work/$archive" "$work/content/" ;;
    esac
  done
  for file in $files; do
    [ -f "$work/content/$file" ] || die "$file is not in the archives of $name ($archives)"
  done
  for file in $files; do mv -f "$work/content/$file" "$target/"; done
  echo "$name is in $target: $files"
}

main "$@"
