# SPDX-License-Identifier: MIT
"""What the scripts *_side_by_side.py share, which compare dragonn with peers in cases: options, runs of dragonn-bench, processes
that hold a peer, turns, rows and tables; and the environments in which PyTorch runs."""
import argparse
import functools
import importlib
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runs
from runs import BIN, Rows, table, table_head, table_line, words

WORKER = "--worker"
OWN = "dragonn"
DEFAULT, TUNED = "default", "tuned"
CPUINFO = pathlib.Path("/proc/cpuinfo")
ALL_HAVE = """
All take their turn, round by round, in processes of their own; the table has medians. PyTorch runs with the environment as it is,
with one in which the C library keeps freed memory, and with those of --baseline; what counts is the fastest.

Run it on a quiet machine; build dragonn-bench before (scripts/test.sh). Rows are printed as they come, and written to --json:
those that are there already are not measured again.
Exit code: 0 done, 1 a run failed, 2 bad usage, 77 a module of Python that it needs is not installed.
"""


def tuned():
    """glibc keeps freed memory and takes huge pages: PyTorch returns every large tensor to the system otherwise, which costs
    a page fault for every 4 KiB of the next one. PyTorch's own kernels use AVX-512 where the processor has it."""
    environment = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "1099511627776", "MALLOC_TOP_PAD_": "67108864",
                   "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    return environment | ({"ATEN_CPU_CAPABILITY": "avx512"} if "avx512f" in CPUINFO.read_text(encoding="ascii") else {})


def parse_baseline(text):
    """(name, environment) of "NAME: VARIABLE=VALUE VARIABLE=VALUE"."""
    name, colon, rest = text.partition(":")
    pairs = [word.partition("=") for word in rest.split()]
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name) or not colon or not pairs or not all(key and sign for key, sign, _ in pairs):
        raise argparse.ArgumentTypeError(
            f"'{text}': expected NAME: VARIABLE=VALUE ..., such as 'jemalloc: LD_PRELOAD=libjemalloc.so.2'")
    if name in (DEFAULT, TUNED):
        raise argparse.ArgumentTypeError(f"'{text}': the name {name} is taken")
    return name, {key: value for key, _, value in pairs}


def add_baselines(parser):
    parser.add_argument("--baseline", action="append", default=[], type=parse_baseline, metavar="'NAME: VARIABLE=VALUE ...'",
                        help=f"also run PyTorch in this environment, beside {DEFAULT} and {TUNED} (repeatable)")


def environments(options):
    """Environment variables by the baseline's name."""
    return {DEFAULT: {}, TUNED: tuned(), **dict(options.baseline)}


def describe(names_and_environments):
    """A line for each baseline that sets variables: what a page has to name."""
    return [f"PyTorch, {name}: " + " ".join(f"{key}={value}" for key, value in environment.items())
            for name, environment in names_and_environments.items() if environment]


def make_parser(text, has_baselines=True):
    """A parser of the options that all scripts have, for finish_parse."""
    parser = runs.make_parser(text + ALL_HAVE)
    parser.add_argument("--bin", type=pathlib.Path, default=BIN, help="dragonn's programs")
    parser.add_argument("--threads", type=words, default=["1", "2"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows as a JSON array, and keep those that it has")
    parser.add_argument("--table", type=pathlib.Path, help="also write the table, with processor, date and versions")
    if has_baselines:
        add_baselines(parser)
    return parser


def finish_parse(parser, numbers=(), **choices):
    """The options: --threads and those in `numbers` are lists of numbers above 0, those in `choices` are lists of the words in
    their values. `bench` is the path of dragonn-bench."""
    options = parser.parse_args()
    for name, valid in choices.items():
        for value in getattr(options, name):
            if value not in valid:
                parser.error(f"--{name} {value}: valid are {', '.join(valid)}")
    for name in ("threads", *numbers):
        values = getattr(options, name)
        if not values or not all(value.isdigit() and int(value) > 0 for value in values):
            parser.error(f"--{name} {','.join(values)}: expected numbers above 0, such as 1,2")
        setattr(options, name, [int(value) for value in values])
    if options.rounds < 1:
        parser.error("--rounds: expected 1 or more")
    options.bench = options.bin / "dragonn-bench"
    if not options.bench.exists():
        parser.error(f"{options.bench} is missing: run scripts/test.sh, or name another folder by --bin")
    return options


def bench_rows(options, *arguments):
    """The rows that dragonn-bench writes when it is called with these arguments."""
    return runs.bench_rows([options.bench, *arguments])


class Peer:
    """A worker: this script with the arguments --worker KIND, which ends when its standard input does. `found` is what it answers
    to the first question, the case that it prepares; {"note": REASON} if it cannot."""

    def __init__(self, name, kind, environment, case):
        self.name = name
        self.process = subprocess.Popen([sys.executable, sys.argv[0], WORKER, kind], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=os.environ | environment)
        self.found = self.ask(case)

    def ask(self, question):
        print(json.dumps(question), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended with {self.process.wait()}")
        return json.loads(answer)

    def is_there(self):
        return self.process.poll() is None

    def close(self):
        if self.is_there():
            self.process.stdin.close()
            self.process.wait()


@functools.cache
def leave_out(name, reason):
    """Says so, once."""
    print(f"left out: {name}: {reason}", file=sys.stderr)


def start_peers(kinds_and_environments, case):
    """The peers that can prepare the case, of {name: (kind, environment)}."""
    peers = [Peer(name, kind, environment, case) for name, (kind, environment) in kinds_and_environments.items()]
    for peer in peers:
        if "note" in peer.found:
            leave_out(peer.name, peer.found["note"])
            peer.close()
    return [peer for peer in peers if peer.is_there()]


def pytorch_peers(options, case, kinds=("",)):
    """PyTorch in each of its environments, once for each of the kinds."""
    return start_peers({", ".join(filter(None, (kind, name))): (kind, environment) for kind in kinds
                        for name, environment in environments(options).items()}, case)


def serve(prepare, kind):
    """Runs a worker: prepare(kind, case) returns what it found and what answers every later question. What libraries print goes
    to the standard error."""
    answers, sys.stdout, answer = sys.stdout, sys.stderr, None
    for line in sys.stdin:
        question = json.loads(line)
        found, answer = (answer(question), answer) if answer else prepare(kind, question)
        print(json.dumps(found), file=answers, flush=True)


def median_seconds(work, turn, least=1):
    """The median time of the work, done for about so many seconds and at least so many times."""
    end, seconds = time.perf_counter() + turn, []
    while len(seconds) < least or time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def take_turns(rounds, own, peers, question=None, hopeless=None):
    """{name: answers} of dragonn and its peers, round by round; then ends the peers. One whose first answer is more than `hopeless`
    times the fastest peer's has no further turns."""
    answers = {OWN: []}
    for _ in range(rounds):
        answers[OWN].append(own())
        for peer in filter(Peer.is_there, peers):
            answers.setdefault(peer.name, []).append(peer.ask(question))
        for peer in peers if hopeless else []:
            if answers[peer.name][0] > hopeless * min(answers[other.name][0] for other in peers):
                peer.close()
    for peer in peers:
        peer.close()
    return answers


def medians_of(answers, rounds):
    """Dragonn's median, and those of the peers that were measured in every round."""
    medians = {name: statistics.median(values) for name, values in answers.items() if len(values) == rounds}
    return medians.pop(OWN), medians


def processor():
    names = re.findall(r"^model name\s*: (.*)", CPUINFO.read_text(encoding="ascii"), re.MULTILINE)
    return f"{len(names)} x {names[0]}" if names else "unknown"


def text(key, value):
    if value is None:
        return "-"
    if key.endswith("_bytes"):
        return f"{value * 1e-6:.0f}"
    return str(value) if not isinstance(value, float) else f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def conditions(rows):
    """A line for each condition that the rows name."""
    for name in ("processor", "date", "torch"):
        if found := dict.fromkeys(str(row[name]) for row in rows if row.get(name)):
            yield f"{name}: " + ", ".join(found)
    yield from dict.fromkeys(line for row in rows for line in row.get("baselines", []))


def run(prepare, options_of, cases, compare, columns, modules=("torch",), summary=lambda rows: []):
    """A script: a row for each case, compare(options, case). Columns are {key: heading}. Returns the exit code."""
    if sys.argv[1:2] == [WORKER]:
        return serve(prepare, sys.argv[2])
    options = options_of()
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError as error:
        print(f"skipped: {error}", file=sys.stderr)
        return 77
    rows = Rows(options.json)

    def cells(row):
        return [text(key, row.get(key)) for key in columns]

    def closing():
        return "\n".join(f"- {line}" for line in [*summary(rows), *conditions(rows)])

    print("\n".join([table_head(list(columns.values())), *(table_line(cells(row)) for row in rows)]), flush=True)
    for case in cases(options):
        if rows.has(case):
            continue
        load = os.getloadavg()[0]
        row = case | compare(options, case) | {"load": load, "date": time.strftime("%Y-%m-%d"), "processor": processor()}
        if hasattr(options, "baseline"):
            row["baselines"] = describe(environments(options))
        rows.add([row])
        print(table_line(cells(row)), flush=True)
        if options.table:
            options.table.write_text(f"{table(list(columns.values()), map(cells, rows))}\n\n{closing()}\n")
    print("\n" + closing())
    return 0
