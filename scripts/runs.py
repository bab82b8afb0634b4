# SPDX-License-Identifier: MIT
"""What the scripts share: options, dragonn's programs, runs and their logs, files of rows, Markdown tables."""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# The folder of the programs, unless an option says otherwise.
BIN = pathlib.Path(os.environ.get("DRAGONN_BIN", ROOT / "build" / "release" / "bin"))
CLUSTER = ROOT / "scripts" / "netns_cluster.sh"


def make_parser(text):
    """A parser whose help begins with a script's documentation."""
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)


def run_main(main, code=1, errors=RuntimeError):
    """Ends with main's exit code, or with this one and the message of an error."""
    try:
        sys.exit(main())
    except errors as error:
        print(f"{pathlib.Path(sys.argv[0]).stem}: {error}", file=sys.stderr)
        sys.exit(code)


def words(text):
    """The words of "a,b"."""
    return [word for word in text.split(",") if word]


def expect_known(parser, option, values, known):
    """Ends with the usage if one of an option's values is none of the known ones."""
    if unknown := [value for value in values if value not in known]:
        parser.error(f"--{option}: no '{unknown[0]}': expected some of {', '.join(known)}")


def obstacle(imports):
    """Why nothing can be measured on the hosts of scripts/netns_cluster.sh with these packages of Python, or None."""
    for command in ([sys.executable, "-W", "ignore", "-c", f"import {imports}"], [CLUSTER, "check"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return last_line(done.stderr)
    return None


def sets(settings):
    """The options of dragonn-train that set these keys: of "KEY=VALUE", or of a dictionary."""
    pairs = [f"{key}={value}" for key, value in settings.items()] if isinstance(settings, dict) else settings
    return [option for pair in pairs for option in ("--set", pair)]


def last_line(text):
    return text.strip().rpartition("\n")[2] or "no message"


def output_of(command, **options):
    """What a command prints. Raises RuntimeError, with the command and the end of its errors, if it fails."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode} from {' '.join(map(str, command))}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def bench_rows(command):
    """The rows that a command of dragonn-bench measures."""
    return json.loads(output_of([*command, "--json", "-"]))


def registered(train, kind):
    """The names of the components of a kind, as `dragonn-train --list` prints them."""
    lines = output_of([train, "--list"]).splitlines()
    return [line.removeprefix(f"{kind} ").partition(":")[0] for line in lines if line.startswith(f"{kind} ")]


def metrics(folder, kind=None):
    """The lines of a run's metrics.jsonl, all or those of a kind."""
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if kind in (None, line["kind"])]


def summary(folder):
    """The summary of a finished run; None otherwise."""
    file = pathlib.Path(folder) / "summary.json"
    return json.loads(file.read_text()) if file.exists() else None


class Rows(list):
    """Rows in a file, a JSON array with one row a line, which is whole at every moment. Without a path nothing is kept. Other
    processes may add rows to the same file."""

    def __init__(self, path):
        super().__init__(json.loads(path.read_text()) if path and path.exists() else [])
        self.path, self.seen = path, set(map(json.dumps, self))

    def has(self, case):
        """Whether a row has all the values of the case."""
        return any(all(row.get(key) == value for key, value in case.items()) for row in self)

    def add(self, rows):
        self += rows
        if self.path:
            self += [row for row in Rows(self.path) if json.dumps(row) not in self.seen]
            self.seen.update(map(json.dumps, self))
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_name(self.path.name + ".part")
            partial.write_text("[\n" + ",\n".join(map(json.dumps, self)) + "\n]\n")
            os.replace(partial, self.path)


class Lines:
    """The JSON lines of a file that other processes write. Those of `lines` have been read; broken ones, of which a killed process
    may leave a part, are an error unless they are skipped."""

    def __init__(self, path, skips_broken=False):
        self.path, self.skipped, self.end, self.lines = path, [json.JSONDecodeError] if skips_broken else [], 0, []

    def new(self):
        """Reads the whole lines since the last call, and returns them."""
        if not self.path.exists():
            return []
        with self.path.open() as file:
            file.seek(self.end)
            text = file.read()
        whole = text[:text.rfind("\n") + 1]
        self.end += len(whole)
        new = []
        for line in whole.splitlines():
            with contextlib.suppress(*self.skipped):
                new.append(json.loads(line))
        self.lines += new
        return new


def measure_missing(name, cases, rows, make, measure):
    """Adds the rows of the cases that have none: what `measure` returns of what `make` makes of a case and a folder, which is
    closed then. Returns how many failed; `name` is the script's, for their errors."""
    failed = 0
    for case in (case for case in cases if not rows.has(case)):
        with tempfile.TemporaryDirectory() as folder:
            made = make(case, pathlib.Path(folder))
            try:
                rows.add([case | measure(made, case)])
            except (RuntimeError, OSError) as error:
                failed += 1
                print(f"{name}: {case}: {error}", file=sys.stderr)
            finally:
                made.close()
    return failed


def table_line(cells):
    return "| " + " | ".join(map(str, cells)) + " |"


def table_head(names):
    return table_line(names) + "\n" + "|---" * len(names) + "|"


def table(names, rows):
    """A table in Markdown, without a line end behind the last line."""
    return "\n".join([table_head(names), *map(table_line, rows)])


def cifar10_part(output):
    """Fills OUTPUT/data with the first 10,000 training images of CIFAR-10 and all test images, from the official binary files in
    DRAGONN_DATA/cifar10, or JPEG files that unpack_full.py there unpacks. Returns the folder."""
    if not os.environ.get("DRAGONN_DATA"):
        raise RuntimeError("set DRAGONN_DATA to the folder with cifar10/")
    source, data, full = pathlib.Path(os.environ["DRAGONN_DATA"]) / "cifar10", output / "data", output / "data.full"
    if (data / "test_batch.bin").exists():
        return data
    data.mkdir(parents=True, exist_ok=True)
    if (source / "unpack_full.py").exists():
        # The distribution's python3, which has Pillow and NumPy as packages (python3-pil, python3-numpy).
        output_of(["/usr/bin/python3", source / "unpack_full.py", full])
        source = full
    for name in ("data_batch_1.bin", "test_batch.bin"):
        if not (source / name).exists():
            raise RuntimeError(f"{source} has no {name}")
        shutil.copyfile(source / name, data / name)
    shutil.rmtree(full, ignore_errors=True)
    return data
