# SPDX-License-Identifier: MIT
# Sourced by the other scripts, from the root folder of the sources.

# build PRESET TARGET...: configures and builds, with ccache where it is there.
build() {
  local preset=$1 options=()
  shift
  ! command -v ccache >/dev/null || options+=(-D CMAKE_CXX_COMPILER_LAUNCHER=ccache)
  [ -z "${DRAGONN_WERROR:-}" ] || options+=(-D "DRAGONN_WERROR=$DRAGONN_WERROR")
  cmake --preset "$preset" "${options[@]}"
  cmake --build --preset "$preset" --target "$@"
}
