#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what dragonn is built and tested with, from the distribution's packages (Debian 12, Ubuntu 24.04 or later).
# Does nothing, and needs neither network nor root, where everything is there. On a system that it does not know it prints
# what is missing and ends with 1.
# Usage: scripts/install_deps.sh [cuda|demo|tools]
#   cuda: looks for what the preset cuda needs, too, which is NVIDIA's; ends with 1 and says what to install where some of
#         it is missing.
#   demo: installs the data set of scripts/demo.sh, too, where that can be had.
#   tools: installs what some tests and scripts look for, and skip without: Slurm, Doxygen, libFuzzer and what packages are tested with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Packages, each with how to tell without a package manager that it is there: command:NAME, header:NAME or file:PATH; a command of
# the same name if nothing is said.
readonly requirements='
cmake git pkg-config ccache clang-format clang-tidy-16 curl python3 build-essential=command:g++ ninja-build=command:ninja
xz-utils=command:xz openmpi-bin=command:mpirun libopenmpi-dev=command:mpicc iproute2=command:tc procps=command:sysctl
ca-certificates=file:/etc/ssl/certs/ca-certificates.crt libjs-chart.js=file:/usr/share/javascript/chart.js
libomp-16-dev=file:/usr/lib/llvm-16/lib/clang/16/include/omp.h libdnnl-dev=header:oneapi/dnnl/dnnl.h
libhwy-dev=header:hwy/highway.h libfmt-dev=header:fmt/core.h libspdlog-dev=header:spdlog/spdlog.h
nlohmann-json3-dev=header:nlohmann/json.hpp libtomlplusplus-dev=header:toml++/toml.h libcli11-dev=header:CLI/CLI.hpp
doctest-dev=header:doctest/doctest.h libxxhash-dev=header:xxhash.h libutf8proc-dev=header:utf8proc.h zlib1g-dev=header:zlib.h
libjpeg-dev=header:jpeglib.h libpng-dev=header:png.h libsndfile1-dev=header:sndfile.h libfftw3-dev=header:fftw3.h
libsodium-dev=header:sodium.h'
# What only the tests and scripts that look for it need.
readonly tools='
doxygen debootstrap python3-pip=command:pip3 python3-venv=file:/usr/share/doc/python3-venv
slurm-wlm=command:slurmctld munge=command:munged dpkg-dev=command:dpkg-shlibdeps man-db=command:man
bash-completion=file:/usr/share/bash-completion/bash_completion clang-16=command:clang++-16
libclang-rt-16-dev=file:/usr/lib/llvm-16/lib/clang/16/lib/linux/libclang_rt.fuzzer-x86_64.a'
readonly demo_data=dataset-fashion-mnist
readonly cmake_needed=3.25

fail() { echo "install_deps.sh: $1" >&2 && exit "${2:-1}"; } # MESSAGE [EXIT CODE]

is_debian_like() {
  [ -r /etc/os-release ] && [[ " $(. /etc/os-release && echo "${ID:-} ${ID_LIKE:-}") " =~ \ (debian|ubuntu)\  ]] &&
    command -v dpkg-query apt-get >/dev/null
}

has_package() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

has_probe() {
  local what=${1#*:}
  case $1 in
    command:*) command -v "$what" >/dev/null ;;
    header:*) echo "#include <$what>" | c++ -E -x c++ -std=c++20 - >/dev/null 2>&1 ;;
    file:*) [ -e "$what" ] ;;
  esac
}

# missing_packages REQUIREMENT...: the packages that are not there.
missing_packages() {
  local need probe
  for need in "$@"; do
    [[ $need == *=* ]] && probe=${need#*=} || probe=command:$need
    if is_debian_like; then has_package "${need%%=*}"; else has_probe "$probe"; fi || echo "${need%%=*}"
  done
}

install_packages() {
  local as_root=(env DEBIAN_FRONTEND=noninteractive)
  [ "$(id -u)" -eq 0 ] || as_root=(sudo "${as_root[@]}")
  command -v "${as_root[0]}" >/dev/null || fail "'apt-get install' needs root, and there is no sudo here"
  "${as_root[@]}" apt-get -q update </dev/null && "${as_root[@]}" apt-get -q install -y --no-install-recommends "$@" </dev/null
}

check_cuda() {
  local missing
  . scripts/cuda_toolkit.sh
  missing=$(missing_cuda)
  [ -z "$missing" ] || fail "for the preset cuda this machine lacks:
$(sed 's/^/  /' <<<"$missing")
Install them from https://developer.nvidia.com/cuda-downloads and put nvcc on the PATH,
or build without: the preset release needs none of it."
}

case ${1:-} in
  '' | cuda | demo | tools) ;;
  -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/install_deps.sh && exit 0 ;;
  *) fail "'$1': expected nothing, cuda, demo or tools" 2 ;;
esac

needed=$requirements
[ "${1:-}" != tools ] || needed+=$tools
# shellcheck disable=SC2086 # a list
mapfile -t missing < <(missing_packages $needed)
if [ ${#missing[@]} -gt 0 ]; then
  is_debian_like || fail "this is neither Debian nor Ubuntu; install these (Debian's names) by hand:
$(printf '  %s\n' "${missing[@]}")"
  echo "install_deps.sh: installing ${missing[*]}" >&2
  install_packages "${missing[@]}"
fi
if [ "${1:-}" = demo ] && is_debian_like && ! has_package $demo_data; then
  (install_packages $demo_data) ||
    echo "install_deps.sh: $demo_data cannot be had: the demo takes other data" >&2
fi
version=$(cmake --version | sed -n 's/^cmake version //p')
printf '%s\n' "$cmake_needed" "$version" | sort -VC || fail "CMake $version is too old; $cmake_needed or later is needed"
[ "${1:-}" != cuda ] || check_cuda
