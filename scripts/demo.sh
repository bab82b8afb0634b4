#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets everything up, builds dragonn, trains ResNet-20 on CIFAR-10 with 4 local workers four times (dense, and sparsified
# by three methods), and writes a page that compares the runs: runs/demo/report.html.
# Uses the CIFAR-10 of $DRAGONN_DATA/cifar10 or of an earlier scripts/get_data.sh, else the built-in synthetic images.
# Usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Sized for 10 minutes on 2 cores together with the build. The first two decide how long it trains.
readonly train_samples=${DEMO_TRAIN_SAMPLES:-4096}
readonly epochs=${DEMO_EPOCHS:-6}
readonly test_samples=${DEMO_TEST_SAMPLES:-1000}
readonly workers=${DEMO_WORKERS:-4}
readonly density=${DEMO_DENSITY:-0.01}
# At a density of 1 % an entry waits for about 100 steps, and this is a run of hardly 200: it begins denser, as the papers'
# own runs do. The learning rate warms up too, and goes down to 0 at the end.
readonly recipe=(--set "train.epochs=$epochs" --set schedule.name=cosine --set schedule.warmup_epochs=1
  --set "compression.density=$density" --set compression.density_schedule=dgc --set checkpoint.every_epochs=0)
readonly methods=(dense topk dgc dragonn)
readonly output=runs/demo

scripts/install_deps.sh
. scripts/build.sh
build release dragonn-train dragonn-compare

# find_cifar10: the first folder that has it; nothing if there is none.
find_cifar10() {
  local folder
  for folder in ${DRAGONN_DATA:+"$DRAGONN_DATA/cifar10"} data/cifar10; do
    if compgen -G "$folder/data_batch_*.bin" >/dev/null && [ -f "$folder/test_batch.bin" ]; then
      echo "$folder"
      return
    fi
  done
}

folder=$(find_cifar10)
if [ -n "$folder" ]; then
  data="CIFAR-10 from $folder"
  data_settings=(--set data.name=cifar10 --set "data.path=$folder"
    --set "data.train_limit=$train_samples" --set "data.test_limit=$test_samples")
else
  data="synthetic images, as there is no CIFAR-10 here; 'scripts/get_data.sh cifar10 data/cifar10' gets it"
  data_settings=(--set data.name=synthetic_images
    --set "data.train_samples=$train_samples" --set "data.test_samples=$test_samples")
fi
echo "demo: data: $data"

runs=()
for method in "${methods[@]}"; do
  echo "demo: training with $method"
  build/release/bin/dragonn-train configs/cifar10_resnet20.toml --workers "$workers" --output "$output/$method" \
    "${data_settings[@]}" "${recipe[@]}" --set "compression.method=$method"
  runs+=("$output/$method")
done
build/release/bin/dragonn-compare "${runs[@]}" --output "$output/report.html" --csv "$output/report.csv"
echo "demo: data: $data"
echo "demo: open $PWD/$output/report.html in a browser"
