#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the loaders of dragonn and of PyTorch on the same images, side by side, without training.

    scripts/peers/loader_side_by_side.py                           # 10,000 generated JPEGs of 500x375 pixels
    scripts/peers/loader_side_by_side.py --path DIR --threads 1,2  # images of your own, as DIR/train/CLASS/*, DIR/val/CLASS/*

Both cut a random part out of each image, resize it to 224x224, flip half of them and normalize them. PyTorch does it with
torchvision's ImageFolder, RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize, in a DataLoader with as many worker
processes as dragonn has decoding threads (and one thread in each), in the environments of scripts/peers/baselines.py. All take
their turn, round by round; the table has medians, and PyTorch's faster one.

Run it on a quiet machine; build dragonn-bench before (scripts/test.sh).
Exit code: 0 done, 1 a run failed, 2 bad usage, 77 torch or torchvision is not installed.
"""
import json
import pathlib
import statistics
import sys
import tempfile
import time

import baselines
from side_by_side import WORKER, PeerProcess, bench_rows, finish_parse, make_parser, serve, skip_without

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def parse():
    parser = make_parser(__doc__)
    parser.add_argument("--path", type=pathlib.Path, help="folder of images; default: they are generated, and removed")
    parser.add_argument("--images", type=int, default=10000, help="images to generate")
    parser.add_argument("--threads", default="1,2", help="decoding threads, and workers of the DataLoader")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3, help="epochs of each side")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows as a JSON array")
    baselines.add_option(parser)
    options = finish_parse(parser, ["threads"])
    if options.images < 1 or options.batch < 1:
        parser.error("--images and --batch: expected 1 or more")
    if options.path and not (options.path / "train").is_dir():
        parser.error(f"--path {options.path}: it has no folder train")
    return options


def generate(folder, count):
    """Photo-like JPEGs: smooth shapes and grain, quality 90, 500x375 with halved chroma, as most of ImageNet's."""
    import numpy
    from PIL import Image

    numbers = numpy.random.default_rng(1)
    grain = [numbers.normal(0, 6, (375, 500, 3)) for _ in range(8)]
    for split, images in (("train", count), ("val", 10)):
        for i in range(images):
            place = folder / split / f"class{i % 10}"
            place.mkdir(parents=True, exist_ok=True)
            coarse = Image.fromarray(numbers.integers(0, 256, (12, 16, 3), dtype=numpy.uint8))
            smooth = numpy.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), dtype=numpy.float64)
            pixels = numpy.clip(smooth + grain[i % len(grain)], 0, 255).astype(numpy.uint8)
            Image.fromarray(pixels).save(place / f"{i}.jpg", quality=90)


def dragonn_rate(options, path, threads):
    arguments = ["loader", "--path", path, "--threads", threads, "--batch", options.batch, "--rounds", 1]
    return bench_rows(options, *arguments)[0]["samples_per_second"]


def work():
    """A worker, PyTorch's loader: is told a folder, threads and batch first; answers every later question with images/s."""
    import torch
    from torchvision import datasets, transforms

    loader = None

    def prepare(question):
        nonlocal loader
        torch.set_num_threads(1)
        chain = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                    transforms.Normalize(MEAN, DEVIATION)])
        loader = torch.utils.data.DataLoader(
            datasets.ImageFolder(str(pathlib.Path(question["path"]) / "train"), chain), batch_size=question["batch"],
            shuffle=True, num_workers=question["threads"], drop_last=True, persistent_workers=True)

    def rate():
        """An epoch, after its first batch: the workers have begun then, as dragonn's loader has."""
        batches = iter(loader)
        next(batches)
        start, samples = time.perf_counter(), 0
        for images, _ in batches:
            samples += len(images)
        return samples / (time.perf_counter() - start)

    serve(lambda question: prepare(question) if isinstance(question, dict) else rate())


def measure(options, path, threads):
    peers = [PeerProcess(name, environment) for name, environment in baselines.environments(options).items()]
    for peer in peers:
        peer.ask({"path": str(path), "threads": threads, "batch": options.batch})
    rates = {}
    for _ in range(options.rounds):
        rates.setdefault("dragonn", []).append(dragonn_rate(options, path, threads))
        for peer in peers:
            rates.setdefault(peer.name, []).append(peer.ask("rate"))
    for peer in peers:
        peer.close()
    medians = {name: statistics.median(values) for name, values in rates.items()}
    own = medians.pop("dragonn")
    best = max(medians, key=medians.get)
    return {"threads": threads, "batch": options.batch, "dragonn": own, "pytorch": medians[best], "baseline": best,
            "ratio": own / medians[best], "rounds": rates}


def main():
    if sys.argv[1:2] == [WORKER]:
        return work()
    options = parse()
    skip_without("torch", "torchvision")
    import torch
    import torchvision

    with tempfile.TemporaryDirectory() as folder:
        path = options.path or pathlib.Path(folder)
        if not options.path:
            generate(path, options.images)
        print(f"torch {torch.__version__}, torchvision {torchvision.__version__}; images/s, medians of {options.rounds} epochs")
        print("\n".join(baselines.describe(baselines.environments(options))) + "\n")
        print("| threads or workers | dragonn | DataLoader and torchvision | baseline | ratio |\n|---|---|---|---|---|")
        rows = []
        for threads in options.threads:
            row = measure(options, path, threads)
            print(f"| {threads} | {row['dragonn']:.0f} | {row['pytorch']:.0f} | {row['baseline']} | {row['ratio']:.2f} |",
                  flush=True)
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
