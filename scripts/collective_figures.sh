#!/usr/bin/env bash
# collective_figures.sh [FOLDER]: the virtual clusters of docs/results/collectives.md. Figures go to docs/images, rows to
# runs/collectives.
#   gtopk     gTop-k, figure 9: 100 MB of gradient, density 0.001, 1 Gbit/s Ethernet, 4 to 64 workers.
#   oktopk    Ok-Topk, section 5.4.3: BERT's 133.5 million elements, density 0.01, a supercomputer's network, 32 to 256
#             workers. The last of these needs 13 GB of memory.
#   bound     what oktopk moves after ten periods, against its bound, 2 to 64 workers.
# All of them, or those named in FIGURES.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
BIN=${1:-build/release/bin}
FIGURES=${FIGURES:-gtopk oktopk bound}
mkdir -p runs/collectives

for figure in $FIGURES; do
  case $figure in
    gtopk)
      options=(--collective dense,allgather,gtopk --ranks 4,8,16,32,64 --numel 25000000 --density 0.001 --network 1gbe
        --payload-only --svg docs/images/collective-gtopk.svg --title "100 MB, density 0.001, 1 Gbit/s Ethernet")
      ;;
    oktopk)
      options=(--collective dense,allgather,dsa,oktopk --ranks 32,64,128,256 --numel 133547324 --density 0.01 --latency-us 1.5
        --gbps 80 --payload-only --svg docs/images/collective-oktopk.svg
        --title "133.5 M elements, density 0.01, 1.5 us, 80 Gbit/s")
      ;;
    bound)
      options=(--collective oktopk --ranks 2,4,8,16,32,64 --numel 262144 --density 0.01 --network 10gbe --warmup 320 --steps 96)
      ;;
    *)
      echo "collective_figures.sh: no figure '$figure'; valid: gtopk oktopk bound" >&2
      exit 2
      ;;
  esac
  "$BIN/dragonn-bench" collective "${options[@]}" --json "runs/collectives/$figure.json"
done
