#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures training steps of dragonn and of PyTorch on this machine's processors, side by side.

    scripts/peers/step_side_by_side.py                                # all models at 1 and 2 threads
    scripts/peers/step_side_by_side.py --models lstm_lm_256,mlp --threads 1
    scripts/peers/step_side_by_side.py --json steps.json --table steps.md    # again after a stop: goes on behind the last row

A step is forward, loss, backward and a plain update of all parameters. PyTorch runs the same model (scripts/pytorch_models.py;
the numbers of parameters must agree) eagerly, with channels last where there are images, and compiled. All take their turn,
round by round, in processes of their own; the table has medians over the rounds, and compares with the fastest of PyTorch's
variants: a ratio above 1 means that dragonn is faster. Peak memory is that of a process above what it held before it made the model.

Run it on a quiet machine; build dragonn-bench before (scripts/test.sh). Rows are printed as they come, and written to --json:
those that are there already are not measured again. `load` is how many threads ran or waited beside the row, one minute's mean.
Exit code: 0 done, 1 a run failed, 2 bad usage, 77 PyTorch is not installed.
"""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The options of dragonn-bench step.
MODELS = {
    "resnet20_32": "--model resnet20 --batch 32",
    "resnet20_128": "--model resnet20 --batch 128",
    "vgg16_32": "--model vgg16 --batch 32",
    "vgg16_128": "--model vgg16 --batch 128",
    "resnet50_8": "--model resnet50 --batch 8 --set stem=imagenet --sample 224x224x3 --classes 1000",
    "mlp": "--model mlp --batch 128 --sample 28x28x1",
    "lstm_lm_256": "--model lstm_lm --batch 20 --set hidden=256",
    "lstm_lm_650": "--model lstm_lm --batch 20 --set hidden=650",
    "lstm_lm_1500": "--model lstm_lm --batch 20 --set hidden=1500",
    "lstm_speech": "--model lstm_speech --batch 4",
    "xml_linear": "--model xml_linear --batch 256",
    "bert_4x256": "--model bert --batch 8 --sample 128 --set layers=4 --set hidden=256 --set heads=4",
    "bert_12x768": "--model bert --batch 2 --sample 128 --set layers=12 --set hidden=768 --set heads=12",
    "vit": "--model vit --batch 32",
}
VARIANTS = ["eager", "compile", "eager_channels_last", "compile_channels_last"]
WORKER = "--worker"


def words(text):
    return text.split(",")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=words, default=list(MODELS), help=",".join(MODELS))
    parser.add_argument("--threads", type=words, default=["1", "2"])
    parser.add_argument("--variants", type=words, default=VARIANTS, help="of PyTorch: " + ",".join(VARIANTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="about the time of each turn")
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin", help="dragonn's programs")
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows as a JSON array, and keep those that it has")
    parser.add_argument("--table", type=pathlib.Path, help="also write the table, with processor, date and versions")
    options = parser.parse_args()
    for name, values, valid in (("models", options.models, MODELS), ("variants", options.variants, VARIANTS)):
        for value in values:
            if value not in valid:
                parser.error(f"--{name} {value}: valid are {', '.join(valid)}")
    for threads in options.threads:
        if not threads.isdigit() or int(threads) < 1:
            parser.error(f"--threads {threads}: expected numbers of threads, such as 1,2")
    if options.rounds < 1:
        parser.error("--rounds: expected 1 or more")
    options.bench = options.bin / "dragonn-bench"
    if not options.bench.exists():
        parser.error(f"{options.bench} is missing: run scripts/test.sh, or name another folder by --bin")
    return options


# dragonn


def run_dragonn(bench, model, threads, rounds):
    """The row of dragonn-bench."""
    command = [bench, "step", *MODELS[model].split(), "--threads", threads, "--rounds", str(rounds), "--json", "-"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"step_side_by_side.py: dragonn-bench step {MODELS[model]}: {run.stderr.strip()}")
    return json.loads(run.stdout)[0]


def dragonn_memory(bench, model, threads):
    """What a step holds: the peak above that of a process that does next to nothing."""
    common = ["--threads", threads, "--product-side", "1", "--rounds", "1"]
    nothing = "--model mlp --batch 1 --sample 1 --set hidden=[1] --classes 2"
    peaks = [peak_memory([bench, "step", *options.split(), *common]) for options in (MODELS[model], nothing)]
    return max(0, peaks[0] - peaks[1])


def peak_memory(command):
    """The peak of a process, in bytes. What wait4 tells counts the process that it was started by, too."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        try:
            peak = max(peak, memory_of(process.pid, "VmHWM"))
        except (OSError, StopIteration):
            pass  # it has just ended
        time.sleep(0.005)
    return peak


# PyTorch, in a process for each variant


class Peer:
    """A worker that holds a model, and runs steps when it is asked to."""

    def __init__(self, row, variant):
        self.variant = variant
        self.process = subprocess.Popen(
            [sys.executable, __file__, WORKER, variant], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ready = self.ask(row)

    def ask(self, message):
        print(json.dumps(message), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"step_side_by_side.py: PyTorch {self.variant} ended with {self.process.wait()}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def memory_of(process, what):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(what + ":"))


def work(variant):
    """A worker: reads the row of the model, then numbers of seconds; answers with the median of steps in that time."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    sys.path[:0] = [str(ROOT / "scripts" / "gpu"), str(ROOT / "scripts")]
    import pytorch_rows
    import torch

    row = json.loads(sys.stdin.readline())
    torch.set_num_threads(row["threads"])
    before = memory_of("self", "VmRSS")
    try:
        step = pytorch_rows.Step(row, torch.device("cpu"), variant)
        for _ in range(3):
            step.run()
        print(json.dumps({"memory": memory_of("self", "VmHWM") - before, "torch": torch.__version__}), file=answers, flush=True)
    except Exception as error:  # a variant that PyTorch cannot run here
        print(json.dumps({"note": f"{type(error).__name__}: {pytorch_rows.first_line(error)}"}), file=answers, flush=True)
        return
    for line in sys.stdin:
        end, seconds = time.perf_counter() + json.loads(line), []
        while not seconds or time.perf_counter() < end:
            begin = time.perf_counter()
            step.run()
            seconds.append(time.perf_counter() - begin)
        print(json.dumps(statistics.median(seconds)), file=answers, flush=True)


# both


def variants_of(model, options):
    """Channels can only be last where there are images."""
    images = model.startswith(("resnet", "vgg"))
    return [variant for variant in options.variants if images or not variant.endswith("channels_last")]


def compare(model, threads, options):
    load = os.getloadavg()[0]
    row = run_dragonn(options.bench, model, threads, 1)
    # A turn of dragonn-bench is rounds of about the time of one large product, or of one step if that takes longer.
    turn = max(row["seconds_median"], 2e-9 * 2048**3 / row["gemm_gflops"])
    rounds = max(1, round(options.seconds / turn))
    peers = [Peer(row, variant) for variant in variants_of(model, options)]
    peers = [peer for peer in peers if "note" not in peer.ready]
    seconds, of_gemm = {}, []
    for _ in range(options.rounds):
        ours = run_dragonn(options.bench, model, threads, rounds)
        seconds.setdefault("dragonn", []).append(ours["seconds_median"])
        of_gemm.append(ours["of_gemm"])
        for peer in peers:
            seconds.setdefault(peer.variant, []).append(peer.ask(options.seconds))
    memory = {peer.variant: peer.ready["memory"] for peer in peers}
    version = peers[0].ready["torch"] if peers else None
    for peer in peers:
        peer.close()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    best = min((name for name in medians if name != "dragonn"), key=medians.get, default=None)
    return {
        "model": model, "batch": row["batch"], "threads": int(threads), "parameters": row["parameters"],
        "dragonn_samples_per_second": row["batch"] / medians["dragonn"], "of_gemm": statistics.median(of_gemm),
        "pytorch_samples_per_second": row["batch"] / medians[best] if best else None, "pytorch_variant": best,
        "ratio": medians[best] / medians["dragonn"] if best else None,
        "dragonn_bytes": dragonn_memory(options.bench, model, threads), "pytorch_bytes": min(memory.values(), default=None),
        "seconds": seconds, "torch": version, "load": load, "date": time.strftime("%Y-%m-%d"), "processor": processor(),
    }


def processor():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else "unknown"


COLUMNS = {
    "model": "model", "threads": "threads", "dragonn_samples_per_second": "dragonn, samples/s",
    "pytorch_samples_per_second": "PyTorch's best", "pytorch_variant": "which", "ratio": "ratio", "of_gemm": "of GEMM",
    "dragonn_bytes": "dragonn, MB", "pytorch_bytes": "PyTorch, MB", "load": "load",
}


def text(key, value):
    if value is None:
        return "-"
    if key.endswith("_bytes"):
        return f"{value * 1e-6:.0f}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def line(row):
    return "| " + " | ".join(text(key, row[key]) for key in COLUMNS) + " |"


HEAD = "| " + " | ".join(COLUMNS.values()) + " |\n" + "|---" * len(COLUMNS) + "|"


def summary(rows):
    """The means over all rows, and the conditions that they name."""
    lines = []
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    if ratios:
        mean = math.exp(statistics.mean(map(math.log, ratios)))
        lines.append(f"Geometric mean of {len(ratios)} ratios: {mean:.2f}; least: {min(ratios):.2f}")
    more = [row["model"] for row in rows if row["pytorch_bytes"] and row["dragonn_bytes"] > row["pytorch_bytes"]]
    lines.append("Peak memory above PyTorch's: " + (", ".join(dict.fromkeys(more)) or "none"))
    for name in ("processor", "date", "torch"):
        lines.append(f"{name}: " + ", ".join(dict.fromkeys(str(row[name]) for row in rows)))
    return "\n".join(f"- {line}" for line in lines)


def write(rows, options):
    if options.json:
        partial = options.json.with_name(options.json.name + ".part")
        partial.write_text(json.dumps(rows, indent=2) + "\n")
        os.replace(partial, options.json)
    if options.table:
        options.table.write_text("\n".join([HEAD, *map(line, rows)]) + "\n\n" + summary(rows) + "\n")


def main():
    if sys.argv[1:2] == [WORKER]:
        return work(sys.argv[2])
    options = parse()
    try:
        import torch  # noqa: F401: the workers use it
    except ImportError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    rows = json.loads(options.json.read_text()) if options.json and options.json.exists() else []
    print("\n".join([HEAD, *map(line, rows)]), flush=True)
    there = {(row["model"], str(row["threads"])) for row in rows}
    for model in options.models:
        for threads in options.threads:
            if (model, threads) in there:
                continue
            rows.append(compare(model, threads, options))
            print(line(rows[-1]), flush=True)
            write(rows, options)
    print("\n" + summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
