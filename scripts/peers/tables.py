# SPDX-License-Identifier: MIT
"""Markdown tables of the rows that compare.py keeps. It finds runs.py where compare.py does."""
import statistics

from runs import table

LABELS = {
    ("ddp", "plain"): "PyTorch DDP", ("ddp", "fp16"): "PyTorch DDP, `fp16_compress_hook`",
    ("ddp", "powersgd"): "PyTorch DDP, PowerSGD of rank 1", ("ddp", "none"): "PyTorch, 1 rank alone",
    ("dragonn", "alone"): "dragonn, 1 rank alone",
}
NETWORKS = {"100mbit": "100 Mbit/s", "1gbit": "1 Gbit/s"}


def in_groups(rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def label(row):
    return LABELS.get((row["side"], row["method"]), f"dragonn, `{row['method']}`")


def mode(row):
    """How PyTorch ran: "compiled, tuned", "eager, default"; empty for dragonn."""
    return f"{'compiled' if row['compile'] else 'eager'}, {row['baseline']}" if row["side"] == "ddp" else ""


def in_best_mode(rows, speed):
    """Of rows that differ in PyTorch's mode and the round, those of the fastest mode."""
    return max(in_groups(rows, mode).values(), key=speed)


def samples_per_second(rows):
    """Of all ranks: the median over the rounds of a round's median."""
    return statistics.median(row["ranks"] * row["batch"] / statistics.median(row["step_seconds"]) for row in rows)


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def caption(rows):
    """What all rows of steps have in common."""
    if not (rows := [row for row in rows if "step_seconds" in row]):
        return
    rounds = ", ".join(f"{model} {max(row['round'] for row in found)}"
                       for model, found in in_groups(rows, lambda row: row["model"]).items())
    batch, density, torch = (", ".join(map(str, sorted({row[key] for row in rows if row.get(key) is not None})))
                             for key in ("batch", "density", "torch"))
    yield (f"Medians over rounds ({rounds}), in which all take their turn; {max(row['ranks'] for row in rows)} hosts, each with "
           f"one rank and one thread, batch {batch} a rank, density {density}, PyTorch {torch}.")


def speeds(rows):
    """samples/s of PyTorch's fastest mode, by label."""
    return {name: samples_per_second(in_best_mode(group, samples_per_second)) for name, group in in_groups(rows, label).items()}


def throughput_lines(rows):
    """A line per method, a column per model and rate."""
    if not (rows := [row for row in rows if row["part"] == "throughput"]):
        return
    cells = in_groups(rows, lambda row: (label(row), row["model"], row["rate"]))
    columns = list(dict.fromkeys((row["model"], row["rate"]) for row in rows))
    header = ["samples/s of all hosts; sent by a host per step", *(f"{model}, {NETWORKS.get(rate, rate)}" for model, rate in columns)]

    def cell(name, column):
        found = cells.get((name, *column))
        if found is None:
            return ""
        found = in_best_mode(found, samples_per_second)
        sent = statistics.median(row["sent_per_step"] for row in found)
        how = f" ({mode(found[0])})" if mode(found[0]) else ""
        sent = f"{sent / 1e3:,.0f} kB" if sent < 1e7 else f"{sent / 1e6:,.1f} MB"
        return f"{number(samples_per_second(found))}{how}; {sent}"

    names = dict.fromkeys(label(row) for row in sorted(rows, key=lambda row: row["side"], reverse=True))
    yield table(header, ([name, *(cell(name, column) for column in columns)] for name in names))


def gain_lines(rows):
    """For each column the fastest of dragonn over the fastest of PyTorch, and over plain DDP."""
    rows = [row for row in rows if row["part"] == "throughput"]
    for (model, rate), column in in_groups(rows, lambda row: (row["model"], row["rate"])).items():
        peers, own = (speeds([row for row in column if row["side"] == wanted]) for wanted in ("ddp", "dragonn"))
        plain = LABELS["ddp", "plain"]
        if plain in peers and own:
            peer, best = max(peers, key=peers.get), max(own, key=own.get)
            yield (f"- {model}, {NETWORKS.get(rate, rate)}: {best} is {own[best] / peers[plain]:.2f} times as fast as {plain}, "
                   f"and {own[best] / peers[peer]:.2f} times as fast as the fastest of PyTorch ({peer}).")


def compute_lines(rows):
    """One rank alone, and how much of a difference that is."""
    if not (rows := [row for row in rows if row["part"] == "compute"]):
        return
    models = list(dict.fromkeys(row["model"] for row in rows))
    cells = {key: number(samples_per_second(group))
             for key, group in in_groups(rows, lambda row: (label(row), mode(row), row["model"])).items()}
    yield table(["1 rank, 1 thread, no network: samples/s", *models],
                ([", ".join(filter(None, name)), *(cells.get((*name, model), "") for model in models)]
                 for name in dict.fromkeys((label(row), mode(row)) for row in rows))) + "\n"
    by_model = {model: speeds([row for row in rows if row["model"] == model]) for model in models}
    own, peer = LABELS["dragonn", "alone"], LABELS["ddp", "none"]
    if compared := [f"{found[own] / found[peer]:.2f} times ({model})" for model, found in by_model.items()
                    if own in found and peer in found]:
        yield (f"By computing alone, on one thread and without a network, dragonn is {' and '.join(compared)} as fast "
               "as PyTorch's fastest mode: what a table shows beyond that is the exchange.")


def training_epochs(lines):
    """Of the lines of metrics.jsonl: after each epoch its accuracy, and the seconds until then without evaluations."""
    epochs, seconds, begin, last = [], 0.0, 0.0, 0.0
    for line in lines:
        if line["kind"] == "step":
            last = line["time"]
        elif line["kind"] == "eval":
            seconds += last - begin
            begin = line["time"]
            epochs.append({"epoch": len(epochs) + 1, "seconds": seconds, "accuracy": line["accuracy"]})
    return epochs


def accuracy_lines(rows, share):
    """Seconds of training until the share of plain DDP's last accuracy is reached at the end of an epoch."""
    rows = [row for row in rows if row["part"] == "accuracy"]
    rows = [in_best_mode(group, lambda found: -found[0]["epochs"][-1]["seconds"])[0]
            for group in in_groups(rows, label).values()]
    reference = next((row for row in rows if row["method"] == "plain"), None)
    if reference is None:
        return
    target = share * reference["epochs"][-1]["accuracy"]

    def first(row):
        return next((epoch for epoch in row["epochs"] if epoch["accuracy"] >= target), None)

    def line(row):
        last, to_target = row["epochs"][-1], ["not reached", ""]
        if reached := first(row):
            to_target = [f"{reached['seconds']:.0f} s (epoch {reached['epoch']})",
                         f"{first(reference)['seconds'] / reached['seconds']:.2f}"]
        name = ", ".join(filter(None, (label(row), mode(row))))
        return [name, *to_target, f"{100 * last['accuracy']:.1f} %", f"{last['seconds']:.0f} s"]

    header = [f"{reference['model']}, {NETWORKS.get(reference['rate'], reference['rate'])}", f"training until {100 * target:.1f} %",
              "times as fast as DDP", f"accuracy after epoch {len(reference['epochs'])}", "training in all"]
    yield table(header, map(line, rows))


def report(rows, share, environments):
    """All that there are rows for, and the variables that PyTorch's environments set."""
    parts = map(list, (caption(rows), environments, throughput_lines(rows), gain_lines(rows), compute_lines(rows),
                       accuracy_lines(rows, share)))
    yield "\n\n".join("\n".join(lines) for lines in parts if lines)
