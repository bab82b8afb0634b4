#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a dump of one training step against PyTorch.

    dragonn-bench step --model resnet20 --dump DIR
    scripts/check_against_pytorch.py DIR

Builds the dumped model in PyTorch (scripts/pytorch_models.py) with the dumped parameters, runs forward and backward on the
dumped batch, and compares the loss, the logits and every gradient. Dropout must be 0.

The reference is float64. In float32 an activation next to zero may fall on the other side of its ReLU, which changes
gradients by more than rounding. So each array may also be off by three times what the reference changes by when the
inputs change by about 2e-6, which is what float32 makes of the logits (those of text, which is not disturbed, by the
parameters).

Exit code: 0 all agree, 1 something differs, 2 bad usage or a damaged dump, 77 PyTorch is not installed.
"""
import argparse
import json
import pathlib
import sys

try:
    import numpy
    import torch

    import pytorch_models
    from pytorch_models import to_pytorch
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

NOISE = 2e-6


def build(folder, description):
    """The dumped model with its parameters, in float64."""
    if description["settings"].get("dropout"):
        raise ValueError(f"dropout = {description['settings']['dropout']}: drawn anew by each program; expected 0")
    model = pytorch_models.build(description).double()
    parameters = pytorch_models.named_parameters(model)
    names = set(description["parameters"])
    if names != parameters.keys():
        raise ValueError(f"parameters {sorted(names ^ parameters.keys())} are in one of both models alone")
    with torch.no_grad():
        for name, parameter in parameters.items():
            value = to_pytorch(load(folder, f"parameter.{name}").double())
            if value.shape != parameter.shape:
                raise ValueError(f"parameter {name}: {list(value.shape)}, and in PyTorch {list(parameter.shape)}")
            parameter.copy_(value)
    return model


def run(folder, description, noise=None):
    """One step in PyTorch: a dictionary of the arrays that the dump has."""
    model = build(folder, description)
    inputs = load(folder, "inputs")
    if inputs.dim() == 4:
        inputs = inputs.double().permute(0, 3, 1, 2)
    is_text = description["model"] == "lstm_lm"
    if noise is not None:
        disturbed = list(model.parameters()) if is_text else [inputs]
        with torch.no_grad():
            for values in disturbed:
                values += NOISE * torch.randn(values.shape, generator=noise, dtype=values.dtype)
    loss, logits = model.loss(inputs.long() if is_text else inputs, load(folder, "labels").long())[:2]
    loss.backward()
    results = {"loss": loss.detach(), "logits": logits.detach()}
    gradients = pytorch_models.named_parameters(model)
    results.update({f"gradient.{name}": parameter.grad for name, parameter in gradients.items()})
    return results


def load(folder, name):
    return torch.from_numpy(numpy.load(folder / f"{name}.npy"))


def relative_error(value, reference):
    """In norm. A bias in front of a batch norm has the gradient 0, and what is computed is rounding: absolute then."""
    norm = float(reference.norm())
    return float((value - reference).norm()) / (norm if norm > 1e-9 else 1.0)


def check(folder, tolerance):
    description = json.loads((folder / "model.json").read_text())
    reference = run(folder, description)
    generator = torch.Generator().manual_seed(1)
    disturbed = [run(folder, description, generator) for _ in range(3)]
    failures = 0
    for name, expected in reference.items():
        error = relative_error(to_pytorch(load(folder, name).double()), expected)
        allowed = max(tolerance, 3 * max(relative_error(other[name], expected) for other in disturbed))
        failed = not error <= allowed
        failures += failed
        print(f"{'FAIL' if failed else 'ok':4}  {error:8.1e} of {allowed:8.1e}  {name}")
    print(f"{failures} of {len(reference)} arrays differ")
    return failures


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path, help="folder that dragonn-bench step --dump wrote")
    arguments.add_argument("--tolerance", type=float, default=1e-4, help="allowed relative error in norm (default 1e-4)")
    options = arguments.parse_args()
    try:
        failures = check(options.folder, options.tolerance)
    except (OSError, ValueError, KeyError) as error:
        print(f"check_against_pytorch.py: {error}", file=sys.stderr)
        return 2
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
