#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs dragonn-train on a host and counts what leaves by the host's interface between two steps.

    interface_bytes.py --run DIR --from-step 5 --to-step 25 --output FILE -- dragonn-train CONFIG --output DIR ...

Watches the run's metrics.jsonl, and reads the interface's counter at the first line of --from-step or later and at the first of
--to-step or later. Writes FILE.RANK: {"step": [first, last], "bytes": [at the first, at the last]}. Counted is all that the
interface sends: payload, headers and acknowledgements. Ends with the exit code of the command.
"""
import contextlib
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from runs import make_parser

# An exchange sends for tens of milliseconds at least, and a look at the file takes microseconds.
POLL_SECONDS = 0.02


def sent_bytes(interface):
    """Bytes that the interface has sent so far. Inside a network namespace: of its own interface."""
    return int(pathlib.Path(f"/sys/class/net/{interface}/statistics/tx_bytes").read_text())


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--run", type=pathlib.Path, required=True, help="run folder of dragonn-train")
    parser.add_argument("--from-step", type=int, required=True)
    parser.add_argument("--to-step", type=int, required=True)
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--output", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    wanted, steps, sent, size_read = [options.from_step, options.to_step], [], [], 0
    process, is_over = subprocess.Popen(options.command), False
    while not is_over:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(POLL_SECONDS)
            is_over = True
        try:
            with open(options.run / "metrics.jsonl", "rb") as file:
                file.seek(size_read)
                text = file.read()
        except FileNotFoundError:
            continue
        lines = text[: text.rfind(b"\n") + 1]
        size_read += len(lines)
        newest = max((json.loads(line)["step"] for line in lines.splitlines()), default=0)
        while len(steps) < len(wanted) and newest >= wanted[len(steps)]:
            steps.append(newest)
            sent.append(sent_bytes(options.interface))
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    pathlib.Path(f"{options.output}.{rank}").write_text(json.dumps({"step": steps, "bytes": sent}))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
