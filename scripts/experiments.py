#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains one config, or several, with all combinations of the values of some keys, and compares the runs.

Usage:
  scripts/experiments.py SWEEP.toml [OPTION...]
  scripts/experiments.py --config CONFIG.toml --grid KEY=VALUE,... [--grid ...] --output DIR [OPTION...]

  scripts/experiments.py --config configs/cifar10_resnet20.toml --output runs/sweep --parallel 2 \\
    --grid compression.method=topk,gtopk --grid compression.density=0.01,0.001 --grid seed=1,2,3

Every run is a folder in DIR, named by what distinguishes it (topk-density0.01-seed1); beside it NAME.log has what the run
printed. A run that is finished is not repeated, one that was interrupted goes on from its last checkpoint, and a run that
failed is tried again: the same command continues a sweep, also one with further values. All configs are checked before the
first run begins. In the end DIR has table.md (printed, too) with a row for each group of runs that differ in `seed` only,
and for each config report.html of dragonn-compare, its report.csv and groups.csv.
Exit codes: 0 all runs are done; 1 some are not, and the end says why; 2 wrong usage, sweep or config, nothing was run;
130 or 143 stopped by SIGINT or SIGTERM, after the runs that were at work have saved checkpoints.

SWEEP.toml (paths of configs are relative to it, all others to the working directory):
  config = "../configs/cifar10_resnet20.toml"    # or a list
  output = "runs/sweep"
  parallel = 2                                   # runs at a time (1)
  launcher = ["mpirun", "-np", "4"]              # stands before dragonn-train (none: local workers)
  [set]                                          # keys of every run
  train.epochs = 10
  plugins = ["build/mine.so"]                    # components of your own, if the config does not name them
  [grid]                                         # lists of values; the last key varies fastest
  compression.method = ["topk", "gtopk"]
  compression.density = [0.01, 0.001]
  seed = [1, 2, 3]
  [[exclude]]                                    # leaves out the runs with all of these values
  compression.method = "gtopk"
  compression.density = 0.001
  [[variant]]                                    # with variants, the grid is run for each of them
  name = "dense"                                 # begins the names of its runs
  set.compression.method = "dense"
  grid.compression = { method = [], density = [] }  # replaces lists of the grid; an empty one takes the key out
  [report]
  metric = "accuracy"                            # of the table (the first one of the data set)
  baseline = "dense"                             # run or group with which the table compares the others (none)
  target = 0.65                                  # or target_share, and title: options of dragonn-compare
"""
import argparse
import fcntl
import itertools
import json
import os
import pathlib
import re
import shlex
import signal
import statistics
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
POLL_SECONDS = 0.1
STOPPED_WITH_CHECKPOINT = 75
LOWER_IS_BETTER = ("loss", "perplexity", "character_error_rate", "word_error_rate")
# Keys that change no result: a finished run may have other ones.
FREE = ("logging", "checkpoint", "plugins")
SEED = "seed"


class UsageError(Exception):
    """The sweep cannot be run as it is described. Nothing was run."""


def flatten(table, prefix=""):
    """Returns {"a.b": value} of nested TOML tables."""
    flat = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        flat.update(flatten(value, path + ".") if isinstance(value, dict) else {path: value})
    return flat


def toml_text(value):
    """Returns a value as TOML has it."""
    if isinstance(value, list):
        return "[" + ", ".join(toml_text(item) for item in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)  # JSON's strings, integers and booleans are TOML's


def parsed(text):
    """Returns the value of a text as --set of dragonn-train takes it: TOML, or else a string."""
    try:
        value = tomllib.loads(f"value = {text}")
        return value["value"] if len(value) == 1 else text
    except tomllib.TOMLDecodeError:
        return text


def parsed_list(text):
    """Returns the values of "0.1,0.01", "topk,gtopk" or "[32],[64, 32]"."""
    whole = parsed(f"[{text}]")
    return whole if isinstance(whole, list) else [parsed(item.strip()) for item in text.split(",")]


def assignment(text, option, parse):
    key, equals, value = text.partition("=")
    if not key or not equals or not value:
        raise UsageError(f"{option} {text}: expected KEY=VALUE, for instance train.epochs=5")
    return key, parse(value)


class Sweep:
    """What the TOML file and the command line ask for."""

    KEYS = {"config": (str, list), "output": str, "parallel": int, "launcher": list, "set": dict, "grid": dict,
            "exclude": list, "variant": list, "report": dict}
    VARIANT_KEYS = {"name": str, "set": dict, "grid": dict}
    REPORT_KEYS = {"metric": str, "baseline": str, "target": (int, float), "target_share": (int, float), "title": str}

    def __init__(self, options):
        table, folder = {}, pathlib.Path()
        if options.sweep:
            table, folder = self.read(options.sweep), options.sweep.parent
        configs = table.get("config", [])
        self.configs = [folder / file for file in ([configs] if isinstance(configs, str) else configs)]
        self.configs = options.config or self.configs
        if not self.configs:
            raise UsageError("no config: expected --config CONFIG.toml, or config = \"...\" in a sweep's file")
        output = options.output or table.get("output")
        if not output:
            raise UsageError("no output: expected --output DIR, or output = \"...\" in the sweep's file")
        self.output = pathlib.Path(output)
        self.parallel = options.parallel or table.get("parallel", 1)
        if self.parallel < 1:
            raise UsageError(f"parallel = {self.parallel}: expected at least 1")
        self.launcher = table.get("launcher", [])
        self.settings = flatten(table.get("set", {}))
        self.settings.update(assignment(text, "--set", parsed) for text in options.set)
        self.grid = flatten(table.get("grid", {}))
        self.grid.update(assignment(text, "--grid", parsed_list) for text in options.grid)
        self.excluded = [flatten(entry) for entry in table.get("exclude", [])]
        for text in options.exclude:
            self.excluded.append(dict(assignment(part, "--exclude", parsed) for part in text.split(",")))
        self.variants = table.get("variant", [{}])
        self.report = table.get("report", {})
        self.check(options.sweep)

    def read(self, file):
        try:
            table = tomllib.loads(file.read_text())
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {error}") from error
        self.check_keys(table, self.KEYS, str(file))
        for variant in table.get("variant", []):
            self.check_keys(variant, self.VARIANT_KEYS, f"{file}: [[variant]]")
        self.check_keys(table.get("report", {}), self.REPORT_KEYS, f"{file}: [report]")
        return table

    @staticmethod
    def check_keys(table, types, where):
        if not isinstance(table, dict):
            raise UsageError(f"{where}: expected a table")
        for key, value in table.items():
            if key not in types:
                raise UsageError(f"{where}: unknown key '{key}'; valid: {', '.join(types)}")
            if not isinstance(value, types[key]) or isinstance(value, bool):
                expected = types[key] if isinstance(types[key], tuple) else (types[key],)
                raise UsageError(f"{where}: {key}: expected {' or '.join(kind.__name__ for kind in expected)}")

    def check(self, file):
        grids = [self.grid] + [flatten(variant.get("grid", {})) for variant in self.variants]
        for key, values in itertools.chain.from_iterable(grid.items() for grid in grids):
            if not isinstance(values, list):
                raise UsageError(f"{file}: grid.{key} = {toml_text(values)}: expected a list of values")
        if self.variants != [{}] and not all(variant.get("name") for variant in self.variants):
            raise UsageError(f"{file}: [[variant]]: name is missing")
        known = set(itertools.chain(self.settings, *grids, *(flatten(v.get("set", {})) for v in self.variants)))
        for entry in self.excluded:
            for key in set(entry) - known:
                raise UsageError(f"exclude: {key} is no key of the sweep: expected {', '.join(sorted(known))}")

    def runs(self):
        """Returns all runs, in the order of the grid. @throws UsageError if two have one name."""
        runs = {}
        for config, variant in itertools.product(self.configs, self.variants):
            grid = {**self.grid, **flatten(variant.get("grid", {}))}
            axes = {key: values for key, values in grid.items() if values}
            fixed = {**self.settings, **flatten(variant.get("set", {}))}
            for values in itertools.product(*axes.values()):
                point = dict(zip(axes, values))
                settings = {**fixed, **point}
                if any(all(settings.get(key) == value for key, value in entry.items()) for entry in self.excluded):
                    continue
                words = [config.stem] if len(self.configs) > 1 else []
                words += [variant["name"]] if variant else []
                run = Run(self, config, words, point, settings)
                if run.name in runs:
                    raise UsageError(f"two runs have the name {run.name}: {runs[run.name].describe()}, and {run.describe()}")
                runs[run.name] = run
        if not runs:
            raise UsageError("the sweep has no run: everything is excluded")
        groups = dict.fromkeys(run.group for run in runs.values())
        if self.report.get("baseline", next(iter(groups))) not in groups:
            raise UsageError(f"report.baseline = {self.report['baseline']}: expected one of {', '.join(groups)}")
        return list(runs.values())


def word_of(key, value):
    """Returns what a value adds to a run's name."""
    text = value if isinstance(value, str) else key.rpartition(".")[2] + toml_text(value)
    return re.sub(r"[^A-Za-z0-9._+]+", "_", text).strip("_") or "_"


class Run:
    """One training run, a folder of the sweep's output."""

    def __init__(self, sweep, config, words, point, settings):
        self.config = config
        self.settings = settings
        self.group = "-".join(words + [word_of(key, value) for key, value in point.items() if key != SEED]) or "run"
        seed = [word_of(SEED, point[SEED])] if SEED in point else []
        self.name = "-".join([self.group] + seed)
        self.folder = sweep.output / self.name
        self.log = sweep.output / f"{self.name}.log"
        self.failure = None

    def describe(self):
        return ", ".join([str(self.config)] + [f"{key} = {toml_text(value)}" for key, value in self.settings.items()])

    def arguments(self):
        sets = itertools.chain.from_iterable(("--set", f"{key}={toml_text(value)}") for key, value in self.settings.items())
        return [str(self.config), *sets]

    def summary(self):
        """Returns the summary of a finished run; None otherwise."""
        try:
            return json.loads((self.folder / "summary.json").read_text())
        except FileNotFoundError:
            return None

    def quality(self, metric):
        """Returns the value of a metric at the end, and its name: the first one of the data set if none is asked for."""
        end = self.summary()["final"].get("test", {})
        name = metric or next((key for key in end if key not in ("step", "epoch", "loss")), "loss")
        if name not in end:
            raise UsageError(f"report.metric = {metric}: {self.name} has {', '.join(key for key in end)}")
        return name, end[name]


class Programs:
    def __init__(self, folder):
        built = ROOT / "build" / "release" / "bin"
        self.folder = pathlib.Path(folder) if folder else built if (built / "dragonn-train").exists() else None

    def path(self, name):
        return str(self.folder / name) if self.folder else name

    def output_of(self, name, arguments):
        """Returns a program's exit code, output and last line of errors."""
        try:
            done = subprocess.run([self.path(name), *arguments], capture_output=True, text=True)
        except OSError as error:
            raise UsageError(f"{self.path(name)}: {error.strerror}: build it, or say --bin DIR") from error
        return done.returncode, done.stdout, last_line(done.stderr)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"


def check_configs(runs, programs):
    """Resolves the config of every run. @throws UsageError for one that is refused, or that a run in the output differs from."""
    refused = {}
    for run in runs:
        code, text, error = programs.output_of("dragonn-train", [*run.arguments(), "--print-config"])
        if code != 0:
            refused.setdefault(error, []).append(run.name)
            continue
        earlier = run.folder / "config.toml"
        if not earlier.exists():
            continue
        try:
            wanted, found = (flatten(tomllib.loads(config)) for config in (text, earlier.read_text()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            refused.setdefault(f"its config.toml is damaged: {error}", []).append(str(run.folder))
            continue
        changed = [f"{key} = {toml_text(found[key])}, not {toml_text(wanted[key])}" for key in wanted
                   if key in found and found[key] != wanted[key] and key.partition(".")[0] not in FREE]
        if changed:
            refused.setdefault(f"an earlier run there has {'; '.join(changed)}: remove it, or take another --output",
                               []).append(str(run.folder))
    for error, names in refused.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"experiments: {names[0]}{more}: {error}", file=sys.stderr)
    if refused:
        raise UsageError(f"{sum(map(len, refused.values()))} of {len(runs)} runs are refused; none was begun")


class Stop:
    """The signal that asks the sweep to end: children get one of their own and save checkpoints."""

    def __init__(self):
        self.signal = 0
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.receive)

    def receive(self, number, _frame):
        self.signal = number


def train(runs, sweep, programs):
    """Runs what is not finished. Returns the signal that ended the sweep early, or 0."""
    stop, waiting, working = Stop(), [run for run in runs if run.summary() is None], {}
    total, forwarded = len(waiting), False
    done = len(runs) - total
    if done:
        print(f"{done} of {len(runs)} runs are finished already", file=sys.stderr)
    while working or (waiting and not stop.signal):
        while waiting and len(working) < sweep.parallel and not stop.signal:
            run = waiting.pop(0)
            command = [*sweep.launcher, programs.path("dragonn-train"), *run.arguments(), "--output", str(run.folder),
                       "--resume", "auto"]
            with open(run.log, "ab") as log:
                try:
                    # A session of its own: a terminal's Ctrl-C comes here alone, and is passed on once.
                    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT,
                                               stdin=subprocess.DEVNULL, start_new_session=True)
                except OSError as error:
                    run.failure = f"{command[0]}: {error.strerror}"
                    continue
            working[process] = (run, time.monotonic())
        if stop.signal and not forwarded:
            forwarded = True
            for process in working:
                os.killpg(process.pid, signal.SIGTERM)
        for process in [process for process in working if process.poll() is not None]:
            run, begin = working.pop(process)
            done += 1
            report_end(run, process.returncode, f"{done}/{len(runs)}", time.monotonic() - begin)
        time.sleep(POLL_SECONDS if working else 0)
    return stop.signal


def report_end(run, code, place, seconds):
    if code == 0 and run.summary() is not None:
        name, value = run.quality(None)
        print(f"{place} {run.name}: {name} {value:.4g} ({seconds:.0f} s)", file=sys.stderr)
        return
    run.failure = "stopped by a signal, with a checkpoint" if code == STOPPED_WITH_CHECKPOINT else (
        f"exit code {code}: {last_line(run.log.read_text(errors='replace'))}")
    print(f"{place} {run.name}: {run.failure}", file=sys.stderr)


def table(runs, sweep):
    """Returns a Markdown table: a row for each group of seeds."""
    groups = {}
    for run in runs:
        if run.summary() is not None:
            groups.setdefault(run.group, []).append(run)
    if not groups:
        return "No run is finished.\n"
    metric = sweep.report.get("metric")
    values = {group: [run.quality(metric)[1] for run in members] for group, members in groups.items()}
    names = sorted({run.quality(metric)[0] for members in groups.values() for run in members})
    baseline = sweep.report.get("baseline")
    if baseline not in groups:
        baseline = None  # it is not finished
    head = ["runs", f"mean {' or '.join(names)}", "range", "by seed", "bytes per worker and step", "time, s"]
    if baseline:
        head.insert(2, f"to {baseline}")
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for group, members in groups.items():
        numbers, summaries = values[group], [run.summary() for run in members]
        if any(number is None for number in numbers):
            numbers = [float("nan") if number is None else number for number in numbers]
        sent = statistics.mean(s["bytes_sent_total"] / s["world_size"] / max(s["steps"], 1) for s in summaries)
        cells = [f"`{group}`", f"{statistics.mean(numbers):.4f}", f"{min(numbers):.4f} to {max(numbers):.4f}",
                 " ".join(f"{number:.4f}" for number in numbers), f"{sent:.0f}",
                 f"{statistics.mean(s['seconds_total'] for s in summaries):.1f}"]
        if baseline:
            cells.insert(2, f"{statistics.mean(numbers) - statistics.mean(values[baseline]):+.4f}")
        lines.append("| " + " | ".join(cells) + " |")
    better = "Lower" if names[0] in LOWER_IS_BETTER else "Higher"
    return "\n".join(lines) + f"\n\n{better} is better; values are those of the end of each run.\n"


def compare(runs, sweep, programs):
    """Writes a page for each config, whose runs are of one task. Returns whether all could be written."""
    good = True
    for config in sweep.configs:
        folders = [str(run.folder) for run in runs if run.config == config and run.summary() is not None]
        if not folders:
            continue
        prefix = f"{config.stem}-" if len(sweep.configs) > 1 else ""
        file = sweep.output / f"{prefix}report.html"
        options = ["--output", str(file), "--csv", str(file.with_suffix(".csv")),
                   "--groups", str(sweep.output / f"{prefix}groups.csv")]
        for key in ("target", "target_share", "title"):
            if key in sweep.report:
                options += [f"--{key.replace('_', '-')}", str(sweep.report[key])]
        code, _, error = programs.output_of("dragonn-compare", [*folders, *options])
        if code != 0:
            print(f"experiments: dragonn-compare: {error}", file=sys.stderr)
            good = False
        else:
            print(f"wrote {file}", file=sys.stderr)
    return good


def parse_arguments():
    lines = __doc__.splitlines()
    parser = argparse.ArgumentParser(description=lines[0], epilog="\n".join(lines[2:]), allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", nargs="?", type=pathlib.Path, metavar="SWEEP.toml", help="what to run")
    parser.add_argument("--config", action="append", type=pathlib.Path, metavar="FILE", help="config to train (repeatable)")
    parser.add_argument("--output", metavar="DIR", help="folder of the runs")
    parser.add_argument("--grid", action="append", default=[], metavar="KEY=V,...", help="values of a key (repeatable)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of every run (repeatable)")
    parser.add_argument("--exclude", action="append", default=[], metavar="KEY=V,...",
                        help="leave out the runs with all of these values (repeatable)")
    parser.add_argument("--parallel", type=int, metavar="N", help="runs at a time")
    parser.add_argument("--bin", metavar="DIR", help="folder of dragonn-train (build/release/bin, or else the PATH)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--print", action="store_true", help="print the runs and their commands, and run nothing")
    action.add_argument("--table", action="store_true", help="compare what is finished, and run nothing")
    return parser.parse_args()


def main():
    options = parse_arguments()
    sweep, programs = Sweep(options), Programs(options.bin)
    runs = sweep.runs()
    if options.print:
        for run in runs:
            print(shlex.join([*sweep.launcher, programs.path("dragonn-train"), *run.arguments(), "--output",
                              str(run.folder), "--resume", "auto"]))
        return 0
    stopped = 0
    if not options.table:
        check_configs(runs, programs)
        sweep.output.mkdir(parents=True, exist_ok=True)
        lock = os.open(sweep.output, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UsageError(f"{sweep.output}: another sweep is at work there") from error
        stopped = train(runs, sweep, programs)
    missing = [run for run in runs if run.summary() is None]
    good = compare(runs, sweep, programs)
    try:
        text = table(runs, sweep)
        print(text, end="")
        if sweep.output.is_dir():
            (sweep.output / "table.md").write_text(text)
    except UsageError as error:  # a metric that the data set lacks
        print(f"experiments: {error}", file=sys.stderr)
        good = False
    for run in missing:
        print(f"experiments: {run.name}: {run.failure or 'not run yet'}", file=sys.stderr)
    if stopped:
        print(f"experiments: stopped with {len(missing)} of {len(runs)} runs left: the same command goes on", file=sys.stderr)
        return 128 + stopped
    return 0 if good and not missing else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as error:
        print(f"experiments: {error}", file=sys.stderr)
        sys.exit(2)
