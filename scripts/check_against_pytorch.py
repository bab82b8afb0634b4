#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a dump of one training step against PyTorch.

    dragonn-bench step --model resnet20 --dump DIR
    scripts/check_against_pytorch.py DIR

Builds the dumped model in PyTorch from the names and shapes of its parameters, runs forward and backward on the dumped
batch, and compares the loss, the logits and every gradient. Layouts are converted: images NHWC to NCHW, convolution
weights HWIO to OIHW. Linear weights are [outputs, inputs] in both; their inputs are flattened in NHWC order here, so the
check flattens PyTorch's activations in that order too.

The reference is float64. In float32 an activation next to zero may fall on the other side of its ReLU, which changes
gradients by more than rounding. So each array may also be off by three times what the reference changes by when the
inputs change by about 2e-6, which is what float32 makes of the logits.

Exit code: 0 all agree, 1 something differs, 2 bad usage or a damaged dump, 77 PyTorch is not installed.
"""
import argparse
import json
import pathlib
import re
import sys

try:
    import numpy
    import torch
    from torch.nn import functional as F
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

NOISE = 2e-6


class Model:
    """The dumped parameters as PyTorch leaves, and the operations that models are made of."""

    def __init__(self, folder, description):
        self.description = description
        self.kinds = {layer["name"]: layer["kind"] for layer in description["layers"]}
        self.parameters = {}
        for name in description["parameters"]:
            value = torch.from_numpy(numpy.load(folder / f"parameter.{name}.npy")).double()
            self.parameters[name] = to_pytorch(value).contiguous().requires_grad_()

    def has(self, layer):
        return layer in self.kinds

    def conv(self, layer, x):
        weight = self.parameters[layer + ".weight"]
        stride = int((re.search(r"/(\d+)", self.kinds[layer]) or [0, 1])[1])
        return F.conv2d(x, weight, self.parameters.get(layer + ".bias"), stride, weight.shape[-1] // 2)

    def norm(self, layer, x):
        return F.batch_norm(x, None, None, self.parameters[layer + ".weight"], self.parameters[layer + ".bias"], True)

    def linear(self, layer, x):
        return F.linear(x, self.parameters[layer + ".weight"], self.parameters[layer + ".bias"])


def to_pytorch(value):
    """HWIO to OIHW; anything else as it is."""
    return value.permute(3, 2, 0, 1) if value.dim() == 4 else value


def mlp(model, x):
    activations = {"ReLU": F.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "GELU": F.gelu}
    x = x.permute(0, 2, 3, 1).flatten(1)
    layer = 0
    while model.has(f"hidden{layer}"):
        x = activations[model.kinds[f"activation{layer}"]](model.linear(f"hidden{layer}", x))
        layer += 1
    return model.linear("output", x)


def vgg(model, x):
    for stage in range(1, 6):
        layer = 1
        while model.has(f"stage{stage}.conv{layer}"):
            x = model.conv(f"stage{stage}.conv{layer}", x)
            x = F.relu(model.norm(f"stage{stage}.bn{layer}", x))
            layer += 1
        x = F.max_pool2d(x, 2, ceil_mode=True)
    return model.linear("output", x.mean((2, 3)))


def shortcut(model, block, x, channels):
    if model.has(f"{block}.shortcut.conv"):
        return model.norm(f"{block}.shortcut.bn", model.conv(f"{block}.shortcut.conv", x))
    if model.has(f"{block}.shortcut"):
        added = channels - x.shape[1]
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, added // 2, added - added // 2))
    return x


def resnet(model, x):
    x = F.relu(model.norm("stem.bn", model.conv("stem.conv", x)))
    if model.has("stem.pool"):
        x = F.max_pool2d(x, 3, 2, 1)
    stage = 1
    while model.has(f"stage{stage}.block0.conv1"):
        number = 0
        while model.has(f"stage{stage}.block{number}.conv1"):
            block = f"stage{stage}.block{number}"
            inner = F.relu(model.norm(f"{block}.bn1", model.conv(f"{block}.conv1", x)))
            inner = model.norm(f"{block}.bn2", model.conv(f"{block}.conv2", inner))
            x = F.relu(inner + shortcut(model, block, x, inner.shape[1]))
            number += 1
        stage += 1
    return model.linear("output", x.mean((2, 3)))


FAMILIES = {"mlp": mlp, "vgg": vgg, "resnet": resnet}


def run(folder, description, family, noise=None):
    """One step in PyTorch: a dictionary of the arrays that the dump has."""
    model = Model(folder, description)
    inputs = load(folder, "inputs").double()
    if noise is not None:
        inputs += NOISE * torch.randn(inputs.shape, generator=noise, dtype=inputs.dtype)
    logits = family(model, inputs.permute(0, 3, 1, 2))
    loss = F.cross_entropy(logits, load(folder, "labels").long())
    loss.backward()
    results = {"loss": loss.detach(), "logits": logits.detach()}
    results.update({f"gradient.{name}": parameter.grad for name, parameter in model.parameters.items()})
    return results


def load(folder, name):
    return torch.from_numpy(numpy.load(folder / f"{name}.npy"))


def relative_error(value, reference):
    """In norm. A bias in front of a batch norm has the gradient 0, and what is computed is rounding: absolute then."""
    norm = float(reference.norm())
    return float((value - reference).norm()) / (norm if norm > 1e-9 else 1.0)


def check(folder, tolerance):
    description = json.loads((folder / "model.json").read_text())
    family = next((build for name, build in FAMILIES.items() if description["model"].startswith(name)), None)
    if family is None:
        raise ValueError(f"model {description['model']}: this script knows {', '.join(FAMILIES)}")
    reference = run(folder, description, family)
    generator = torch.Generator().manual_seed(1)
    disturbed = [run(folder, description, family, generator) for _ in range(3)]
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
