#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Starts a command on the hosts of a file by ssh, a rank for each line or slot, connected over TCP: for clusters that have
# neither MPI nor Slurm. The folder that this is called from, and the program, must be on every host by the same path.
#
# Usage: scripts/launch.sh [--ssh COMMAND] [--port PORT] HOSTS_FILE -- COMMAND...
#   HOSTS_FILE: lines of `HOST` or `HOST slots=N`, with `#` for comments. HOST may be USER@HOST. The first must be one that
#               the others can reach by that name: rank 0 runs there.
#   --ssh: instead of `ssh -o BatchMode=yes`, or $DRAGONN_SSH; gets a host and a line for its shell.
#   --port: of the rendezvous on the first host; a random one from 20000 to 29999 unless given.
#   COMMAND: gets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. `dragonn-train` also gets `--set comm.backend=tcp`, and a
#            secret that is made for this run (comm.secret_file).
# Lines of output begin with the rank. SIGINT, SIGTERM and SIGUSR1 are passed on to all ranks. If a rank fails, the others get
# SIGTERM, and SIGKILL after 10 s; they get SIGTERM, too, if the connection is lost.
# Exit codes: that of the first rank that failed, else 75 if a rank was stopped with a checkpoint; 2 bad usage or hosts file.
set -uo pipefail

readonly self=${BASH_SOURCE[0]}
readonly grace_s=10
readonly stopped_with_checkpoint=75

usage_error() { echo "launch.sh: $*" >&2 && exit 2; }

# quote WORD...: as words of a line for any shell.
quote() {
  local word
  for word in "$@"; do printf " '%s'" "${word//\'/\'\\\'\'}"; done
}

# read_hosts FILE: fills `hosts`, an element for each rank.
read_hosts() {
  local line number=0 slots
  [ -f "$1" ] && [ -r "$1" ] || usage_error "$1: expected a file of hosts"
  while IFS= read -r line || [ -n "$line" ]; do
    number=$((number + 1))
    line=${line%%#*}
    [[ $line =~ [^[:space:]] ]] || continue
    [[ $line =~ ^[[:space:]]*([A-Za-z0-9_][A-Za-z0-9._@:-]*)([[:space:]]+slots=([1-9][0-9]{0,3}))?[[:space:]]*$ ]] ||
      usage_error "$1, line $number: '$line': expected HOST or HOST slots=N"
    for ((slots = ${BASH_REMATCH[3]:-1}; slots > 0; --slots)); do hosts+=("${BASH_REMATCH[1]}"); done
  done <"$1"
  [ ${#hosts[@]} -gt 0 ] || usage_error "$1: expected at least one host"
}

# What runs on the host: ARGUMENTS are the folder and the command. Its input is the secret, then names of signals, for ssh
# passes none on; the input's end means that the launcher is gone.
# shellcheck disable=SC2016: of the shell on the host
readonly remote='
cd "$1" || exit 1
shift
DRAGONN_SECRET=$(mktemp) || exit 1
trap "rm -f \"\$DRAGONN_SECRET\"" EXIT
IFS= read -r line && printf "%s\n" "$line" >"$DRAGONN_SECRET"
case " $* " in *"/dragonn-train "* | *" dragonn-train "*) set -- "$@" --set comm.backend=tcp --set "comm.secret_file=$DRAGONN_SECRET" ;; esac
exec 3<&0
"$@" </dev/null 3<&- &
child=$!
{ while read -r signal; do kill "-$signal" $child; done; kill -TERM $child; } <&3 2>/dev/null >&2 &
wait $child
status=$?
kill $! 2>/dev/null
exit $status'

# start RANK: the ranks' inputs are pipes, which this shell alone holds open.
start() {
  local rank=$1 host=${hosts[$1]} input
  mkfifo "$folder/$rank"
  (
    for input in "${inputs[@]}"; do exec {input}>&-; done
    $ssh "$host" "$(quote env "RANK=$rank" "WORLD_SIZE=${#hosts[@]}" "MASTER_ADDR=${hosts[0]#*@}" "MASTER_PORT=$port" \
      bash -c "$remote" launch "$PWD" "${command[@]}")" 2>&1 | sed -u "s/^/[$rank] /"
    exit "${PIPESTATUS[0]}"
  ) <"$folder/$rank" &
  ranks[$!]=$rank
  exec {input}>"$folder/$rank"
  inputs+=("$input")
  echo "$secret" >&"$input"
}

tell_all() { # SIGNAL
  local input
  for input in "${inputs[@]}"; do echo "$1" >&"$input"; done 2>/dev/null
}

await_all() {
  local status process failure=0 stopped=0
  while [ ${#ranks[@]} -gt 0 ]; do
    process="" status=0
    wait -n -p process "${!ranks[@]}" || status=$?
    [ -n "${process:-}" ] || continue # a signal ended the wait
    if [ "$status" = $stopped_with_checkpoint ]; then
      stopped=$status
    elif [ "$status" != 0 ] && [ $failure = 0 ]; then
      failure=$status
      echo "launch.sh: rank ${ranks[$process]} on ${hosts[${ranks[$process]}]} ended with $status" >&2
      if [ ${#ranks[@]} -gt 1 ]; then # softly, and then not
        tell_all TERM
        (sleep $grace_s && kill -ALRM $$) >/dev/null 2>&1 &
      fi
    fi
    unset "ranks[$process]"
  done
  [ $failure != 0 ] || failure=$stopped
  return $failure
}

ssh=${DRAGONN_SSH:-ssh -o BatchMode=yes} port=$((20000 + RANDOM % 10000)) hosts=() inputs=()
declare -A ranks=()
while [[ ${1:-} == -* ]]; do
  case $1 in
    -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$self" && exit 0 ;;
    --ssh) ssh=${2:-} ;;
    --port) port=${2:-} ;;
    *) usage_error "'$1': expected --ssh, --port or --help" ;;
  esac
  [ $# -ge 2 ] && [ -n "$2" ] || usage_error "$1: expected a value"
  shift 2
done
[[ $port =~ ^[1-9][0-9]{0,4}$ ]] && ((port <= 65535)) || usage_error "--port '$port': expected 1 to 65535"
[ $# -ge 3 ] && [ "$2" = -- ] || usage_error "expected: launch.sh [--ssh COMMAND] [--port PORT] HOSTS_FILE -- COMMAND..."
read_hosts "$1"
command=("${@:3}")
secret=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap : PIPE # of a rank that has ended
for signal in INT TERM USR1; do
  # shellcheck disable=SC2064: as it is now
  trap "tell_all $signal" $signal
done
trap 'tell_all KILL' ALRM
for rank in "${!hosts[@]}"; do start "$rank"; done
await_all
