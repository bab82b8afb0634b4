# SPDX-License-Identifier: MIT
"""What the scripts *_side_by_side.py share: options, runs of dragonn-bench, and processes that hold a peer."""
import argparse
import importlib
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = os.path.basename(sys.argv[0])
WORKER = "--worker"


# Options


def words(text):
    return text.split(",")


def make_parser(text):
    """A parser of options with --bin, for finish_parse."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build" / "release" / "bin", help="dragonn's programs")
    return parser


def finish_parse(parser, numbers=(), **choices):
    """The options: those in `numbers` are lists of numbers above 0, those in `choices` are lists of the words in their values.
    `bench` is the path of dragonn-bench."""
    options = parser.parse_args()
    for name, valid in choices.items():
        for value in getattr(options, name):
            if value not in valid:
                parser.error(f"--{name} {value}: valid are {', '.join(valid)}")
    for name in numbers:
        values = words(getattr(options, name))
        if not all(value.isdigit() and int(value) > 0 for value in values):
            parser.error(f"--{name} {','.join(values)}: expected numbers above 0, such as 1,2")
        setattr(options, name, [int(value) for value in values])
    if options.rounds < 1:
        parser.error("--rounds: expected 1 or more")
    options.bench = options.bin / "dragonn-bench"
    if not options.bench.exists():
        parser.error(f"{options.bench} is missing: run scripts/test.sh, or name another folder by --bin")
    return options


# dragonn


def bench_rows(options, *arguments):
    """The rows that dragonn-bench writes when it is called with these arguments."""
    command = [options.bench, *map(str, arguments), "--json", "-"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise SystemExit(f"{SCRIPT}: dragonn-bench {' '.join(map(str, arguments))}: {run.stderr.strip()}")
    return json.loads(run.stdout)


# Peers


def skip_without(*modules):
    """Ends with 77 and the reason if one of these Python modules is missing."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"skipped: {error}", file=sys.stderr)
            raise SystemExit(77) from error


class PeerProcess:
    """A worker: this script with the arguments --worker NAME, which ends when its standard input does."""

    def __init__(self, name, environment):
        self.name = name
        self.process = subprocess.Popen([sys.executable, sys.argv[0], WORKER, name], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=os.environ | environment)

    def ask(self, question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"{SCRIPT}: {self.name} ended with {self.process.wait()}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def serve(answer):
    """Runs a worker: answer(question) for every line. What libraries print goes to the standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
