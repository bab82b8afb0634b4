#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains a GPT-2 of Hugging Face's transformers, with random first weights, by its Trainer; dragonn exchanges the gradients.

    torchrun --nproc-per-node 4 examples/transformers_trainer.py --text FILE --output DIR --steps 200
    torchrun --nproc-per-node 4 examples/transformers_trainer.py --text FILE --output DIR --steps 400 --resume

The model reads bytes. `DragonnCallback` is all that another Trainer needs: it registers the hook with the model that the
Trainer has wrapped, saves each rank's error feedback in the Trainer's checkpoints, and takes it from there.

Rank 0 prints a line of JSON: the steps, the losses that the Trainer logged, and a hash of the parameters.
Exit code: 0 done, 1 failed, 2 bad usage, 77 PyTorch, transformers or accelerate is missing.
"""
import argparse
import hashlib
import json
import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")  # of PyTorch, about NumPy
try:
    import accelerate  # noqa: F401: the Trainer's
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "python"))  # unless it is installed
import dragonn

CONFIG = 'compression = { method = "topk", density = 0.01, codec = { indices = "rice", values = "int8" } }'
WINDOW = 64


class DragonnCallback(TrainerCallback):
    """Lets dragonn exchange the gradients of a Trainer, and keeps error feedback in its checkpoints."""

    def __init__(self, trainer, config):
        self.trainer, self.config, self.hook = trainer, config, None

    def file(self, arguments, state):
        folder = pathlib.Path(arguments.output_dir) / f"checkpoint-{state.global_step}"
        return folder / f"dragonn-rank{arguments.process_index}.pt"

    def on_train_begin(self, arguments, state, _control, **_):
        self.hook = dragonn.DdpHook(self.trainer.model_wrapped, self.config)
        if state.global_step > 0:
            self.hook.load_state_dict(torch.load(self.file(arguments, state), weights_only=True))

    def on_save(self, arguments, state, _control, **_):
        self.file(arguments, state).parent.mkdir(parents=True, exist_ok=True)
        torch.save(self.hook.state_dict(), self.file(arguments, state))

    def on_train_end(self, _arguments, _state, _control, **_):
        self.hook.exchange.close()


def windows(path):
    """The text's bytes, cut into windows, which are their own labels."""
    text = torch.tensor(list(path.read_bytes()))
    return [{"input_ids": window, "labels": window} for window in text[: len(text) // WINDOW * WINDOW].view(-1, WINDOW)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, help="a file to learn")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder for checkpoints")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--batch", type=int, default=4, help="windows of a rank in a step")
    parser.add_argument("--resume", action="store_true", help="from the newest checkpoint of --output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=WINDOW, n_embd=64, n_layer=2, n_head=2, bos_token_id=0,
                                       eos_token_id=0))
    trainer = Trainer(model, TrainingArguments(
        output_dir=str(options.output), max_steps=options.steps, per_device_train_batch_size=options.batch, learning_rate=3e-3,
        lr_scheduler_type="constant", save_steps=options.save_every, logging_steps=10, report_to="none", disable_tqdm=True,
        use_cpu=True, ddp_backend="gloo", ddp_find_unused_parameters=False, seed=1), train_dataset=windows(options.text))
    trainer.add_callback(DragonnCallback(trainer, CONFIG))
    trainer.train(resume_from_checkpoint=options.resume)
    if trainer.is_world_process_zero():
        bits = b"".join(bytes(value.detach().contiguous().view(torch.uint8).flatten().tolist()) for value in model.parameters())
        print(json.dumps({"steps": trainer.state.global_step,
                          "loss": [line["loss"] for line in trainer.state.log_history if "loss" in line],
                          "parameters_hash": hashlib.sha256(bits).hexdigest()[:16]}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except (dragonn.DragonnError, RuntimeError, OSError) as error:
        print(f"rank {os.environ.get('RANK', '0')}: {error}", file=sys.stderr, flush=True)
        os._exit(1)  # the other ranks are not waited for
