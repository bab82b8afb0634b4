#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the loaders of dragonn and of PyTorch on the same images, side by side, without training.

    scripts/peers/loader_side_by_side.py                           # 10,000 generated JPEGs of 500x375 pixels
    scripts/peers/loader_side_by_side.py --path DIR --threads 1,2  # images of your own, as DIR/train/CLASS/*, DIR/val/CLASS/*

Both cut a random part out of each image, resize it to 224x224, flip half of them and normalize them. PyTorch does it with
torchvision's ImageFolder, RandomResizedCrop, RandomHorizontalFlip, ToTensor and Normalize, in a DataLoader with as many worker
processes as dragonn has decoding threads (and one thread in each).
"""
import pathlib
import tempfile
import time

from side_by_side import bench_rows, finish_parse, make_parser, medians_of, pytorch_peers, run, take_turns
from runs import run_main

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
COLUMNS = {"threads": "threads or workers", "dragonn": "dragonn, images/s", "pytorch": "DataLoader and torchvision",
           "baseline": "baseline", "ratio": "ratio"}


def parse():
    parser = make_parser(__doc__)
    parser.add_argument("--path", type=pathlib.Path, help="folder of images; default: they are generated, and removed")
    parser.add_argument("--images", type=int, default=10000, help="images to generate")
    parser.add_argument("--batch", type=int, default=128)
    options = finish_parse(parser)
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


def prepare(_kind, case):
    """PyTorch's loader: answers with images/s."""
    import torch
    from torchvision import datasets, transforms

    torch.set_num_threads(1)
    chain = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(), transforms.ToTensor(),
                                transforms.Normalize(MEAN, DEVIATION)])
    loader = torch.utils.data.DataLoader(
        datasets.ImageFolder(str(pathlib.Path(case["path"]) / "train"), chain), batch_size=case["batch"], shuffle=True,
        num_workers=case["threads"], drop_last=True, persistent_workers=True)

    def rate(_question):
        """An epoch, after its first batch: the workers have begun then, as dragonn's loader has."""
        batches = iter(loader)
        next(batches)
        start, samples = time.perf_counter(), 0
        for images, _ in batches:
            samples += len(images)
        return samples / (time.perf_counter() - start)

    return {"torch": torch.__version__}, rate


def cases(options):
    with tempfile.TemporaryDirectory() as folder:
        if not options.path:
            generate(pathlib.Path(folder), options.images)
        options.images_at = options.path or folder
        for threads in options.threads:
            yield {"threads": threads, "batch": options.batch, "images": str(options.path or options.images)}


def compare(options, case):
    peers = pytorch_peers(options, case | {"path": str(options.images_at)})
    arguments = ["loader", "--path", options.images_at, "--threads", case["threads"], "--batch", case["batch"], "--rounds", 1]
    rates = take_turns(options.rounds, lambda: bench_rows(options, *arguments)[0]["samples_per_second"], peers)
    own, medians = medians_of(rates, options.rounds)
    best = max(medians, key=medians.get)
    return {"dragonn": own, "pytorch": medians[best], "baseline": best, "ratio": own / medians[best], "rounds": rates,
            "torch": peers[0].found["torch"]}


if __name__ == "__main__":
    run_main(lambda: run(prepare, parse, cases, compare, COLUMNS, ("torch", "torchvision")))
