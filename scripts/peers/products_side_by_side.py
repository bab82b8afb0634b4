#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the matrix products of linear and recurrent layers by dragonn and by libraries, on this machine's processors.

    scripts/peers/products_side_by_side.py --shapes xml,mlp --threads 2    # if not given: all shapes at 1 and 2 threads
    scripts/peers/products_side_by_side.py --libraries onednn,openblas --table products.md

A layer of OUTPUTS x INPUTS weights multiplies ROWS samples: forward by the transposed weights, and for the gradient of the
weights the transposed output gradient by the input. dragonn runs such a layer (dragonn-bench step --profile). The libraries
run the two products alone, by sgemm: onednn is the distribution's, as are openblas and blis (libopenblas0-pthread,
libblis4-pthread; left out where they are not installed); mkl is the one inside PyTorch (left out without it). The table has
GFLOP/s.
"""
import ctypes
import ctypes.util
import itertools
import os

from side_by_side import bench_rows, finish_parse, make_parser, median_seconds, medians_of, run, start_peers, take_turns, words
from runs import run_main

# Rows, outputs, inputs: of the layers of the models that step_side_by_side.py measures.
SHAPES = {
    "mlp": (128, 512, 784),
    **{f"lstm_{hidden}_{name}": (700, outputs, hidden) for hidden in (256, 650, 1500)
       for name, outputs in (("inputs", 4 * hidden), ("output", 10000))},
    **{f"bert_{width}_{name}": (rows, *sides) for rows, width in ((1024, 256), (256, 768))
       for name, sides in (("feed", (4 * width, width)), ("back", (width, 4 * width)), ("output", (30522, width)))},
    "vit_feed": (2080, 768, 192),
    "alexnet_first": (32, 4096, 9216),
    "xml": (256, 30938, 4096),
}
LIBRARIES = ["onednn", "openblas", "blis", "mkl"]
PRODUCTS = ["forward", "weights"]
COLUMNS = {"layer": "layer", "shape": "rows x outputs x inputs", "product": "product", "threads": "threads", "dragonn": "dragonn",
           **{name: name for name in LIBRARIES}, "ratio": "dragonn / best"}


def parse():
    parser = make_parser(__doc__, has_baselines=False)
    parser.add_argument("--shapes", type=words, default=list(SHAPES), help=",".join(SHAPES))
    parser.add_argument("--libraries", type=words, default=LIBRARIES, help=",".join(LIBRARIES))
    parser.add_argument("--seconds", type=float, default=0.3, help="about the time of each turn")
    return finish_parse(parser, shapes=SHAPES, libraries=LIBRARIES)


def dragonn_rate(options, case):
    """GFLOP/s of a pass. The model is a single linear layer."""
    rows, outputs, inputs = SHAPES[case["layer"]]
    operations = 2 * rows * outputs * inputs
    rounds = max(3, int(options.seconds * 1e11 / operations))
    found = bench_rows(options, "step", "--profile", "--model", "xml_linear", "--batch", rows, "--sample", inputs, "--classes",
                       outputs, "--threads", case["threads"], "--rounds", rounds)
    wanted = {"forward": "forward", "weights": "backward"}[case["product"]]
    return operations / next(row["milliseconds"] for row in found if row["layer_kind"] == "linear" and row["pass"] == wanted) / 1e6


# Libraries: multiply(first, transposed, second, transposed, result) of row-major matrices that NumPy holds.


def library_product(name):
    file = ctypes.util.find_library({"onednn": "dnnl"}.get(name, name))
    if file is None:
        raise OSError("not installed")
    library = ctypes.CDLL(file)
    if name == "onednn":
        sgemm, order, plain, transposed, size = library.dnnl_sgemm, [], b"N", b"T", ctypes.c_int64
    else:
        sgemm, order, plain, transposed, size = library.cblas_sgemm, [101], 111, 112, ctypes.c_int  # row-major
    kind, matrix = ctypes.c_char if name == "onednn" else ctypes.c_int, [ctypes.c_void_p, size]
    sgemm.argtypes = [*[ctypes.c_int] * len(order), kind, kind, size, size, size, ctypes.c_float, *matrix, *matrix, ctypes.c_float, *matrix]

    def multiply(a, a_transposed, b, b_transposed, c):
        def place(matrix):
            return matrix.ctypes.data_as(ctypes.c_void_p), matrix.shape[1]

        status = sgemm(*order, transposed if a_transposed else plain, transposed if b_transposed else plain, *c.shape,
                       a.shape[0] if a_transposed else a.shape[1], 1, *place(a), *place(b), 0, *place(c))
        assert name != "onednn" or status == 0

    return multiply


def mkl_product():
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if not torch.backends.mkl.is_available():
        raise OSError("this PyTorch has no MKL")

    def multiply(a, a_transposed, b, b_transposed, c):
        first, second = torch.from_numpy(a), torch.from_numpy(b)
        torch.mm(first.t() if a_transposed else first, second.t() if b_transposed else second, out=torch.from_numpy(c))

    return multiply


def prepare(library, case):
    """A library: answers with the GFLOP/s of the product."""
    import numpy

    try:
        multiply = mkl_product() if library == "mkl" else library_product(library)
    except (ImportError, OSError) as error:
        return {"note": str(error)}, None
    rows, outputs, inputs = SHAPES[case["layer"]]
    random = numpy.random.default_rng(1)
    draw = lambda *shape: random.random(shape, dtype=numpy.float32)  # noqa: E731
    if case["product"] == "forward":
        arguments = draw(rows, inputs), False, draw(outputs, inputs), True, draw(rows, outputs)
    else:
        arguments = draw(rows, outputs), True, draw(rows, inputs), False, draw(outputs, inputs)
    multiply(*arguments)
    return {}, lambda turn: 2e-9 * rows * outputs * inputs / median_seconds(lambda: multiply(*arguments), turn, 3)


def cases(options):
    for threads, layer, product in itertools.product(options.threads, options.shapes, PRODUCTS):
        yield {"layer": layer, "shape": " x ".join(map(str, SHAPES[layer])), "product": product, "threads": threads}


def compare(options, case):
    environment = {f"{name}_NUM_THREADS": str(case["threads"]) for name in ("OMP", "OPENBLAS", "BLIS", "MKL")}
    # These two hold OpenBLAS to kernels of an older processor where they are set.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    peers = start_peers({library: (library, environment) for library in options.libraries}, case)
    rates = take_turns(options.rounds, lambda: dragonn_rate(options, case), peers, options.seconds)
    own, medians = medians_of(rates, options.rounds)
    return {"dragonn": own, **medians, "ratio": own / max(medians.values()) if medians else None}


if __name__ == "__main__":
    run_main(lambda: run(prepare, parse, cases, compare, COLUMNS, ("numpy",)))
