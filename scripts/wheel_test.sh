#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds the wheel of the Python package, installs it in a fresh virtual environment and, with debootstrap, in empty systems of
# Debian 12 and Ubuntu 24.04 (kept in build/clean_root), and uses it there: four processes under torchrun where this machine's
# python3 has PyTorch, an exchange without PyTorch in the systems. Minutes, most of them for the build and for downloads in the
# first run. Ends with 77 and the reason where the build's tools cannot be had; what else is left out is said.
# Environment: DRAGONN_MIRROR (http://deb.debian.org/debian), DRAGONN_UBUNTU_MIRROR (http://archive.ubuntu.com/ubuntu).
# Usage: scripts/wheel_test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  '') ;;
  -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/wheel_test.sh && exit 0 ;;
  *) echo "wheel_test.sh: '$1': expected nothing or --help" >&2 && exit 2 ;;
esac
fail() { echo "FAILED: $*" >&2 && exit 1; }

cache=$PWD/build/clean_root
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$cache"
python3 -m venv "$work/tools" && "$work/tools/bin/pip" -q install build scikit-build-core >"$work/pip.log" 2>&1 ||
  { echo "skipped: no scikit-build-core: $(tail -1 "$work/pip.log")" && exit 77; }
CMAKE_GENERATOR=Ninja "$work/tools/bin/python" -m build --wheel --no-isolation --outdir "$work" python >"$work/build.log" 2>&1 ||
  fail "no wheel: $(tail -5 "$work/build.log")"
wheel=$(echo "$work"/*.whl)
echo "built ${wheel##*/}, $(du -k "$wheel" | cut -f1) kB"

if torch=$(python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])' 2>/dev/null); then
  python3 -m venv "$work/fresh"
  echo "$torch" >"$(echo "$work"/fresh/lib/python3*/site-packages)/parent.pth" # instead of another download of PyTorch
  "$work/fresh/bin/pip" -q install --no-deps "$wheel"
  python3 tests/program/python_blocks.py python/README.md >"$work/example.py"
  (cd "$work" && env -u DRAGONN_LIBRARY -u PYTHONPATH timeout 300 fresh/bin/python -W ignore -m torch.distributed.run --standalone \
    --nproc-per-node 4 example.py) >"$work/example.log" 2>&1 || fail "python/README.md's example: $(tail -5 "$work/example.log")"
  echo "four processes train in a fresh environment"
else
  echo "left out: this machine's python3 has no PyTorch"
fi

# check_system RELEASE MIRROR SCRIPT [OPTION]: an empty system of the release, which this script of debootstrap installs, and in
# which pip installs the wheel.
check_system() {
  local release=$1 mirror=$2 root=$cache/python-$1
  if [ ! -d "$root" ]; then
    curl -sfo /dev/null --max-time 20 "$mirror/dists/$release/Release" || { echo "left out: $mirror cannot be reached" && return; }
    rm -rf "$cache/partial"
    debootstrap "${@:4}" --variant=minbase --components=main,universe --include=python3-venv,python3-pip "$release" "$cache/partial" \
      "$mirror" "/usr/share/debootstrap/scripts/$3" >"$cache/debootstrap.log" || fail "debootstrap: $(tail -3 "$cache/debootstrap.log")"
    mv "$cache/partial" "$root"
  fi
  rm -rf "$root/root/wheel" && mkdir "$root/root/wheel" && cp "$wheel" "$root/root/wheel"
  cat >"$root/root/wheel/check.py" <<'PYTHON'
import pathlib, sys, sysconfig, types

package = types.ModuleType("dragonn")  # whose __init__ imports PyTorch
package.__path__ = [str(pathlib.Path(sysconfig.get_path("purelib")) / "dragonn")]
sys.modules["dragonn"] = package
from dragonn._exchange import Exchange
from dragonn._library import version

with Exchange([("weight", (30, 40))], '[compression]\nmethod = "topk"\n') as exchange:
    exchange.load_state(exchange.state())
    print("dragonn", version(), "works")
PYTHON
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 chroot "$root" sh -c 'cd /root/wheel && python3 -m venv venv &&
    venv/bin/pip -q install --no-deps --no-index *.whl && venv/bin/python check.py' >"$work/system.log" 2>&1 ||
    fail "$release: $(tail -5 "$work/system.log")"
  echo "$release: $(tail -1 "$work/system.log")"
}
if [ "$(id -u)" -eq 0 ] && command -v debootstrap >/dev/null; then
  check_system bookworm "${DRAGONN_MIRROR:-http://deb.debian.org/debian}" bookworm
  # Ubuntu's releases share the script of one of the first, which a debootstrap older than the release has, too.
  check_system noble "${DRAGONN_UBUNTU_MIRROR:-http://archive.ubuntu.com/ubuntu}" gutsy --no-check-gpg
else
  echo "left out: empty systems need root and debootstrap (scripts/install_deps.sh tools)"
fi
echo "all passed"
