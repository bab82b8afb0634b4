#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares what a group of four workers loses when one of them dies, stops or comes back: elastic runs of dragonn and torchft.

    scripts/peers/elastic.py            # measures what bench/results/elastic-peers.json lacks, then prints the table

All workers run on this machine, with one thread each, and train the same small GPT-2 with the same batches per worker: dragonn-train
over TCP with a coordinator of its own, dense and synchronous, and torchft's DistributedDataParallel over gloo with its lighthouse
(scripts/peers/torchft_worker.py). Both take a worker for dead after --heartbeat seconds. Events, each in a new group, when it has
made --warm steps:

    kill   kill -9 of one worker
    stop   SIGSTOP of one worker
    join   kill -9 of one worker; ten seconds later another one in its place, with empty memory

A row has "gap", the seconds from the event (join: from the first line of a step with the new worker back to the one before) to the
next committed step, "median", of the times between steps, and "equal", whether the workers that are left had equal parameters;
with join also "back", the seconds from the start of the new process to its first step.
Tokens: data/shakespeare_characters (configs/README.md). Rows are kept and not measured again. Run it on a quiet machine.
Exit code: 0 all rows are there, 1 a group failed, 2 bad usage, 77 PyTorch or torchft is missing.
"""
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from runs import BIN, ROOT, Lines, Rows, expect_known, last_line, make_parser, measure_missing, run_main, sets, table, words

CONFIG = ROOT / "configs" / "shakespeare_gpt.toml"
EVENTS = ["kill", "stop", "join"]
PAUSE = 10  # seconds from a death to the return
PORT = 29470


def parse_arguments():
    parser = make_parser(__doc__)
    parser.add_argument("--sides", type=words, default=list(GROUPS), help=",".join(GROUPS))
    parser.add_argument("--events", type=words, default=EVENTS, help=",".join(EVENTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--warm", type=int, default=40, help="steps in front of an event")
    parser.add_argument("--seconds", type=float, default=30, help="after an event in which a step must follow")
    parser.add_argument("--heartbeat", type=float, default=5, help="seconds of silence")
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data/shakespeare_characters"))
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "bench" / "results" / "elastic-peers.json")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--table", action="store_true", help="measure nothing")
    options = parser.parse_args()
    for name, known in (("sides", GROUPS), ("events", EVENTS)):
        expect_known(parser, name, getattr(options, name), known)
    if not options.table and not options.data.is_dir():
        parser.error(f"--data {options.data}: no such folder (configs/README.md says how to make it)")
    return options


class Group:
    """Workers of one side, with numbers from 0, and the steps that they have committed."""

    def __init__(self, options, folder):
        self.options, self.folder, self.processes, self.steps = options, folder, {}, []
        self.keys = {"train.batch_size": 3, "data.path": options.data.resolve()}

    def spawn(self, name, command, **environment):
        with (self.folder / f"{name}.log").open("w") as log:
            self.processes[name] = subprocess.Popen([*map(str, command)], stdout=log, stderr=log, env=os.environ | environment)

    def close(self):
        for process in self.processes.values():
            process.kill()
        for process in self.processes.values():
            process.wait()

    def signal(self, number, sent):
        self.processes[f"worker{number}"].send_signal(sent)

    def wait(self, seconds, is_enough):
        """Looks at the steps until there are enough. Raises RuntimeError if there are not in time, or a worker fails."""
        deadline = time.time() + seconds
        while not is_enough():
            failed = any(process.poll() not in (None, -signal.SIGKILL) for process in self.processes.values())
            if failed or time.time() > deadline:
                raise RuntimeError(("a process has ended; " if failed else f"no step in {seconds:g} s; ") + "; ".join(
                    f"{log.stem}: {last_line(log.read_text())}" for log in sorted(self.folder.glob("*.log"))))
            time.sleep(0.002)
            self.look()


class Dragonn(Group):
    def start(self):
        keys = self.keys | {"comm.backend": "tcp", "comm.elastic": "true", "comm.coordinator": "separate",
                            "comm.rendezvous": f"tcp:127.0.0.1:{PORT}", "comm.heartbeat_timeout_s": self.options.heartbeat,
                            "train.epochs": 1000, "train.max_steps": 100000, "train.eval_every_epochs": 0, "logging.every_steps": 1,
                            "train.replica_check_every": 1, "checkpoint.every_epochs": 0}
        self.arguments = [CONFIG, *sets(keys)]
        self.metrics = Lines(self.folder / "run" / "metrics.jsonl")
        self.spawn("coordinator", [self.options.bin / "dragonn", "coordinator", *self.arguments, "--workers", self.options.workers])
        for number in range(self.options.workers):
            self.join(number)

    def join(self, number):
        command = [self.options.bin / "dragonn-train", *self.arguments, "--output", self.folder / "run"]
        self.spawn(f"worker{number}", command, RANK=str(number), WORLD_SIZE=str(self.options.workers))

    def look(self):
        """A line is flushed when its step is committed: it is as old as this look."""
        self.steps += [(line["step"], time.time()) for line in self.metrics.new() if line["kind"] == "step"]

    def size(self):
        """The members of the newest generation."""
        return len(json.loads((self.folder / "run" / "membership.jsonl").read_text().split("\n")[-2])["members"])

    def are_equal(self):
        return True  # train.replica_check_every = 1 ends the run otherwise


class Torchft(Group):
    def start(self):
        self.lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=1, join_timeout_ms=10000, quorum_tick_ms=10,
                                           heartbeat_timeout_ms=int(1000 * self.options.heartbeat))
        self.started, self.records = 0, [Lines(self.record(number)) for number in range(self.options.workers)]
        for number in range(self.options.workers):
            self.join(number)

    def join(self, number):
        self.started += 1
        command = [sys.executable, "-W", "ignore", HERE / "torchft_worker.py", CONFIG, *sets(self.keys), "--bin", self.options.bin,
                   "--lighthouse", f"http://127.0.0.1:{self.lighthouse.address().rpartition(':')[2]}", "--name",
                   f"worker{number}.{self.started}", "--record", self.record(number), "--heartbeat", self.options.heartbeat]
        self.spawn(f"worker{number}", command)

    def record(self, number):
        return self.folder / f"record.{number}"

    def look(self):
        self.steps += [(line["step"], line["time"]) for line in self.records[0].new()]

    def size(self):
        return self.records[0].lines[-1]["workers"]

    def are_equal(self):
        by_step = {}
        for record in self.records:
            record.new()
            for line in record.lines:
                by_step.setdefault(line["step"], set()).add(line["hash"])
        return all(len(hashes) == 1 for hashes in by_step.values())

    def close(self):
        super().close()
        self.lighthouse.shutdown()


GROUPS = {"dragonn": Dragonn, "torchft": Torchft}


def longest_gap(steps, begin):
    """The longest time between two steps behind `begin`, and when it ended."""
    times = [begin, *(at for _, at in steps if at > begin)]
    return max((later - earlier, later) for earlier, later in zip(times, times[1:]))


def watch(group, event, options):
    """The row of one event."""
    last = options.workers - 1
    group.start()
    group.wait(180, lambda: len(group.steps) >= options.warm)
    before = list(group.steps)
    median = statistics.median(later[1] - earlier[1] for earlier, later in zip(before[10:], before[11:]))
    begin = time.time()
    group.signal(last, signal.SIGSTOP if event == "stop" else signal.SIGKILL)
    # A step of which the lost worker had done its part may still count.
    group.wait(options.seconds, lambda: sum(at > begin for _, at in group.steps) >= 10)
    if event == "join":
        group.wait(PAUSE + 5, lambda: time.time() > begin + PAUSE)
        begin = time.time()
        group.join(last)
        group.wait(4 * options.seconds, lambda: group.size() == options.workers)
        back = time.time() - begin
        group.wait(5, lambda: time.time() > begin + back + 3)
    gap, ended = longest_gap(group.steps, begin)
    row = {"gap": gap if event == "join" else ended - begin, "median": median, "equal": group.are_equal()}
    return row | {"back": back} if event == "join" else row


def measure(options, rows):
    """Adds what is missing to the rows, and returns how many groups failed."""
    cases = [{"side": side, "event": event, "repeat": repeat, "workers": options.workers, "heartbeat": options.heartbeat}
             for repeat in range(options.repeats) for event in options.events for side in options.sides]
    return measure_missing("elastic", cases, rows, lambda case, folder: GROUPS[case["side"]](options, folder),
                           lambda group, case: watch(group, case["event"], options))


def report(rows):
    lines = []
    for event, side in dict.fromkeys((row["event"], row["side"]) for row in rows):
        own = [row for row in rows if (row["event"], row["side"]) == (event, side)]
        gaps, step = [row["gap"] for row in own], statistics.median(row["median"] for row in own)
        backs = [row["back"] for row in own if "back" in row]
        lines.append([event, side, len(own), f"{statistics.median(gaps):.2f} s", f"{min(gaps):.2f} to {max(gaps):.2f} s",
                      f"{1000 * step:.0f} ms", f"{statistics.median(backs):.1f} s" if backs else "", "yes" if all(row["equal"] for row in own) else "no"])
    return table(["event", "side", "groups", "without a step, median", "range", "a step", "back after", "equal parameters"], sorted(lines))


def main():
    options = parse_arguments()
    rows, failed = Rows(options.json), 0
    if not options.table:
        if "torchft" in options.sides and LighthouseServer is None:
            print("skipped: PyTorch or torchft is not installed", file=sys.stderr)
            return 77
        failed = measure(options, rows)
    print(report(rows))
    return 1 if failed else 0


try:
    from torchft.coordination import LighthouseServer
except ImportError:
    LighthouseServer = None

if __name__ == "__main__":
    run_main(main, 2, json.JSONDecodeError)
