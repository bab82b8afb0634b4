#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs dragonn-train on a host and counts what leaves by the host's interface between two steps.

    interface_bytes.py --run DIR --from-step 5 --to-step 25 --output FILE -- dragonn-train CONFIG --output DIR ...

Rank 0 writes the run's metrics.jsonl as the steps are done. This program watches that file on every host, and reads the
interface's counter at the first line of --from-step or later and at the first of --to-step or later. Writes FILE.RANK:
{"step": [first, last], "bytes": [at the first, at the last]}. Counted is all that the interface sends: payload, headers
and acknowledgements. Ends with the exit code of the command.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

COUNTER = "/sys/class/net/{}/statistics/tx_bytes"
# An exchange sends for tens of milliseconds at least, and a look at the file takes microseconds.
POLL_SECONDS = 0.02


def sent_bytes(interface):
    """Bytes that the interface has sent so far. Inside a network namespace: of its own interface."""
    return int(pathlib.Path(COUNTER.format(interface)).read_text())


class Watch:
    """Follows metrics.jsonl and keeps the counter at two steps."""

    def __init__(self, metrics, first, last, interface):
        self.metrics, self.wanted, self.interface = metrics, [first, last], interface
        self.read_bytes, self.steps, self.bytes = 0, [], []

    def look(self):
        step = self.newest_step()
        while len(self.steps) < len(self.wanted) and step >= self.wanted[len(self.steps)]:
            self.steps.append(step)
            self.bytes.append(sent_bytes(self.interface))

    def newest_step(self):
        """Of the lines that were added since the last look, 0 if there are none."""
        try:
            with open(self.metrics, "rb") as file:
                file.seek(self.read_bytes)
                text = file.read()
        except FileNotFoundError:
            return 0
        whole = text[: text.rfind(b"\n") + 1]
        self.read_bytes += len(whole)
        return max((json.loads(line)["step"] for line in whole.splitlines()), default=0)


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--run", type=pathlib.Path, required=True, help="run folder of dragonn-train")
    arguments.add_argument("--from-step", type=int, required=True)
    arguments.add_argument("--to-step", type=int, required=True)
    arguments.add_argument("--interface", default="eth0")
    arguments.add_argument("--output", required=True)
    arguments.add_argument("command", nargs="+")
    options = arguments.parse_args()
    watch = Watch(options.run / "metrics.jsonl", options.from_step, options.to_step, options.interface)
    process = subprocess.Popen(options.command)
    while True:
        try:
            process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            watch.look()
            continue
        break
    watch.look()
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
    pathlib.Path(f"{options.output}.{rank}").write_text(json.dumps({"step": watch.steps, "bytes": watch.bytes}))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
