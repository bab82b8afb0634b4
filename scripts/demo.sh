#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sets everything up, builds dragonn, and shows when sparsified training pays: ResNet-20 is trained by 4 workers, dense
# and with four methods that send a few per cent of the gradient, and more of it near the end. The workers are a virtual
# cluster: each run gives the time on a described network (100 Mbit/s) and on an ideal one. Ends with a table, and with a
# page: runs/demo/report.html.
# Data: Fashion-MNIST, from the distribution's package dataset-fashion-mnist; without it the CIFAR-10 of
# $DRAGONN_DATA/cifar10 or data/cifar10, else generated images.
# Environment: DEMO_EPOCHS (10), DEMO_TRAIN_SAMPLES (4096), DEMO_TEST_SAMPLES (1000), DEMO_WORKERS (4), DEMO_GBPS (0.1),
# DEMO_LATENCY_US (100), DEMO_METHODS ("dense topk gtopk oktopk dragonn"). The first two decide how long it trains.
# Usage: scripts/demo.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
  '') ;;
  -h | --help) awk 'NR > 2 { if (!/^#/) exit; sub(/^# ?/, ""); print }' scripts/demo.sh && exit 0 ;;
  *) echo "demo: '$1': expected no argument, or --help" >&2 && exit 2 ;;
esac

# Sized for some minutes on 2 cores, the build included.
readonly train_samples=${DEMO_TRAIN_SAMPLES:-4096} test_samples=${DEMO_TEST_SAMPLES:-1000} epochs=${DEMO_EPOCHS:-10} \
  workers=${DEMO_WORKERS:-4} gbps=${DEMO_GBPS:-0.1} latency_us=${DEMO_LATENCY_US:-100}
read -ra methods <<<"${DEMO_METHODS:-dense topk gtopk oktopk dragonn}"
readonly output=runs/demo fashion_mnist=/usr/share/datasets/fashion-mnist

scripts/install_deps.sh demo
. scripts/build.sh
build release dragonn-train dragonn-compare

has_cifar10() { compgen -G "$1/data_batch_*.bin" >/dev/null && [ -f "$1/test_batch.bin" ]; } # FOLDER

settings=("train.epochs=$epochs" network.model=alpha-beta "network.gbps=$gbps" "network.latency_us=$latency_us")
# What a method sends at first, and near the end. gtopk keeps so many entries of the sum, the others of each gradient.
declare -A densities=([topk]="0.04 0.3" [gtopk]="0.05 0.6" [oktopk]="0.02 0.4" [dragonn]="0.01 0.3")
limits=("data.train_limit=$train_samples" "data.test_limit=$test_samples")
if [ -f "$fashion_mnist/train-images-idx3-ubyte.gz" ]; then
  data="Fashion-MNIST (the package dataset-fashion-mnist)"
  settings+=(data.name=fashion_mnist "data.path=$fashion_mnist" "${limits[@]}")
elif folder=${DRAGONN_DATA:-data}/cifar10 && { has_cifar10 "$folder" || { folder=data/cifar10 && has_cifar10 $folder; }; }; then
  data="CIFAR-10 from $folder"
  settings+=(data.name=cifar10 "data.path=$folder" "${limits[@]}")
else
  data="generated images: neither Fashion-MNIST nor CIFAR-10 is here"
  settings+=(data.name=synthetic_images "data.train_samples=$train_samples" "data.test_samples=$test_samples")
fi
echo "demo: data: $data"

for method in "${methods[@]}"; do
  echo "demo: training with $method"
  read -r first last <<<"${densities[$method]:-0.02 0.3}"
  build/release/bin/dragonn-train configs/fashion_mnist_resnet20.toml --workers "$workers" --output "$output/$method" \
    "${settings[@]/#/--set=}" "--set=compression.method=$method" "--set=compression.density=$first" \
    "--set=compression.dense_ends.density=$last"
done
build/release/bin/dragonn-compare "${methods[@]/#/$output/}" --target-share 0.9 --title "ResNet-20, $workers workers, ${data%% (*}" \
  --output "$output/report.html" --csv "$output/report.csv" --svg "$output/report.svg"
echo "demo: data: $data"
echo "demo: open $PWD/$output/report.html in a browser"
