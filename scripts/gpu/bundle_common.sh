# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the scripts that run in a folder that scripts/gpu/bundle.sh makes.

# A machine with a GPU has these: the driver, and the libraries of CUDA, mostly with PyTorch.
readonly cuda_libraries=(libcuda.so.1 libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libnccl.so.2)
readonly machine_library_path=${LD_LIBRARY_PATH:-}

die() { echo "$(basename "$0"): $*" >&2 && exit 2; }

seconds=540 from='' results=results # options of both scripts

# take_options "NAME..." ARGUMENT...: the options --NAME VALUE, which go to variables of these names, and the folder for
# results. Then `results` and `from` are absolute.
take_options() {
  local names=$1
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      -*)
        [[ " $names " == *" ${1#--} "* ]] || die "$1: expected one of --${names// /, --}, or a folder for results"
        [ $# -gt 1 ] || die "$1: expected a value"
        printf -v "${1#--}" %s "$2" && shift
        ;;
      *) results=$1 ;;
    esac
    shift
  done
  [[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds $seconds: expected a number"
  [ -z "$from" ] || from=$(realpath -e "$from") || exit 2
  mkdir -p "$results" && results=$(cd "$results" && pwd) || exit 1
}

# restore FILE FOLDER: what the call before has left in RESULTS/FILE, or in `from`.
restore() {
  local state=$results/$1
  [ -f "$state" ] || state=$from
  [ -z "$state" ] || tar -C "$2" -xzf "$state" || die "$state is not what this script wrote"
}

# unpack_bundle: its programs and files to a folder of their own, which goes away in the end; works there from then on.
unpack_bundle() {
  local here
  here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  LD_LIBRARY_PATH=$here/unpack "$here/unpack/xz" -dc "$here/payload.tar.xz" | tar -C "$root" -xf - ||
    { echo "$(basename "$0"): $here/payload.tar.xz is not what bundle.sh wrote" >&2 && exit 1; }
  cd "$root" || exit 1
}

# python_library_folders: those of the libraries that Python's packages bring. Python must not find the bundle's libraries.
python_library_folders() {
  LD_LIBRARY_PATH=$machine_library_path python3 -c 'import glob, sys
for place in sys.path:
    print(*sorted(glob.glob(f"{place}/nvidia/*/lib")), sep="\n")' 2>/dev/null
}

# loaded_libraries: "NAME => PATH" of all libraries of all programs here, as the dynamic loader finds them, or "not found".
loaded_libraries() {
  local program
  for program in bin/*; do LD_TRACE_LOADED_OBJECTS=1 "$program" 2>&1; done | sort -u
}

# find_cuda_libraries: sets LD_LIBRARY_PATH to the libraries of the bundle and of this machine: those of Python's packages
# before the linker's before others. Libraries in fallback/ are used where the programs cannot be loaded without.
find_cuda_libraries() {
  local name folder linker_knows python_folders names
  linker_knows=$({ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null)
  mapfile -t python_folders < <(python_library_folders)
  export LD_LIBRARY_PATH="$root/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  mapfile -t names < <(
    printf '%s\n' "${cuda_libraries[@]}"
    loaded_libraries | grep -o 'libnv[^ ]* => not found' | cut -d ' ' -f 1 # some builds need NVRTC
  )
  for name in "${names[@]}"; do
    folder=$(folder_of "$name" "${python_folders[@]}")
    if [ -n "$folder" ]; then
      [[ :$LD_LIBRARY_PATH: == *:$folder:* ]] || LD_LIBRARY_PATH+=:$folder
    elif [[ $linker_knows != *"$name"* ]] && ! [[ -d fallback && -e fallback/$name ]]; then
      echo "$name: not found on this machine"
    fi
  done
  [[ $(loaded_libraries) != *'not found'* ]] || LD_LIBRARY_PATH+=:$root/fallback
  loaded_libraries | grep 'not found'
}

# folder_of LIBRARY FOLDER...: the first of the folders that has it. If none has, and the linker does not know it either,
# one of the usual places; else nothing. The search is bounded: these trees can be large.
folder_of() {
  local name=$1 folder
  shift
  for folder in "$@"; do
    [ ! -e "$folder/$name" ] || { echo "$folder" && return; }
  done
  [[ $linker_knows == *"$name"* ]] || timeout 15 find /usr/local /opt /usr/lib -name "$name" -printf '%h\n' -quit 2>/dev/null
}

# read_ahead: reads CUDA's libraries once, so that no time below includes their first read. Gigabytes, on some machines
# from a network.
read_ahead() {
  local path begin=$SECONDS
  loaded_libraries | awk '$2 == "=>" && $3 ~ /\/lib(cudart|cublas|cudnn|nccl)/ { print $3 }' | while read -r path; do
    case $path in
      */libcudnn*) ls "${path%/*}"/libcudnn*.so.9 ;; # its parts, which are loaded when they are needed
      *) echo "$path" ;;
    esac
  done | sort -u >libraries_read.txt
  timeout 150 xargs -r -P 8 -n 1 cat <libraries_read.txt >/dev/null
  echo "CUDA's libraries: $(wc -l <libraries_read.txt) read in $((SECONDS - begin)) s"
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
