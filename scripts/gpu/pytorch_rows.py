#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures in PyTorch what dragonn-bench measured, beside its rows.

    dragonn-bench compress --device cuda --numel 268435456 --json compress.json
    pytorch_rows.py select --rows compress.json --json select.json

    dragonn-bench step --device cuda --model resnet20 --model vgg16 --batch 128 --json step.json
    pytorch_rows.py step --rows step.json --json steps.json

select: torch.topk, a mask and nonzero, and DGC's encoder made of PyTorch's operations, on as many values of the same
distribution at the same density, and on a CPU NumPy's boolean indexing, which is faster than PyTorch's operators; seconds by
events on the device, medians of rounds that alternate with copies.
step: the same models (scripts/pytorch_models.py; the numbers of parameters must agree), shapes, batch, precision and plain
gradient descent. A step begins with the batch in (page-locked) host memory and ends when the loss is there.

Prints a table and writes the rows as a JSON array, after each row anew. Rows that could not be measured are null, with a note.
Exit code: 0 done, 1 some rows failed, 2 bad usage or other models than dragonn's, 77 PyTorch is not installed.
"""
import contextlib
import functools
import importlib.util
import json
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
try:
    import torch

    import pytorch_models
    from pytorch_models import TOKEN_MODELS
    from runs import Rows, make_parser, run_main, table
except ImportError as error:
    print(f"skipped: {error}", file=sys.stderr)
    sys.exit(77)

COPY_BYTES, READ_BYTES = 8, 4


class OtherModel(BaseException):
    """PyTorch's model is not dragonn's: no row that fails, but the end."""


def seconds_of(device, work):
    """Of the work on the device, from idle to idle."""
    if device.type != "cuda":
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3


def percentile(values, share):
    """As dragonn-bench takes it: the nearest of the values."""
    return sorted(values)[round(share * (len(values) - 1))]


def print_table(rows, columns):
    def cell(value):
        if isinstance(value, list):
            return ",".join(map(str, value))
        return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

    print(table(columns, ([cell(row[column]) for column in columns] for row in rows)))


def draw_laplace(numel, device):
    generator = torch.Generator(device).manual_seed(1)
    values = torch.rand(numel, device=device, generator=generator).sub_(0.5)
    return values.sign() * torch.log1p(values.abs_().mul_(-2).clamp_(min=-0.999999))


def torch_topk(values, k, _threshold):
    found = torch.topk(values.abs(), k, sorted=False).indices
    return found, values[found]


def torch_mask_nonzero(values, _k, threshold):
    found = (values.abs() >= threshold).nonzero().view(-1)
    return found, values[found]


def numpy_mask(values, _k, threshold):
    """On a CPU alone. The values share memory with NumPy's array."""
    import numpy

    array = values.numpy()
    found = torch.from_numpy((numpy.abs(array) >= threshold).nonzero()[0])
    return found, torch.from_numpy(array[found.numpy()])


def torch_dgc(values, k, _threshold):
    """A threshold from every hundredth value, what reaches it, and of these the k largest if they are too many."""
    magnitudes = values.abs()
    samples = magnitudes[::100]
    threshold = torch.topk(samples, max(1, k * samples.numel() // values.numel()), sorted=False).values.min()
    found = (magnitudes >= threshold).nonzero().view(-1)
    if found.numel() > 1.3 * k:
        found = found[torch.topk(magnitudes[found], k, sorted=False).indices]
    return found, values[found]


def select_row(select, like, values, threshold, room, rounds, dragonn):
    numel, device = values.numel(), values.device
    k = max(1, int(like["density"] * numel))
    for _ in range(2):
        found, _ = select(values, k, threshold)
    seconds, copies = [], []
    for _ in range(rounds):
        copies.append(seconds_of(device, lambda: room.copy_(values)))
        seconds.append(seconds_of(device, lambda: select(values, k, threshold)))
    median, copy, selected = percentile(seconds, 0.5), statistics.median(copies), found.numel()
    row = {"sparsifier": select.__name__, **like, "distribution": "laplace", "threads": torch.get_num_threads(), "mode": "select",
           "seconds_median": median, "seconds_p10": percentile(seconds, 0.1), "seconds_p90": percentile(seconds, 0.9),
           "gigabytes_per_second": numel * READ_BYTES / median * 1e-9, "selected": selected, "selected_over_k": selected / k,
           "bytes": float(numel * READ_BYTES), "copy_gigabytes_per_second": numel * COPY_BYTES / copy * 1e-9,
           "of_copy": READ_BYTES / COPY_BYTES * copy / median, "torch": torch.__version__}
    for method in ("dragonn", "dgc"):  # on as many values at this density on this device
        like_it = {**like, "sparsifier": method, "mode": "select"}
        other = next((other["seconds_median"] for other in dragonn if like_it.items() <= other.items()), None)
        row[f"{method}_below"] = None if other is None else 1 - other / median
    return row


def run_select(options, rows):
    dragonn = read_rows(options.rows) if options.rows else []
    device = device_of(options.device or (dragonn[0]["device"] if dragonn else "cpu"))
    torch.set_num_threads(options.threads)
    cases = {(row["numel"], row["density"]) for row in dragonn} or {(options.numel, options.density)}
    for numel, density in sorted(cases):
        values = draw_laplace(numel, device)
        room = torch.empty_like(values)
        k = max(1, int(density * numel))
        threshold = float(torch.topk(values.abs(), k, sorted=False).values.min())
        like = {"device": device.type, "numel": numel, "density": density}
        has_numpy = device.type == "cpu" and importlib.util.find_spec("numpy")
        for select in (torch_topk, torch_mask_nonzero, torch_dgc, *([numpy_mask] if has_numpy else [])):
            rows.add([select_row(select, like, values, threshold, room, options.rounds, dragonn)])
    print_table(
        rows, ["sparsifier", "device", "numel", "density", "seconds_median", "gigabytes_per_second", "selected_over_k"]
        + ["copy_gigabytes_per_second", "of_copy", "dragonn_below", "dgc_below"])
    return 0


CHANNELS_LAST = "_channels_last"
PRECISIONS = ["float32", "tf32", "bf16"]
VARIANTS = ["eager", "eager" + CHANNELS_LAST, "compile", "compile" + CHANNELS_LAST, "compile_graphs"]


def draw_batch(row, device, variant):
    """Inputs and labels in host memory, laid out as the model takes them."""
    batch, sample, classes = row["batch"], row["sample"], row["classes"]
    if row["model"] in TOKEN_MODELS:
        inputs, labels = (torch.randint(classes, (batch, sample[0])) for _ in range(2))
        labels = labels.flatten()
    elif len(sample) < 3:  # features, or frames of speech, whose labels do not have the blank
        inputs, labels = torch.randn(batch, *sample), torch.randint(1, classes, (batch,))
    else:
        height, width, channels = sample
        inputs, labels = torch.randn(batch, channels, height, width), torch.randint(classes, (batch,))
        if variant.endswith(CHANNELS_LAST):
            inputs = inputs.contiguous(memory_format=torch.channels_last)
    return [tensor.pin_memory() if device.type == "cuda" else tensor for tensor in (inputs, labels)]


class Step:
    """A model with a batch, ready for steps."""

    def __init__(self, row, device, variant):
        torch.manual_seed(1)
        model = pytorch_models.build(row)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        if parameters != row["parameters"]:
            raise OtherModel(f"{row['model']}: {parameters} parameters, and dragonn's has {row['parameters']}")
        layout = torch.channels_last if variant.endswith(CHANNELS_LAST) else torch.contiguous_format
        model = model.to(device, memory_format=layout)
        self.batch = draw_batch(row, device, variant)
        self.device, self.math = device, row["device_math"]
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=device.type == "cuda")
        self.loss = model.loss
        if variant.startswith("compile"):
            self.loss = torch.compile(model.loss, mode="reduce-overhead" if variant == "compile_graphs" else "default")
        self.states = []

    def run(self):
        batch = [tensor.to(self.device, non_blocking=True) for tensor in self.batch]
        if hasattr(torch.compiler, "cudagraph_mark_step_begin"):
            torch.compiler.cudagraph_mark_step_begin()
        self.optimizer.zero_grad()
        is_bf16 = self.math == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16) if is_bf16 else contextlib.nullcontext():
            loss, _, *states = self.loss(*batch, *self.states)
        loss.backward()
        self.optimizer.step()
        self.states = [detached(state) for state in states]
        return loss.item()


def detached(state):
    """Of the next window: no gradient goes back, and graphs may overwrite what they gave."""
    return state.detach().clone() if torch.is_tensor(state) else type(state)(detached(part) for part in state)


@functools.cache
def product_rate(device, math):
    """GFLOP/s of a large matrix product, measured once for each precision."""
    side = 8192 if device.type == "cuda" else 2048
    left, right = (torch.randn(side, side, device=device) for _ in range(2))
    if math == "bf16":
        left, right = left.bfloat16(), right.bfloat16()
    for _ in range(3):
        left @ right
    return 2e-9 * side**3 / statistics.median(seconds_of(device, lambda: left @ right) for _ in range(9))


MEASURED = ("seconds_median", "samples_per_second", "gflops", "gemm_gflops", "of_gemm", "dragonn_over_this")
KEPT = ("model", "settings", "sample", "classes", "batch", "parameters", "device", "device_math", "threads")


def step_row(row, device, variant, rounds):
    torch._dynamo.reset()
    torch.set_num_threads(row["threads"])
    # float32, tf32, or bf16: autocast, with parameters and gradients in float32.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = row["device_math"] == "tf32"
    torch.backends.cudnn.benchmark = True
    rate = product_rate(device, row["device_math"])
    step, seconds = Step(row, device, variant), []
    for _ in range(5 + rounds):
        begin = time.perf_counter()
        step.run()
        seconds.append(time.perf_counter() - begin)
    median = percentile(seconds[5:], 0.5)
    samples = row["batch"] / median
    gflops = row["gflops"] / row["samples_per_second"] * samples
    return dict(zip(MEASURED, (median, samples, gflops, rate, gflops / rate, row["samples_per_second"] / samples))) | {"note": None}


def run_step(options, rows):
    wanted = fastest([row for path in options.rows for row in read_rows(path)])
    begin, failures = time.monotonic(), 0
    # All variants of a row before the next: compiling takes long, and what is there when the time ends is complete.
    for row in wanted:
        for variant in options.variants if row["device_math"] in options.precisions else []:
            if variant.endswith(CHANNELS_LAST) and row["model"] in TOKEN_MODELS:
                continue
            device = device_of(row["device"])
            result = dict.fromkeys(MEASURED) | {"note": "not measured: the time is used up"}
            if time.monotonic() - begin <= options.seconds:
                try:
                    result = step_row(row, device, variant, options.rounds)
                except Exception as error:  # a variant that PyTorch cannot run here
                    failures += 1
                    result["note"] = f"failed: {type(error).__name__}: {first_line(error)}"
            rows.add([{key: row[key] for key in KEPT} | {"torch": torch.__version__, "variant": variant} | result])
    print_table(
        rows, ["model", "sample", "batch", "parameters", "device", "device_math", "variant", "seconds_median"]
        + ["samples_per_second", "gflops", "of_gemm", "dragonn_over_this", "note"])
    return 1 if failures else 0


def first_line(error):
    return (str(error).strip().splitlines() or [""])[0]


def device_of(name):
    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("device cuda: PyTorch sees none here")
    return torch.device(name)


def read_rows(path):
    rows = json.loads(path.read_text())
    if not rows:
        raise ValueError(f"{path}: no rows")
    return rows


def fastest(rows):
    """Of rows that differ in what is dragonn's own matter (CUDA graphs) the fastest."""
    best = {}
    for row in rows:
        key = json.dumps([row[name] for name in KEPT])
        best[key] = max(best.get(key, row), row, key=lambda found: found["samples_per_second"])
    return list(best.values())


def parse():
    parser = make_parser(__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    select = commands.add_parser("select", help="torch.topk, mask and nonzero, DGC's encoder")
    select.add_argument("--rows", type=pathlib.Path, help="what dragonn-bench compress wrote: device, sizes, densities")
    select.add_argument("--device", choices=["cpu", "cuda"], help="without --rows (default cpu)")
    select.add_argument("--numel", type=int, default=1 << 28, help="without --rows (default 2^28)")
    select.add_argument("--density", type=float, default=0.001, help="without --rows (default 0.001)")
    select.add_argument("--threads", type=int, default=1, help="of PyTorch on the CPU (default 1)")
    step = commands.add_parser("step", help="training steps of the models in the rows")
    step.add_argument("--rows", type=pathlib.Path, nargs="+", required=True, help="what dragonn-bench step wrote")
    step.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS, help="default: all")
    step.add_argument("--precisions", nargs="+", choices=PRECISIONS, default=PRECISIONS, help="of the rows; default: all")
    step.add_argument("--seconds", type=float, default=float("inf"), help="begin nothing more after these")
    for command in (select, step):
        command.add_argument("--rounds", type=int, default=15, help="measurements of each row (default 15)")
        command.add_argument("--json", type=pathlib.Path, help="write the rows to this file")
    return parser.parse_args()


def main():
    options = parse()
    rows = Rows(options.json)
    rows.clear()
    return {"select": run_select, "step": run_step}[options.command](options, rows)


if __name__ == "__main__":
    run_main(main, 2, (OSError, ValueError, KeyError, OtherModel))
