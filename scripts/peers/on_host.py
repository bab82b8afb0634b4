#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command on a host, and says what left by the host's interface and how much memory the command took.

    on_host.py --output FILE [--seconds LIMIT] -- COMMAND...

Writes FILE.RANK, of a rank of mpirun: {"sent": bytes, "memory": bytes}. Counted is all that the interface sends from the command's
begin to its end: payload, headers and acknowledgements. Memory is the largest resident size of a process. After LIMIT seconds the
command gets SIGTERM, at which dragonn-train saves a checkpoint and ends with 75: that is success here.
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from interface_bytes import sent_bytes
from runs import make_parser

STOPPED = 75  # dragonn-train's exit code after a signal


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--interface", default="eth0")
    parser.add_argument("--output", required=True)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    before = sent_bytes(options.interface)
    process, is_stopped = subprocess.Popen(options.command), False
    try:
        code = process.wait(options.seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        code, is_stopped = process.wait(), True
    record = {"sent": sent_bytes(options.interface) - before,
              "memory": 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}
    pathlib.Path(f"{options.output}.{os.environ.get('OMPI_COMM_WORLD_RANK', '0')}").write_text(json.dumps(record))
    return 0 if is_stopped and code == STOPPED else code


if __name__ == "__main__":
    sys.exit(main())
