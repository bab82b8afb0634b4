# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the other scripts, from the root folder of the sources.

# build PRESET TARGET...: configures and builds, with ccache if it is installed.
# Environment: DRAGONN_WERROR=ON, DRAGONN_FAULT_POINTS=ON (for tests of failures: core/fault_point.h; the build folder keeps both),
# DRAGONN_CUDA_ARCHITECTURES (of the preset cuda: "90", instead of all that it names),
# DRAGONN_SKIP_BUILD=1 (the programs in build/PRESET/bin are taken as they are).
build() {
  [ -z "${DRAGONN_SKIP_BUILD:-}" ] || return 0
  local preset=$1 options=()
  # With precompiled headers ccache needs permission for differing macros, for times in them, and for files as new as a fresh
  # clone's. A second clone compiles nothing that the first one did: paths are taken as they are below this folder.
  local -x CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:+$CCACHE_SLOPPINESS,}pch_defines,time_macros,include_file_mtime,include_file_ctime"
  local -x CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1
  shift
  ! command -v ccache >/dev/null || options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache)
  if [ "$preset" = cuda ]; then
    ! command -v ccache >/dev/null || options+=(-D CMAKE_CUDA_COMPILER_LAUNCHER=ccache)
    [ -z "${DRAGONN_CUDA_ARCHITECTURES:-}" ] || options+=(-D "CMAKE_CUDA_ARCHITECTURES=$DRAGONN_CUDA_ARCHITECTURES")
  fi
  [ -z "${DRAGONN_FAULT_POINTS:-}" ] || options+=(-D "DRAGONN_FAULT_POINTS=$DRAGONN_FAULT_POINTS")
  [ -z "${DRAGONN_WERROR:-}" ] || options+=(-D "DRAGONN_WERROR=$DRAGONN_WERROR")
  cmake --preset "$preset" "${options[@]}"
  cmake --build --preset "$preset" --target "$@"
}
