#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a change before it is merged: clang-tidy on the files that it touches, and benchmarks beside those of the last tag.

Findings of clang-tidy make the exit code 1. The benchmarks are a report, for a person to judge: medians of both builds, in
alternating rounds on this machine, and their ratio, those that are slower first. The other version is built once, below
build/compared.
"""
import json
import statistics
import subprocess
import sys

from runs import ROOT, bench_rows, last_line, make_parser, output_of, run_main

ROUNDS = 2
NUMEL = "1000000"
BENCHMARKS = {
    "compress": ["--sparsifier", "topk,dgc,dragonn,exdyna", "--numel", NUMEL, "--density", "0.01", "--threads", "1"],
    "collective": ["--collective", "dense,allgather,gtopk,oktopk", "--numel", NUMEL, "--density", "0.01", "--ranks", "4"],
    "decode": ["--numel", NUMEL, "--density", "0.01", "--ranks", "4"],
    "codec": ["--numel", NUMEL, "--density", "0.01"],
    "step": ["--model", "mlp", "resnet20", "--threads", "1"],
}
TIMES = ("seconds", "seconds_median", "encode_seconds_median", "decode_seconds_median")
TIDY = "clang-tidy-16"


def tidy(since):
    """Runs clang-tidy on the sources changed since a commit, as the preset tsan compiles them. Returns how many have findings."""
    commands = ROOT / "build/tsan/compile_commands.json"
    if not commands.exists():
        raise RuntimeError(f"no {commands}: scripts/test.sh tsan makes it")
    known = {entry["file"] for entry in json.loads(commands.read_text())}
    # A header is read with the sources that include it.
    files = output_of(["git", "diff", "--name-only", "--diff-filter=d", since, "--", "*.cpp"], cwd=ROOT).splitlines()
    files, failed = [file for file in files if str(ROOT / file) in known], 0
    for file in files:
        # Warnings of GCC have other names.
        done = subprocess.run([TIDY, "--quiet", "--warnings-as-errors=*", "--extra-arg=-Wno-unknown-warning-option",
                               "-p", commands.parent, file], cwd=ROOT, stderr=subprocess.DEVNULL, check=False)
        if done.returncode:
            failed += 1
            print(f"*** {file}", flush=True)
    print(f"{TIDY}: {len(files) - failed} passed, {failed} failed")
    return failed


def build(folder):
    output_of(["bash", "-c", ". scripts/build.sh && build release dragonn-bench"], cwd=folder)
    return folder / "build" / "release" / "bin" / "dragonn-bench"


def build_of(revision):
    folder = ROOT / "build" / "compared" / revision.replace("/", "-")
    if not folder.exists():
        folder.mkdir(parents=True)
        output_of(["bash", "-o", "pipefail", "-c", 'git archive "$0" | tar -x -C "$1"', revision, folder], cwd=ROOT)
    return build(folder)


def times(program, name):
    """Returns the seconds of each row, by its conditions: its texts, and the number of ranks."""
    try:
        rows = bench_rows([program, name, *BENCHMARKS[name]])
    except RuntimeError as error:
        print(f"check_change: {last_line(str(error))}", file=sys.stderr)
        return {}
    found = {}
    for row in rows:
        label = " ".join(str(value) for key, value in row.items() if isinstance(value, str) or key == "ranks")
        found.update({f"{label}, {key}": row[key] for key in TIMES if row.get(key)})
    return found


def compare(ours, theirs, names):
    rows = []
    for name in names:
        rounds = [(times(theirs, name), times(ours, name)) for _ in range(ROUNDS)]
        for label in set.intersection(*(found.keys() & other.keys() for found, other in rounds)):
            before, after = (statistics.median(found[label] for found in side) for side in zip(*rounds))
            rows.append((after / before, name, label, before, after))
    return sorted(rows, reverse=True)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--since", default="main", help="clang-tidy reads what was changed since this commit (main)")
    parser.add_argument("--against", help="revision whose benchmarks are compared (the last tag)")
    parser.add_argument("--benchmark", action="append", choices=BENCHMARKS, help="run this one; may be given again (all)")
    parser.add_argument("--no-tidy", action="store_true", help="compare benchmarks only")
    options = parser.parse_args()
    failed = 0 if options.no_tidy else tidy(options.since)
    tag = subprocess.run(["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False)
    against = options.against or tag.stdout.strip()
    if not against:
        print("no benchmarks: there is no tag here; --against names a commit to compare with")
        return bool(failed)
    output_of(["git", "rev-parse", "--verify", "--quiet", f"{against}^{{commit}}"], cwd=ROOT)
    print(f"{'ratio':>6} {against[:12]:>12} {'now':>12}")
    for ratio, name, label, before, after in compare(build(ROOT), build_of(against), options.benchmark or BENCHMARKS):
        print(f"{ratio:6.2f} {before * 1e3:9.3f} ms {after * 1e3:9.3f} ms  {name}: {label}")
    return bool(failed)


if __name__ == "__main__":
    run_main(main)
