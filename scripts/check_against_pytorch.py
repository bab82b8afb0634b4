#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks dumps of training steps against PyTorch.

    dragonn-bench step --model resnet20 --dump DIR
    scripts/check_against_pytorch.py DIR...

Builds each dumped model in PyTorch (scripts/pytorch_models.py) with the dumped parameters, runs forward and backward on the
dumped batch, and compares the loss, the logits and every gradient. Dropout must be 0.

The reference is float64. An array agrees if it is as close to it as float32 allows, within a factor: that is known by PyTorch's
own float32 run, and by what the reference changes by when its inputs, unless they are tokens, change by about 2e-6: an activation
next to zero may fall on the other side of its ReLU, which changes gradients by more than rounding.

Exit code: 0 all agree, 1 something differs, 2 bad usage or a damaged dump, 77 PyTorch is not installed.
"""
import ast
import copy
import functools
import json
import pathlib
import sys
import warnings

# PyTorch warns where NumPy is not installed; nothing here needs it.
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")

try:
    import torch

    import pytorch_models
    from pytorch_models import to_pytorch
    from runs import make_parser, run_main
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

NOISE = 2e-6
DISTURBED_RUNS = 12  # at most
# The factor by which an array may be farther from the reference than float32 runs are: sums are taken in another order.
FACTOR = 3


class Dump:
    """The files of one step."""

    def __init__(self, folder):
        self.folder, self.description = folder, json.loads((folder / "model.json").read_text())

    def load(self, name):
        """An array in the dump's layout."""
        return read_npy(self.folder / f"{name}.npy")


@functools.cache
def read_npy(path):
    """A tensor from a file in NumPy's format 1.0: float32 or int32, in C order."""
    content = bytearray(path.read_bytes())
    size = int.from_bytes(content[8:10], "little")
    if content[:8] != b"\x93NUMPY\x01\x00" or len(content) < 10 + size:
        raise ValueError(f"{path}: not an array in NumPy's format 1.0")
    try:
        header = ast.literal_eval(content[10 : 10 + size].decode("latin-1").strip())
        dtype = {"<f4": torch.float32, "<i4": torch.int32}[header["descr"]]
        return torch.frombuffer(content, dtype=dtype, offset=10 + size).reshape(header["shape"])
    except (SyntaxError, KeyError, TypeError, RuntimeError, ValueError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error


def build(dump):
    """The dumped model with its parameters, in float64."""
    description = dump.description
    if description["settings"].get("dropout"):
        raise ValueError(f"dropout = {description['settings']['dropout']}: drawn anew by each program; expected 0")
    model = pytorch_models.build(description).double()
    parameters = pytorch_models.named_parameters(model)
    if names := set(description["parameters"]) ^ parameters.keys():
        raise ValueError(f"parameters {sorted(names)} are in one of both models alone")
    with torch.no_grad():
        for name, parameter in parameters.items():
            value = to_pytorch(dump.load(f"parameter.{name}"))
            if value.shape != parameter.shape:
                raise ValueError(f"parameter {name}: {list(value.shape)}, and in PyTorch {list(parameter.shape)}")
            parameter.copy_(value)
    return model


def takes_tokens(dump):
    return dump.description["model"] in pytorch_models.TOKEN_MODELS


def run(dump, model, dtype=torch.float64, noise=None):
    """One step of a copy of the model: a dictionary of the arrays that the dump has."""
    model = copy.deepcopy(model).to(dtype)
    inputs = dump.load("inputs").to(torch.long if takes_tokens(dump) else dtype, copy=True)
    if inputs.dim() == 4:
        inputs = inputs.permute(0, 3, 1, 2)
    if noise is not None:
        inputs += NOISE * torch.randn(inputs.shape, generator=noise, dtype=dtype)
    loss, logits = model.loss(inputs, dump.load("labels").long())[:2]
    loss.backward()
    results = {"loss": loss.detach(), "logits": logits.detach()}
    results.update({f"gradient.{name}": value.grad for name, value in pytorch_models.named_parameters(model).items()})
    return {name: value.double() for name, value in results.items()}


def errors(arrays, reference):
    """The relative error of every array, in norm. A bias in front of a batch norm has the gradient 0, and what is computed is
    rounding: absolute then."""
    def error(value, expected):
        norm = float(expected.norm())
        return float((value - expected).norm()) / (norm if norm > 1e-9 else 1.0)

    return {name: error(arrays[name], expected) for name, expected in reference.items()}


def check(folder, tolerance):
    """Prints a line per array, and returns the number of those that differ."""
    dump = Dump(folder)
    model = build(dump)
    reference = run(dump, model)
    ours = errors({name: to_pytorch(dump.load(name)).double().reshape(value.shape) for name, value in reference.items()}, reference)
    of_float32 = errors(run(dump, model, torch.float32), reference)
    allowed = {name: max(tolerance, FACTOR * error) for name, error in of_float32.items()}

    def failed():
        return {name for name, error in ours.items() if not error <= allowed[name]}  # NaN agrees with nothing

    # Further runs only while float32 does not explain a difference: the one ReLU that fell on the other side may take some.
    generator = torch.Generator().manual_seed(1)
    for _ in range(0 if takes_tokens(dump) else DISTURBED_RUNS):
        if not failed():
            break
        disturbed = errors(run(dump, model, noise=generator), reference)
        allowed = {name: max(allowed[name], FACTOR * error) for name, error in disturbed.items()}
    for name, error in ours.items():
        verdict = "FAIL" if name in failed() else "ok"
        print(f"{verdict:4}  {error:8.1e} of {allowed[name]:8.1e}  float32 {of_float32[name]:8.1e}  {name}")
    print(f"{folder}: {len(failed())} of {len(reference)} arrays of {dump.description['model']} differ")
    return len(failed())


def main():
    parser = make_parser(__doc__)
    parser.add_argument("folders", type=pathlib.Path, nargs="+", metavar="DIR", help="written by dragonn-bench step --dump")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="always allowed: a relative error in norm (default 1e-4)")
    options = parser.parse_args()
    return 1 if sum(check(folder, options.tolerance) for folder in options.folders) else 0


if __name__ == "__main__":
    run_main(main, 2, (OSError, ValueError, KeyError))
