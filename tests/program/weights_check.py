#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what PyTorch computes from safetensors files with what dragonn computed from them.

    weights_check.py SCRIPTS logits [WEIGHTS DUMP]...
    weights_check.py SCRIPTS make-gpt2 FOLDER
    weights_check.py SCRIPTS steps FOLDER RUN

SCRIPTS is the folder of scripts. `logits`: DUMP was written by `dragonn-bench step --weights WEIGHTS --dump DUMP`. An mlp is
built of PyTorch's own layers alone, which flatten as PyTorch does; a gpt2 is that of the package transformers, loaded from the
folder of WEIGHTS. `make-gpt2` writes a small random GPT-2 of transformers, and token shards, to FOLDER. `steps` trains that
model on the shards, all windows in every step, and compares the losses with those of RUN.
"""
import array
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

TOLERANCE = 1e-5  # of logits
LOSS_TOLERANCE = 1e-3  # of the losses of some steps of AdamW
VOCABULARY, WINDOW, WINDOWS = 50, 12, 6


def plain_mlp(tensors):
    """Linear layers with ReLU between them, behind PyTorch's own flattening."""
    layers = [nn.Flatten()]
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith(".weight")]:
        weight = tensors[f"{name}.weight"]
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({part: tensors[f"{name}.{part}"] for part in ("weight", "bias")})
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def gpt2_of(folder):
    from transformers import GPT2LMHeadModel

    model, report = GPT2LMHeadModel.from_pretrained(folder, output_loading_info=True)
    if wrong := {key: value for key, value in report.items() if value}:
        sys.exit(f"{folder}: transformers says {wrong}")
    return model


def make_gpt2(folder):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    rates = dict.fromkeys(("embd_pdrop", "resid_pdrop", "attn_pdrop"), 0.0)
    sizes = {"vocab_size": VOCABULARY, "n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 2}
    model = GPT2LMHeadModel(GPT2Config(**sizes, **rates, initializer_range=0.2))
    for name, parameter in model.named_parameters():  # transformers has zeros and ones there
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, mean=float("ln_" in name and name.endswith("weight")), std=0.2)
    model.save_pretrained(folder)
    tokens = array.array("H", torch.randint(VOCABULARY, (WINDOWS * WINDOW + 1,)).tolist())
    shard = array.array("i", [20240520, 1, len(tokens)] + 253 * [0]).tobytes() + tokens.tobytes()
    for split in ("train", "validation"):
        (folder / f"{split}_000000.bin").write_bytes(shard)


def losses_of_steps(folder, steps):
    """The losses of AdamW with the settings of gpt2.toml (weights_test.sh)."""
    tokens = array.array("H")
    tokens.frombytes((folder / "train_000000.bin").read_bytes()[1024:])
    tokens = torch.tensor(tokens.tolist())
    inputs, labels = tokens[:-1].view(WINDOWS, WINDOW), tokens[1:]
    model = gpt2_of(folder).train()
    groups = [{"params": [p for p in model.parameters() if (p.dim() > 1) == matrices], "weight_decay": 0.1 * matrices}
              for matrices in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=1e-2, betas=(0.9, 0.95))
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(inputs).logits.flatten(0, 1), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield float(loss)


def compare_steps(folder, run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    ours = [line["loss"] for line in lines if line["kind"] == "step"]
    theirs = list(losses_of_steps(folder, len(ours)))
    found = max(abs(a - b) / b for a, b in zip(ours, theirs))
    print(f"{len(ours)} losses from {theirs[0]:.4f} to {theirs[-1]:.4f} differ by {found:.1e}")
    return 0 if len(ours) == 20 and theirs[-1] < 0.8 * theirs[0] and found <= LOSS_TOLERANCE else 1


def logits_of(dump, weights, tensors):
    """The logits by PyTorch, in float32."""
    inputs = dump.load("inputs")
    if inputs.dim() == 4:
        inputs = inputs.permute(0, 3, 1, 2)
    if dump.description["model"] == "mlp":
        return plain_mlp(tensors)(inputs)
    if dump.description["model"] == "gpt2":
        return gpt2_of(weights.parent).eval()(inputs.long()).logits
    model = pytorch_models.build(dump.description)
    pytorch_models.load_weights(model, tensors)
    if check_against_pytorch.takes_tokens(dump):
        inputs = inputs.long()
    return model.eval().loss(inputs, dump.load("labels").long())[1]


def difference(weights, folder):
    """The largest difference of a logit, in parts of the largest one if that is above 1."""
    dump = check_against_pytorch.Dump(pathlib.Path(folder))
    with safe_open(weights, framework="pt") as file:
        model = file.metadata().get("model", "gpt2")  # transformers names none
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    if model != dump.description["model"]:
        sys.exit(f"{weights} names the model {model}, {folder} {dump.description['model']}")
    expected = dump.load("evaluation_logits")
    with torch.no_grad():
        logits = logits_of(dump, pathlib.Path(weights), tensors).reshape(expected.shape)
    return float((logits - expected).abs().max() / expected.abs().max().clamp(min=1))


def compare_logits(arguments):
    failures = 0
    for weights, folder in zip(arguments[::2], arguments[1::2]):
        found = difference(weights, folder)
        failures += not found <= TOLERANCE
        print(f"{weights}: logits differ by {found:.1e}")
    return 1 if failures else 0


def main():
    command, *arguments = sys.argv[2:]
    if command == "logits":
        return compare_logits(arguments)
    paths = map(pathlib.Path, arguments)
    return {"make-gpt2": make_gpt2, "steps": compare_steps}[command](*paths)


if __name__ == "__main__":
    sys.exit(main())
