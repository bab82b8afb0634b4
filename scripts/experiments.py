#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains one config, or several, with all combinations of the values of some keys, and compares the runs.

Usage:
  scripts/experiments.py SWEEP.toml [OPTION...]
  scripts/experiments.py --config CONFIG.toml --grid KEY=VALUE,... [--grid ...] --output DIR [OPTION...]

Every run is a folder in DIR, named by what distinguishes it (topk-density0.01-seed1); beside it NAME.log has what the run
printed. A run that is finished is not repeated, one that was interrupted goes on from its last checkpoint, and a run that
failed is tried again: the same command continues a sweep, also one with further values. Several sweeps may share DIR. All
configs are checked before the first run begins. In the end DIR has table.md (printed, too) with a row for each group of runs
that differ in `seed` only, and for each config report.html, report.csv, report.svg and groups.csv of dragonn-compare.
Exit codes: 0 all runs are done; 1 some are not, and the end says why; 2 wrong usage, sweep or config, nothing was run;
130 or 143 stopped by SIGINT or SIGTERM, after the runs that were at work have saved checkpoints.

SWEEP.toml (paths of configs are relative to it, all others to the working directory):
  config = "../configs/cifar10_resnet20.toml"    # or a list; * and ? stand for parts of names
  output = "runs/sweep"
  parallel = 2                                   # runs at a time (1)
  launcher = ["mpirun", "-np", "4"]              # stands before dragonn-train (none: local workers)
  retry = false                                  # a run that ended with an error is over (true: it is tried again)
  bare = ["compression.density"]                 # keys that name a run by their value alone: topk-0.01
  prepare = "cifar10"                            # DIR/data gets 10,000 training and all test images of DRAGONN_DATA/cifar10
  [data]                                         # data.path by the name of a config's data set
  wikitext2 = "$DRAGONN_DATA/text/wikitext-2"
  [set]                                          # keys of every run
  train.epochs = 10
  plugins = ["build/mine.so"]                    # components of your own, if the config does not name them
  [grid]                                         # lists of values; the last key varies fastest
  compression.method = ["topk", "gtopk"]         # "@sparsifier": all that `dragonn-train --list` names so
  compression.density = [0.01, 0.001]
  seed = [1, 2, 3]
  [[exclude]]                                    # leaves out the runs with all of these values
  compression = { method = "gtopk", density = 0.001 }
  [[variant]]                                    # with variants, the grid is run for each of them
  name = "dense"                                 # begins the names of its runs
  set.compression.method = "dense"
  grid.compression = { method = [], density = [] }  # replaces lists of the grid; an empty one takes the key out
  when.optimizer.name = ["sgd"]                  # only of configs with one of these values; several variants may share a name
  near = 2                                       # points that its quality may lack to be near the baseline's
  [equal_bytes]                                  # also runs each method at the density at which it sends as many bytes as
  method = "topk"                                # this one, by --dry-run, if it is off by 10 %: gtopk-bytes-of-topk-0.01
  warm_up = [0.25, 0.0625]                       # densities of the first epochs, which are scaled likewise
  [report]
  metric = "accuracy"                            # of the table (the first one of the data set)
  baseline = "dense"                             # run or group (of the same config) with which the table compares (none)
  near_share = 0.05                              # near for perplexities: a share of the baseline's
  least = 65                                     # what the baseline must reach with --check
  columns = ["selected_over_k", "select_share"]  # of report.csv, means over the seeds, or keys, behind the table's own
  prefix = "methods-"                            # of the names of table.md and report.html
  pivot = true                                   # a row for each config and a column for each variant instead
  page_by = "compression.density"                # a page for each value of this key; runs without it are on all
  target = 0.65                                  # or target_share, and title: options of dragonn-compare
"""
import csv
import fcntl
import fnmatch
import functools
import glob
import itertools
import json
import math
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

from runs import BIN, cifar10_part, last_line, make_parser, registered, run_main, sets, summary, table

POLL_SECONDS = 0.1
EQUAL_BYTES = 0.10  # below this difference two methods send as many
ROUNDING = 1e-9  # of differences of qualities: what is worse by the limit itself is near
STOPPED_WITH_CHECKPOINT = 75
LOWER_IS_BETTER = ("loss", "perplexity", "character_error_rate", "word_error_rate")
NO_SHARES = ("loss", "perplexity")  # all other metrics are shown in percent
# Keys that change no result: a finished run may have other ones.
FREE = ("logging", "checkpoint", "plugins", "data.path")
SEED, METHOD, DENSITY = "seed", "compression.method", "compression.density"
# Columns of dragonn-compare's table of runs: heading, format.
COLUMNS = {
    "selected_over_k": ("selected / k", "{:.3f}"),
    "select_seconds": ("compensate and select, s", "{:.1f}"),
    "select_share": ("of a step", "{:.1%}"),
    "bits_per_entry": ("bits/entry", "{:.1f}"),
    "bytes_to_target": ("bytes to the target", "{:.4g}"),
    "seconds_to_target": ("seconds to the target", "{:.0f}"),
    "time_to_target_speedup_over_dense": ("dense's time over it", "{:.2f}"),
    "target": ("target", "{:.4g}"),
}


class UsageError(RuntimeError):
    """The sweep cannot be run as it is described. Nothing was run."""


def flatten(nested, prefix=""):
    """Returns {"a.b": value} of nested TOML tables."""
    flat = {}
    for key, value in nested.items():
        flat.update(flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value})
    return flat


toml_text = json.dumps  # JSON's strings, numbers, booleans and lists are TOML's


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
    key, _, value = text.partition("=")
    if not key or not value:
        raise UsageError(f"{option} {text}: expected KEY=VALUE, for instance train.epochs=5")
    return key, parse(value)


@functools.cache
@functools.cache
def keys_of(config):
    """Returns the keys of a config; none if it cannot be read, which dragonn-train will say."""
    try:
        return flatten(tomllib.loads(config.read_text()))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError):
        return {}


def words_of(configs):
    """Returns what distinguishes configs: their paths without the folders and the last word that all have."""
    if len(configs) == 1:
        return {configs[0]: []}
    paths = [list(config.with_suffix("").parts) for config in configs]
    while min(map(len, paths)) > 1 and len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    names = ["-".join(path) for path in paths]
    endings = {name.rpartition("_")[2] for name in names}
    if len(endings) == 1 and all("_" in name for name in names):
        names = [name.rpartition("_")[0] for name in names]
    return {config: [name] for config, name in zip(configs, names)}


class Sweep:
    """What the TOML file and the command line ask for."""

    KEYS = {"config": (str, list), "output": str, "parallel": int, "launcher": list, "retry": bool, "bare": list, "prepare": str,
            "data": dict, "set": dict, "grid": dict, "exclude": list, "variant": list, "equal_bytes": dict, "report": dict}
    VARIANT_KEYS = {"name": str, "set": dict, "grid": dict, "when": dict, "near": (int, float)}
    EQUAL_KEYS = {"method": str, "warm_up": list}
    REPORT_KEYS = {"metric": str, "baseline": str, "target": (int, float), "target_share": (int, float), "title": str,
                   "near_share": float, "least": (int, float), "columns": list, "prefix": str, "pivot": bool, "page_by": str}

    def __init__(self, options):
        self.bin = options.bin or (BIN if (BIN / "dragonn-train").exists() else None)
        nested = self.read(options.sweep) if options.sweep else {}
        configs = nested.get("config", [])
        self.configs = options.config or [found for file in ([configs] if isinstance(configs, str) else configs)
                                          for found in self.files(options.sweep.parent / file)]
        if not self.configs:
            raise UsageError("no config: expected --config CONFIG.toml, or config = \"...\" in a sweep's file")
        if not (output := options.output or nested.get("output")):
            raise UsageError("no output: expected --output DIR, or output = \"...\" in the sweep's file")
        self.output = pathlib.Path(output)
        self.parallel = options.parallel or nested.get("parallel", 1)
        if self.parallel < 1:
            raise UsageError(f"parallel = {self.parallel}: expected at least 1")
        self.launcher, self.retry = nested.get("launcher", []), nested.get("retry", True)
        self.bare, self.prepare, self.data = nested.get("bare", []), nested.get("prepare"), nested.get("data", {})
        self.settings = flatten(nested.get("set", {}))
        self.settings.update(assignment(text, "--set", parsed) for text in options.set)
        self.grid = flatten(nested.get("grid", {}))
        self.grid.update(assignment(text, "--grid", parsed_list) for text in options.grid)
        self.excluded = [flatten(entry) for entry in nested.get("exclude", [])]
        self.excluded += [dict(assignment(part, "--exclude", parsed) for part in text.split(",")) for text in options.exclude]
        self.variants = nested.get("variant", [{}])
        self.equal_bytes = nested.get("equal_bytes", {})
        self.report, self.only = nested.get("report", {}), options.only
        self.prefix = self.report.get("prefix", "")
        self.check(options.sweep)

    @staticmethod
    def files(path):
        found = sorted(glob.glob(str(path))) if glob.has_magic(str(path)) else [path]
        return [pathlib.Path(os.path.normpath(file)) for file in found]

    def program(self, name):
        return str(self.bin / name) if self.bin else name

    def output_of(self, name, arguments):
        """Returns a program's exit code, output and last line of errors."""
        try:
            done = subprocess.run([self.program(name), *arguments], capture_output=True, text=True)
        except OSError as error:
            raise UsageError(f"{self.program(name)}: {error.strerror}: build it, or say --bin DIR") from error
        return done.returncode, done.stdout, last_line(done.stderr)

    def read(self, file):
        try:
            nested = tomllib.loads(file.read_text())
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{file}: {getattr(error, 'strerror', error)}") from error
        self.check_keys(nested, self.KEYS, str(file))
        for variant in nested.get("variant", []):
            self.check_keys(variant, self.VARIANT_KEYS, f"{file}: [[variant]]")
        self.check_keys(nested.get("equal_bytes", {}), self.EQUAL_KEYS, f"{file}: [equal_bytes]")
        self.check_keys(nested.get("report", {}), self.REPORT_KEYS, f"{file}: [report]")
        return nested

    @staticmethod
    def check_keys(nested, types, where):
        if not isinstance(nested, dict):
            raise UsageError(f"{where}: expected a table")
        for key, value in nested.items():
            if key not in types:
                raise UsageError(f"{where}: unknown key '{key}'; valid: {', '.join(types)}")
            expected = types[key] if isinstance(types[key], tuple) else (types[key],)
            if type(value) not in expected:
                raise UsageError(f"{where}: {key}: expected {' or '.join(kind.__name__ for kind in expected)}")

    def check(self, file):
        grids = [self.grid] + [flatten(variant.get("grid", {})) for variant in self.variants]
        conditions = [flatten(variant.get("when", {})) for variant in self.variants]
        for where, tables in (("grid", grids), ("when", conditions)):
            for key, values in itertools.chain.from_iterable(entries.items() for entries in tables):
                if not isinstance(values, list):
                    raise UsageError(f"{file}: {where}.{key} = {toml_text(values)}: expected a list of values")
        known = set(itertools.chain(self.settings, *grids, *(flatten(v.get("set", {})) for v in self.variants)))
        for entry in self.excluded:
            for key in set(entry) - known:
                raise UsageError(f"exclude: {key} is no key of the sweep: expected {', '.join(sorted(known))}")
        for name in self.report.get("columns", []):
            if name not in COLUMNS and name not in known:
                raise UsageError(f"{file}: report.columns: no '{name}': expected keys of the sweep, or {', '.join(COLUMNS)}")
        if self.prepare not in (None, "cifar10"):
            raise UsageError(f"{file}: prepare = {toml_text(self.prepare)}: expected \"cifar10\"")

    def data_path(self, config):
        """Returns {"data.path": folder} of the config's data set, if the sweep names one."""
        name = keys_of(config).get("data.name")
        if self.prepare and name == self.prepare:
            return {"data.path": str(self.output / "data")}
        path = os.path.expandvars(self.data.get(name, ""))
        if "$" in path:
            raise UsageError(f"{path}: set {path[path.index('$') + 1:].partition('/')[0]} to the folder of the data sets")
        return {"data.path": path} if path else {}

    def values_of(self, values):
        for value in values:
            is_kind = isinstance(value, str) and value.startswith("@")
            yield from registered(self.program("dragonn-train"), value[1:]) if is_kind else [value]

    def runs(self):
        """Returns the wanted runs, in the order of the grid. @throws UsageError if two have one name."""
        runs, names = {}, words_of(self.configs)
        for config, variant in itertools.product(self.configs, self.variants):
            keys = keys_of(config)
            if any(keys.get(key) not in values for key, values in flatten(variant.get("when", {})).items()):
                continue
            grid = {**self.grid, **flatten(variant.get("grid", {}))}
            axes = {key: list(self.values_of(values)) for key, values in grid.items() if values}
            fixed = {**self.data_path(config), **self.settings, **flatten(variant.get("set", {}))}
            for values in itertools.product(*axes.values()):
                point = dict(zip(axes, values))
                settings = {**fixed, **point}
                if any(all(settings.get(key) == value for key, value in entry.items()) for entry in self.excluded):
                    continue
                run = Run(self, config, names[config], variant, point, settings)
                for found in (run, *self.at_equal_bytes(run)):
                    other = runs.setdefault(found.name, found)
                    if other is not found:
                        raise UsageError(f"two runs have the name {found.name}: {other.describe()}, and {found.describe()}")
        if not runs:
            raise UsageError("the sweep has no run: everything is excluded")
        groups = dict.fromkeys(run.group for run in runs.values())
        if "baseline" in self.report and not any(run.is_baseline() for run in runs.values()):
            raise UsageError(f"report.baseline = {self.report['baseline']}: expected one of {', '.join(groups)}")
        if not (wanted := [run for run in runs.values() if self.wants(run.name)]):
            raise UsageError(f"--only {' '.join(self.only)}: no such run: expected patterns of {', '.join(runs)}")
        return wanted

    def wants(self, name):
        return not self.only or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.only)

    def at_equal_bytes(self, run):
        """Yields the run at the density at which its method sends as many bytes as the sweep's, where that is another one."""
        method, density = (run.point.get(key) for key in (METHOD, DENSITY))
        wanted = self.equal_bytes.get("method", method)
        if wanted == method or density is None:
            return
        point = {key: value for key, value in run.point.items() if key != METHOD}
        result = Run(self, run.config, [], {"name": f"{method}-bytes-of-{wanted}"}, point, dict(run.settings))
        equal = self.wants(result.name) and self.equal_density(run.config, tuple(run.settings.items()), method, wanted, density)
        if not equal:
            return
        result.settings[DENSITY] = equal
        if warm_up := [min(1.0, float(f"{at * equal / density:.6g}")) for at in self.equal_bytes.get("warm_up", []) if at > density]:
            result.settings |= {"compression.density_schedule": "list", "compression.list.densities": warm_up}
        yield result

    @functools.cache
    def predicted_bytes(self, config, settings, method, density):
        """Returns what a worker sends in a step behind the warm-up, by --dry-run."""
        changed = {**dict(settings), METHOD: method, DENSITY: density, "compression.density_schedule": "constant"}
        code, text, error = self.output_of("dragonn-train", [*arguments_of(config, changed), "--dry-run"])
        found = re.search(r" sent per worker and step \((\d+) bytes", text)
        if code != 0 or not found:
            raise UsageError(f"{config}: --dry-run: {error}")
        return int(found.group(1))

    def equal_density(self, config, settings, method, wanted, density):
        """Returns the density, found by bisection in logarithms; None where they differ little at this one."""
        settings = tuple((key, value) for key, value in settings if key != SEED and not isinstance(value, list))
        goal = self.predicted_bytes(config, settings, wanted, density)
        if abs(self.predicted_bytes(config, settings, method, density) / goal - 1) < EQUAL_BYTES:
            return None
        low, high = density / 100, 1.0
        for _ in range(14):
            middle = float(f"{math.sqrt(low * high):.6g}")
            if self.predicted_bytes(config, settings, method, middle) > goal:
                high = middle
            else:
                low = middle
        return float(f"{low:.4g}")


def arguments_of(config, settings):
    return [str(config), *sets({key: toml_text(value) for key, value in settings.items()})]


class Run:
    """One training run, a folder of the sweep's output."""

    def __init__(self, sweep, config, words, variant, point, settings):
        self.sweep, self.config, self.variant, self.point, self.settings = sweep, config, variant, point, settings
        self.config_words = words
        words = [*words, *filter(None, [variant.get("name")]), *(self.word(key) for key in point if key != SEED)]
        self.group = "-".join(words) or "run"
        self.name = "-".join([self.group] + ([self.word(SEED)] if SEED in point else []))
        self.folder, self.log = sweep.output / self.name, sweep.output / f"{self.name}.log"
        self.failure = self.recorded = None

    def word(self, key):
        value = self.point[key]
        text = value if isinstance(value, str) else toml_text(value)
        if not isinstance(value, str) and key not in self.sweep.bare:
            text = key.rpartition(".")[2] + text
        return re.sub(r"[^A-Za-z0-9._+]+", "_", text).strip("_") or "_"

    def is_baseline(self):
        baseline = self.sweep.report.get("baseline")
        return self.group in (baseline, "-".join([*self.config_words, str(baseline)]))

    def describe(self):
        return ", ".join([str(self.config)] + [f"{key} = {toml_text(value)}" for key, value in self.settings.items()])

    def command(self):
        return [*self.sweep.launcher, self.sweep.program("dragonn-train"), *arguments_of(self.config, self.settings),
                "--output", str(self.folder), "--resume", "auto"]

    def summary(self):
        return summary(self.folder)

    def is_finished(self):
        return bool(self.recorded or self.summary())

    def error(self):
        """Returns the error that ended the run: then it is the last line of its log."""
        log = self.folder / "log.txt"
        found = log.exists() and re.match(r"\S* error ([^;]*)", last_line(log.read_text(errors="replace")))
        return found.group(1) if found else None

    def is_over(self):
        return self.is_finished() or (not self.sweep.retry and self.error() is not None)

    def state(self):
        error = self.error()
        return f"stopped: {error}" if error else "not run yet"

    def quality(self, metric):
        """Returns the name and the value of a metric at the end: the first one of the data set if none is asked for."""
        if self.recorded:
            return metric or self.recorded["metric"], self.recorded["value"]
        end = self.summary()["final"].get("test", {})
        name = metric or next((key for key in end if key not in ("step", "epoch", "loss")), "loss")
        if name not in end:
            raise UsageError(f"report.metric = {metric}: {self.name} has {', '.join(key for key in end)}")
        value = float("nan") if end[name] is None else end[name]
        return name, value if name in NO_SHARES else 100 * value

    def bytes_per_step(self):
        end = self.recorded or self.summary()
        return end["bytes_per_step"] if self.recorded else end["bytes_sent_total"] / end["world_size"] / max(end["steps"], 1)


class Rows:
    """A CSV file of finished runs with the same settings, which need no folder any more: task,run,seed,METRIC,bytes_per_step."""

    def __init__(self, path, runs):
        self.path, self.metric = path, None
        self.task = keys_of(runs[0].config).get("model.name", runs[0].config.stem)
        if not path or not path.exists():
            return
        reader = csv.DictReader(path.read_text().splitlines())
        columns = list(reader.fieldnames or [])
        if len(columns) != 5 or columns[:3] + columns[4:] != ["task", "run", "seed", "bytes_per_step"]:
            raise UsageError(f"{path}: columns {','.join(columns) or 'none'}: expected task,run,seed,METRIC,bytes_per_step")
        self.metric = columns[3]
        known = {(row["task"], row["run"], row["seed"]): row for row in reader}
        for run in runs:
            if row := known.get(self.key(run)):
                run.recorded = {"metric": self.metric, "value": float(row[self.metric]),
                                "bytes_per_step": float(row["bytes_per_step"])}

    def key(self, run):
        return self.task, run.group, str(run.settings.get(SEED, keys_of(run.config).get(SEED, "")))

    def add(self, runs):
        """Writes the runs that were finished since."""
        new = [run for run in runs if not run.recorded and run.summary()] if self.path else []
        if not new:
            return
        with open(self.path, "a", encoding="utf-8") as file:
            if file.tell() == 0:
                file.write(f"task,run,seed,{new[0].quality(None)[0]},bytes_per_step\n")
            for run in new:
                file.write(f"{','.join(self.key(run))},{run.quality(self.metric)[1]:.2f},{run.bytes_per_step():.0f}\n")


def refusal(run, sweep):
    """Returns why a run cannot begin, behind its name or folder: its config is refused, or a run in the output differs from it."""
    code, text, error = sweep.output_of("dragonn-train", [*arguments_of(run.config, run.settings), "--print-config"])
    earlier = run.folder / "config.toml"
    if code != 0 or not earlier.exists():
        return run.name, error if code != 0 else None
    try:
        wanted, found = (flatten(tomllib.loads(config)) for config in (text, earlier.read_text()))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        return str(run.folder), f"its config.toml is damaged: {error}"
    changed = [f"{key} = {toml_text(found[key])}, not {toml_text(value)}" for key, value in wanted.items()
               if found.get(key, value) != value and not {key, key.partition(".")[0]} & set(FREE)]
    return str(run.folder), changed and f"an earlier run there has {'; '.join(changed)}: remove it, or take another --output"


def check_configs(runs, sweep):
    """@throws UsageError if a run cannot begin."""
    refused = {}
    for name, error in (refusal(run, sweep) for run in runs):
        if error:
            refused.setdefault(error, []).append(name)
    for error, (first, *others) in refused.items():
        print(f"experiments: {first}{f' and {len(others)} more' if others else ''}: {error}", file=sys.stderr)
    if refused:
        raise UsageError(f"{sum(map(len, refused.values()))} of {len(runs)} runs are refused; none was begun")


def begin(run):
    """Starts a run, with its log as a lock that lasts as long as the run. Returns None if that is not possible."""
    with open(run.log, "ab") as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A session of its own: a terminal's Ctrl-C comes here alone, and is passed on once.
            return None if run.is_over() else subprocess.Popen(run.command(), stdout=log, stderr=subprocess.STDOUT,
                                                               stdin=subprocess.DEVNULL, start_new_session=True)
        except BlockingIOError:
            run.failure = "another sweep is at it"
        except OSError as error:
            run.failure = f"{run.command()[0]}: {error.strerror}"
    return None


def train(runs, parallel):
    """Runs what is not over. Returns the signal that ended the sweep early, or 0."""
    stops, waiting, working = [], [run for run in runs if not run.is_over()], {}
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: stops.append(number))
    done, forwarded = len(runs) - len(waiting), False
    if done:
        print(f"{done} of {len(runs)} runs are finished already", file=sys.stderr)
    while working or (waiting and not stops):
        while waiting and len(working) < parallel and not stops:
            run = waiting.pop(0)
            if process := begin(run):
                working[process] = (run, time.monotonic())
        for process in working if stops and not forwarded else []:  # children save checkpoints
            os.killpg(process.pid, signal.SIGTERM)
        forwarded = bool(stops)
        for process in [process for process in working if process.poll() is not None]:
            run, start = working.pop(process)
            done += 1
            report_end(run, process.returncode, f"{done}/{len(runs)}", time.monotonic() - start)
        time.sleep(POLL_SECONDS if working else 0)
    return stops[-1] if stops else 0


def report_end(run, code, place, seconds):
    if code == 0 and run.summary() is not None:
        name, value = run.quality(None)
        print(f"{place} {run.name}: {name} {value:.4g} ({seconds:.0f} s)", file=sys.stderr)
        return
    run.failure = "stopped by a signal, with a checkpoint" if code == STOPPED_WITH_CHECKPOINT else (
        f"exit code {code}: {last_line(run.log.read_text(errors='replace'))}")
    print(f"{place} {run.name}: {run.failure}", file=sys.stderr)


class Group:
    """Runs that differ in their seed only: a row of the table."""

    def __init__(self, members):
        self.first, self.members = members[0], members
        self.finished = [run for run in members if run.is_finished()]
        qualities = [run.quality(self.first.sweep.report.get("metric")) for run in self.finished]
        self.metric = qualities[0][0] if qualities else None
        self.values = [value for _, value in qualities]
        self.mean = statistics.mean(self.values) if self.values else None
        self.baseline = None  # another group, if the table compares with one

    def bytes_per_step(self):
        return statistics.mean(run.bytes_per_step() for run in self.finished)

    def text(self, value, sign=""):
        return f"{value:{sign}.{4 if self.metric == 'loss' else 2}f}"

    def by_seed(self):
        values = iter(self.values)
        return " ".join(self.text(next(values)) if run.is_finished() else re.split(":| yet", run.state())[0] for run in self.members)

    def verdict(self):
        """Returns whether the group is near its baseline: "yes", or how much worse it is."""
        if self.mean is None or self.baseline is None or self.baseline.mean is None:
            return "unknown"
        lower, report = self.metric in LOWER_IS_BETTER, self.first.sweep.report
        worse = (self.mean - self.baseline.mean) * (1 if lower else -1)
        limit = report.get("near_share", 0) * self.baseline.mean if self.metric in NO_SHARES else self.first.variant["near"]
        return f"{worse:.2f} worse" if worse > limit + ROUNDING else "yes"

    def mean_of(self, column, pages):
        """Returns the mean of a column of dragonn-compare's table over the seeds; None if a seed has none."""
        values = [next((value for key, value in pages.get(run.name, {}).items()
                        if key == column or (column == "target" and key.startswith("target_"))), "") for run in self.members]
        return statistics.mean(map(float, values)) if all(values) else None


def groups_of(runs):
    groups = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    groups = [Group(members) for members in groups.values()]
    for group in groups:
        bases = [base for base in groups if base.first.is_baseline() and base.mean is not None]
        group.baseline = next((base for base in bases if base.first.config == group.first.config), bases[0] if bases else None)
    return groups


def rows_text(groups, report, pages):
    if not (names := sorted({group.metric for group in groups if group.metric})):
        return "No run is finished.\n"
    shares = ", %" if not set(names) & set(NO_SHARES) else ""
    compares = any(group.baseline for group in groups)
    is_judged = any("near" in group.first.variant for group in groups)
    head = ["runs", f"mean {' or '.join(names)}{shares}", *([f"to {report['baseline']}"] if compares else []), "range", "by seed",
            "bytes per worker and step", "time, s", *(COLUMNS.get(name, [name])[0] for name in report.get("columns", [])),
            *(["near"] if is_judged else [])]

    def cells(group):
        yield f"`{group.first.group}`"
        if group.mean is None:
            yield from [group.members[0].state(), *[""] * (len(head) - 2)]
            return
        yield group.text(group.mean)
        if compares:
            yield group.text(group.mean - group.baseline.mean, "+") if group.metric == group.baseline.metric else ""
        seconds = [run.summary()["seconds_total"] for run in group.finished if run.summary()]
        yield from [f"{group.text(min(group.values))} to {group.text(max(group.values))}", group.by_seed(),
                    f"{group.bytes_per_step():.0f}",
                    f"{statistics.mean(seconds):.1f}" if seconds else ""]
        for name in report.get("columns", []):
            if name not in COLUMNS:
                yield group.first.settings.get(name, "-")
                continue
            value, base = (found and found.mean_of(name, pages) for found in (group, group.baseline))
            share = f" ({value / base:.2f})" if name == "bytes_to_target" and value and base else ""
            yield "-" if value is None else COLUMNS[name][1].format(value) + share
        if is_judged:
            yield group.verdict() if "near" in group.first.variant else ""

    lower = [name for name in names if name in LOWER_IS_BETTER]
    better = "Lower is better" if lower == names else "Higher is better" + (f", but for {' and '.join(lower)}" if lower else "")
    return table(head, map(cells, groups)) + f"\n\n{better}; values are those of the end of each run.\n"


def pivot_text(groups):
    """Returns a Markdown table: a row for each config, a column for each variant, with the bytes of a worker and step."""
    variants, by_config = list(dict.fromkeys(group.first.variant["name"] for group in groups)), {}
    for group in groups:
        by_config.setdefault(group.first.config, {})[group.first.variant["name"]] = group

    def cells(found):
        first = next(iter(found.values()))
        verdicts = [(name, group.verdict()) for name, group in found.items() if "near" in group.first.variant]
        bad = [f"unknown at {name}" if text == "unknown" else f"not at {name}: {text}" for name, text in verdicts if text != "yes"]
        yield f"`{' '.join(first.first.config_words) or first.first.config.stem}`"
        yield f"`{keys_of(first.first.config).get(METHOD, '')}`"
        yield next((group.metric for group in found.values() if group.metric), "-")
        for name in variants:
            group = found.get(name)
            yield "" if group is None else group.members[0].state() if group.mean is None else (
                f"{group.text(group.mean)}, {group.bytes_per_step() / 1e3:.0f} kB")
        yield "; ".join(bad) or "yes"

    return table(["config", "method", "quality", *variants, "near"], map(cells, by_config.values())) + "\n"


def failed_checks(groups, report):
    return [f"{group.first.group} is not near {report['baseline']}: {group.verdict()}" for group in groups
            if "near" in group.first.variant and group.verdict() != "yes"] + [
                f"{group.first.group} does not reach {report['least']}" for group in groups
                if group.first.is_baseline() and not (group.mean or 0) >= report.get("least", 0)]


def compare(runs, sweep):
    """Writes the pages: of each config, whose runs are of one task, and of each value of report.page_by.

    Returns whether all could be written, and their tables of runs by name.
    """
    good, found, key = True, {}, sweep.report.get("page_by")
    values = list(dict.fromkeys(run.settings[key] for run in runs if key in run.settings)) if key else []
    for config, value in itertools.product(sweep.configs, values or [None]):
        chosen = [run for run in runs if run.config == config and run.settings.get(key, value) == value]
        if not (folders := [str(run.folder) for run in chosen if run.summary()]):
            continue
        words = [*chosen[0].config_words, *([toml_text(value)] if values else [])]
        file = sweep.output / "".join([sweep.prefix, *(f"{word}-" for word in words), "report.html"])
        options = {"output": file, "groups": file.with_name(file.name.removesuffix("report.html") + "groups.csv"),
                   "csv": file.with_suffix(".csv"), "svg": file.with_suffix(".svg")}
        options |= {name: sweep.report[name] for name in ("target", "target_share", "title") if name in sweep.report}
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        code, _, error = sweep.output_of("dragonn-compare", [*folders, *words])
        if code != 0:
            print(f"experiments: dragonn-compare: {error}", file=sys.stderr)
            good = False
            continue
        print(f"wrote {file}", file=sys.stderr)
        found.update({row["run"]: row for row in csv.DictReader(file.with_suffix(".csv").read_text().splitlines())})
    return good, found


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("sweep", nargs="?", type=pathlib.Path, metavar="SWEEP.toml", help="what to run")
    parser.add_argument("--config", action="append", type=pathlib.Path, metavar="FILE", help="config to train (repeatable)")
    parser.add_argument("--output", metavar="DIR", help="folder of the runs")
    for name, metavar, text in (("grid", "KEY=V,...", "values of a key"), ("set", "KEY=VALUE", "a key of every run"),
                                ("exclude", "KEY=V,...", "leave out the runs with all of these values"),
                                ("only", "PATTERN", "of all runs those with such names, for instance 'topk-*'")):
        parser.add_argument(f"--{name}", action="append", default=[], metavar=metavar, help=f"{text} (repeatable)")
    parser.add_argument("--parallel", type=int, metavar="N", help="runs at a time")
    parser.add_argument("--rows", type=pathlib.Path, metavar="FILE.csv",
                        help="finished runs that are not repeated; new ones are added (task,run,seed,METRIC,bytes_per_step)")
    parser.add_argument("--bin", type=pathlib.Path, metavar="DIR", help="folder of dragonn-train (build/release/bin, or else the PATH)")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--print", action="store_true", help="print the commands of the runs that are left, and run nothing")
    action.add_argument("--table", action="store_true", help="compare what is finished, and run nothing")
    action.add_argument("--check", action="store_true", help="also fail if a group is not near, or the baseline below `least`")
    return parser.parse_args()


def write_tables(runs, sweep, check):
    """Returns whether all could be written, and nothing fails the check."""
    good, pages = compare(runs, sweep)
    try:
        groups = groups_of(runs)
        text = pivot_text(groups) if sweep.report.get("pivot") else rows_text(groups, sweep.report, pages)
        failures = failed_checks(groups, sweep.report) if check else []
        print(text, end="")
        if sweep.output.is_dir():
            (sweep.output / f"{sweep.prefix}table.md").write_text(text)
    except UsageError as error:  # a metric that the data set lacks
        failures = [error]
    for failure in failures:
        print(f"experiments: {failure}", file=sys.stderr)
    return good and not failures


def main():
    options = parse_arguments()
    sweep = Sweep(options)
    runs = sweep.runs()
    rows, stopped = Rows(options.rows, runs), 0
    if not options.table:
        if sweep.prepare:
            cifar10_part(sweep.output)
        if options.print:
            print("".join(f"{shlex.join(run.command())}\n" for run in runs if not run.is_over()), end="")
            return 0
        check_configs([run for run in runs if not run.recorded], sweep)
        sweep.output.mkdir(parents=True, exist_ok=True)
        stopped = train(runs, sweep.parallel)
    rows.add(runs)
    missing = [run for run in runs if not run.is_finished()]
    good = write_tables(runs, sweep, options.check)
    for run in missing:
        print(f"experiments: {run.name}: {run.failure or run.state()}", file=sys.stderr)
    if stopped:
        print(f"experiments: stopped with {len(missing)} of {len(runs)} runs left: the same command goes on", file=sys.stderr)
        return 128 + stopped
    return 0 if good and not missing else 1


if __name__ == "__main__":
    run_main(main, 2)
