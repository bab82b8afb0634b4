#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the Debian packages, installs them in an empty system of this machine's release (debootstrap, kept in
# build/clean_root), and uses what they bring there: programs, manual pages, completions, a short training run. Minutes, most
# of them for downloads in the first run. Ends with 77 and the reason where this process is not root, debootstrap is missing,
# or the distribution's mirror cannot be reached.
# Environment: DRAGONN_MIRROR (http://deb.debian.org/debian), DRAGONN_SKIP_BUILD=1 (scripts/build.sh).
# Usage: scripts/package_test.sh [--dev]     --dev: also builds a project on dragonn-dev there (downloads 600 MB)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  '' | --dev) ;;
  -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/package_test.sh && exit 0 ;;
  *) echo "package_test.sh: '$1': expected nothing, --dev or --help" >&2 && exit 2 ;;
esac
skip() { echo "skipped: $*" && exit 77; }
fail() { echo "FAILED: $*" >&2 && exit 1; }

[ "$(id -u)" -eq 0 ] || skip "installing packages in a root of their own needs root"
command -v debootstrap >/dev/null || skip "debootstrap is missing (scripts/install_deps.sh tools)"
command -v dpkg-shlibdeps >/dev/null || skip "dpkg-shlibdeps is missing (package dpkg-dev)"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
[ "$(. /etc/os-release && echo "$ID")" = debian ] || skip "this is not Debian"
mirror=${DRAGONN_MIRROR:-http://deb.debian.org/debian}
cache=build/clean_root
packages=build/release/packages
mkdir -p "$cache/archives"

# The system is made beside its place, so that one which was interrupted does not count.
if [ ! -d "$cache/$release" ]; then
  curl -sfo /dev/null --max-time 20 "$mirror/dists/$release/Release" || skip "$mirror cannot be reached"
  rm -rf "$cache/partial"
  debootstrap --variant=minbase --include=man-db,bash-completion "$release" "$cache/partial" "$mirror" >"$cache/debootstrap.log" ||
    fail "debootstrap: $(tail -3 "$cache/debootstrap.log")"
  mv "$cache/partial" "$cache/$release"
fi

. scripts/build.sh
DRAGONN_FAULT_POINTS=OFF build release dragonn dragonn_pages
rm -rf "$packages"
cpack --config build/release/CPackConfig.cmake -G DEB -B "$packages" >"$cache/cpack.log" || fail "$(tail -5 "$cache/cpack.log")"
rm -rf "$packages/_CPack_Packages"

root=$(mktemp -d "$cache/root.XXXXXX")
trap 'rm -rf "$root"' EXIT
cp -a "$cache/$release/." "$root"
cp -an "$cache/archives/." "$root/var/cache/apt/archives/"
cp /etc/resolv.conf "$root/etc/"
cp "$packages"/*.deb "$root/root/"
inside() { env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
# apt_install OPTION|PACKAGE...: and keeps what it loads.
apt_install() {
  inside apt-get -qy --no-install-recommends install "$@" >>"$cache/dpkg.log" 2>&1 || fail "$(tail -5 "$cache/dpkg.log")"
  cp -an "$root"/var/cache/apt/archives/*.deb "$cache/archives/" 2>/dev/null || true
}
# install PACKAGE_NAME: dpkg takes the file, apt what it depends on.
install() {
  inside sh -c "dpkg -i /root/$1_*.deb" >"$cache/dpkg.log" 2>&1 || apt_install -f
  inside dpkg -s "$1" | grep -q '^Status: install ok installed' || fail "$1 is not installed: $(tail -5 "$cache/dpkg.log")"
}
inside apt-get -q update >"$cache/update.log" 2>&1 || skip "apt-get update fails: $(tail -1 "$cache/update.log")"
install dragonn
echo "installed: $(inside dpkg-query -W -f '${Package} ${Version} (${Installed-Size} kB); depends on ${Depends}' dragonn)"

# prints PATTERN COMMAND...: the command succeeds inside, and some line that it prints matches.
prints() {
  local pattern=$1 output
  shift
  output=$(inside "$@" 2>&1) || fail "$*: $(tail -3 <<<"$output")"
  grep -qE -e "$pattern" <<<"$output" || fail "$* does not print '$pattern': $(head -5 <<<"$output")"
}
for program in dragonn dragonn-train dragonn-bench dragonn-compare; do
  prints "^$program [0-9][^ ]*$" $program --version # without fault points
  inside man -P cat $program >"$cache/page.txt" 2>"$cache/page.err" || fail "man $program"
  [ ! -s "$cache/page.err" ] || fail "man $program warns: $(cat "$cache/page.err")"
  grep -q -e '--version' "$cache/page.txt" || fail "man $program has no --version"
done
prints '^sparsifier topk:' dragonn-train --list
prints fusion_mib man -P cat 5 dragonn-train.toml
prints Finished dragonn-train /usr/share/dragonn/configs/synthetic_quick.toml --output /root/run
prints 'wrote /root/report.html' dragonn compare /root/run --output /root/report.html
prints '"accuracy":' dragonn evaluate /root/run
prints latency env DRAGONN_QUICK=1 dragonn-bench network

cp tests/program/complete.bash "$root/root/"
offers() { # LINE WORDS: what bash completes after LINE, by the file that the package brings
  local words
  words=$(inside bash /root/complete.bash "$1")
  [ "$words" = "$2" ] || fail "after '$1' bash offers '$words', not '$2'"
}
offers "dragonn-train --set compression.me" "compression.memory= compression.method="
offers "dragonn-train --set compression.method=gt" "gtopk"
offers "dragonn-bench netw" "network"
offers "dragonn-compare --sv" "--svg"
offers "dragonn train --d" "--dry-run"

if [ "${1:-}" = --dev ]; then
  install dragonn-dev
  apt_install g++ make
  for project in tests/house/consumer examples/own_sparsifier; do
    cp -a $project "$root/root/"
    inside sh -c "cd /root/${project##*/} && cmake -B build && cmake --build build" >"$cache/project.log" 2>&1 ||
      fail "$project on dragonn-dev: $(tail -5 "$cache/project.log")"
  done
  plugin=/root/own_sparsifier/build/every_nth.so
  prints '^dragonn$' /root/consumer/build/consumer
  prints "^sparsifier every_nth: .*plug-in $plugin" dragonn-train --plugin $plugin --list
  echo "a project and a plug-in on dragonn-dev build and run"
fi
echo "all passed"
