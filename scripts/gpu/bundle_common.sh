# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the scripts that run in a folder that scripts/gpu/bundle.sh makes.

# unpack_bundle: its programs and files to a folder of their own, which goes away in the end; works there from then on.
unpack_bundle() {
  local here
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  tar -C "$root" -xzf "$here/payload.tar.gz" ||
    { echo "$(basename "$0"): $here/payload.tar.gz is not what bundle.sh wrote" >&2 && exit 1; }
  cd "$root" || exit 1
}

# find_cuda_libraries: they are this machine's: where the linker does not find them, in the usual places.
find_cuda_libraries() {
  local name folder
  export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  for name in libcudart.so.13 libcublas.so.13 libcudnn.so.9 libnccl.so.2; do
    ldconfig -p 2>/dev/null | grep -q "$name" && continue
    folder=$(timeout 20 find /usr/local /opt /usr/lib -name "$name" -printf '%h\n' 2>/dev/null | head -n 1)
    if [ -n "$folder" ]; then LD_LIBRARY_PATH+=:$folder; else echo "$name: not found on this machine"; fi
  done
}

# use_bundled_mpi: Open MPI below a folder of its own, or 1 if the bundle has none. A container may lack shared memory
# between processes that one copy would need.
use_bundled_mpi() {
  [ -x mpi/bin/mpirun ] || return 1
  export OPAL_PREFIX=$root/mpi PATH="$root/mpi/bin:$PATH"
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  export OMPI_MCA_mca_base_component_show_load_errors=0 OMPI_MCA_plm=isolated OMPI_MCA_btl=self,vader,tcp
  export OMPI_MCA_btl_vader_single_copy_mechanism=none PMIX_MCA_pcompress_base_silence_warning=1
}
