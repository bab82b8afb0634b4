#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares logits that PyTorch computes from safetensors files with those that dragonn computed from them.

    weights_check.py SCRIPTS [WEIGHTS DUMP]...

DUMP was written by `dragonn-bench step --weights WEIGHTS --dump DUMP`; SCRIPTS is the folder of scripts. An mlp is built
of PyTorch's own layers alone, which flatten as PyTorch does.
"""
import json
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
sys.path.insert(0, sys.argv[1])

import torch  # noqa: E402
from safetensors import safe_open  # noqa: E402
from torch import nn  # noqa: E402

import check_against_pytorch  # noqa: E402
import pytorch_models  # noqa: E402

TOLERANCE = 1e-5


def plain_mlp(tensors):
    """Linear layers with ReLU between them, behind PyTorch's own flattening."""
    layers = [nn.Flatten()]
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]:
        weight = tensors[f"{name}.weight"]
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({part: tensors[f"{name}.{part}"] for part in ("weight", "bias")})
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def logits_of(dump, tensors):
    """The logits by PyTorch, in float32."""
    inputs = dump.load("inputs")
    if inputs.dim() == 4:
        inputs = inputs.permute(0, 3, 1, 2)
    if dump.description["model"] == "mlp":
        return plain_mlp(tensors)(inputs)
    model = pytorch_models.build(dump.description)
    pytorch_models.load_weights(model, tensors)
    if check_against_pytorch.takes_tokens(dump):
        inputs = inputs.long()
    return model.eval().loss(inputs, dump.load("labels").long())[1]


def difference(weights, folder):
    """The largest difference of a logit, in parts of the largest one if that is above 1."""
    dump = check_against_pytorch.Dump(pathlib.Path(folder))
    with safe_open(weights, framework="pt") as file:
        model, tensors = file.metadata()["model"], {name: file.get_tensor(name) for name in file.keys()}
    if model != dump.description["model"]:
        sys.exit(f"{weights} names the model {model}, {folder} {dump.description['model']}")
    expected = dump.load("evaluation_logits")
    with torch.no_grad():
        logits = logits_of(dump, tensors).reshape(expected.shape)
    return float((logits - expected).abs().max() / expected.abs().max().clamp(min=1))


def main():
    failures = 0
    for weights, folder in zip(sys.argv[2::2], sys.argv[3::2]):
        found = difference(weights, folder)
        failures += not found <= TOLERANCE
        print(f"{weights}: logits differ by {found:.1e}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
