#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the commands that the documents show, as they are printed.

Every block that begins with ```sh runs as one bash script that ends at its first error, one block after the other, in a
folder that looks like a checkout with a finished build. DRAGONN_QUICK and DRAGONN_SKIP_BUILD (README.md) shorten what
is long. A line `<!-- not run: REASON -->` before a block leaves it out.

Usage: documented_commands.py SOURCE_FOLDER PROGRAM_FOLDER WORK_FOLDER [DOCUMENT...]
The documents are README.md, all pages below docs/ and the README.md of each folder unless some are given.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

TIMEOUT_S = 240
NOT_RUN = re.compile(r"<!-- not run: (.+) -->")
# What a command needs that not every machine has: a pattern of the block, and what says why it cannot run here.
NEEDS = [
    (re.compile(r"netns_cluster\.sh"), ["scripts/netns_cluster.sh", "check"]),
    (re.compile(r"scripts/peers/"), ["python3", "-c", "import torch"]),
]


class Block:
    def __init__(self, document, line, lines, not_run):
        self.place = f"{document}:{line}"
        self.script = "\n".join(lines) + "\n"
        self.not_run = not_run


def blocks_of(root, document):
    """The blocks of shell commands of a document, in its order."""
    blocks, not_run, begin, lines = [], None, None, []
    for number, line in enumerate((root / document).read_text().splitlines(), 1):
        text = line.strip()
        if begin is None:
            if re.fullmatch(r"```(sh|bash)", text):
                begin, lines = number, []
            elif text:
                found = NOT_RUN.fullmatch(text)
                not_run = found.group(1) if found else None
        elif text == "```":
            blocks.append(Block(document, begin, lines, not_run))
            begin, not_run = None, None
        else:
            lines.append(line)
    return blocks


def documents_of(root):
    folders = sorted(path.parent for path in root.glob("*/README.md") if path.parent.name not in ("build", "runs"))
    pages = ["README.md"] + sorted(str(path.relative_to(root)) for path in (root / "docs").rglob("*.md"))
    return pages + [f"{folder.name}/README.md" for folder in folders if folder.name != "docs"]


def look_like_checkout(root, programs, work):
    """Links to what the checkout has; its own folders where commands write."""
    for path in root.iterdir():
        if path.name not in ("build", "runs", "data", "install", ".git"):
            (work / path.name).symlink_to(path)
    (work / "data").mkdir(exist_ok=True)
    for path in (root / "data").iterdir():
        if path.is_file() and not (work / "data" / path.name).exists():
            (work / "data" / path.name).symlink_to(path)
    (work / "build").mkdir()
    (work / "build/release").symlink_to(programs.parent)
    (work / "runs").mkdir()


def environment_of(programs):
    """PATH has the programs, as where they are installed."""
    environment = dict(os.environ)
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    environment.update(DRAGONN_BIN=str(programs), DRAGONN_QUICK="2", DRAGONN_SKIP_BUILD="1", OMPI_ALLOW_RUN_AS_ROOT="1",
                       OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                       OMPI_MCA_btl_vader_single_copy_mechanism="none")
    return environment


def obstacle(block, work, environment):
    """Why a block cannot run here; None where it can."""
    if block.not_run:
        return block.not_run
    for pattern, command in NEEDS:
        if pattern.search(block.script):
            check = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
            if check.returncode != 0:
                return (check.stderr.strip().splitlines() or [f"'{' '.join(command)}' fails"])[-1]
    return None


def run(block, work, environment):
    """Runs the block. Returns what went wrong, or None."""
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(["bash", "-euo", "pipefail", "-c", block.script], cwd=work, env=environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            status = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"not done after {TIMEOUT_S} s"
        if status == 0:
            return None
        output.seek(0)
        return f"exit code {status}\n{block.script}\n" + "".join(output.readlines()[-30:])


def main():
    root, programs, work = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    documents = sys.argv[4:] or documents_of(root)
    look_like_checkout(root, programs, work)
    environment = environment_of(programs)
    counts = {"passed": 0, "failed": 0, "not run": 0}
    for block in [block for document in documents for block in blocks_of(root, document)]:
        begin = time.monotonic()
        reason = obstacle(block, work, environment)
        failure = None if reason else run(block, work, environment)
        verdict = "not run" if reason else "failed" if failure else "passed"
        counts[verdict] += 1
        note = f": {reason or failure}" if reason or failure else f" ({time.monotonic() - begin:.0f} s)"
        print(f"{verdict}: {block.place}{note}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


if __name__ == "__main__":
    main()
