#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Disturbs elastic runs again and again, and judges what becomes of them. docs/reliability.md has what is promised,
docs/results/elastic.md the table.

    scripts/elastic_campaign.py --runs 3 --events 10                  # 4 workers of this machine
    scripts/elastic_campaign.py --hosts 1gbit --workers 8 --events 30 # 8 hosts of scripts/netns_cluster.sh; needs root

A run has a coordinator of its own and P workers, and meets K events that its number as a seed draws:

    kill    SIGKILL of a worker; another process takes its place, at once or later
    stop    SIGSTOP for longer than the heartbeat timeout, then SIGCONT: it joins again by itself
    pause   SIGSTOP for a short while: nobody is lost
    leave   SIGTERM of a worker, which ends with 75; another process takes its place
    lead    SIGKILL of the coordinator, when all train; it is started again with its journal, at once or later
    cut     the link of a host goes down for longer than the heartbeat timeout (with --hosts)

The next event comes when all workers train together again or, sometimes, before. Behind the last one the run is stopped by a signal
to its coordinator or, with --steps, comes to its end, and `dragonn replay` repeats it. --undisturbed makes such a run without events:
its final loss is what those of the others are compared with. Findings: a process ends that nothing has happened to; two members of a
generation differ (replicas are compared in every step); no step within two heartbeat timeouts of an event; more than one step, or
synchronization, of which nothing is left; not all train together again; the replay has other bits in some generation.
Rows are kept in a file, one a run, and not made again. The folder of a run with findings is kept beside it.
Exit code: 0 no finding, 1 some, 2 bad usage.
"""
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time

from runs import BIN, CLUSTER, ROOT, Lines, Rows, expect_known, last_line, make_parser, run_main, sets, summary, table, words

KINDS = ["kill", "stop", "pause", "leave", "lead", "cut"]
HURRIED = 0.3  # share of events that do not wait for the ones before
LOOK = 0.01
PORT = 29500
STOPPED = 75  # the exit code behind a signal


def add_run_options(parser):
    """Adds the options that say what elastic run is made."""
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "configs" / "synthetic_quick.toml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set a key of the config; may be given again")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--hosts", metavar="RATE", help="a host of scripts/netns_cluster.sh for each worker, and one for the coordinator")
    parser.add_argument("--heartbeat", type=float, default=5, help="seconds of silence after which a worker is left behind")
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)


def parse_arguments():
    parser = make_parser(__doc__)
    add_run_options(parser)
    parser.add_argument("--runs", type=int, default=1, help="runs in the file, those of earlier calls included")
    parser.add_argument("--first", type=int, default=1, help="number of the first run, which is its seed")
    parser.add_argument("--events", type=int, default=10, help="in a run")
    parser.add_argument("--steps", type=int, default=0, help="the run ends after so many, with an evaluation; 0: behind the last event")
    parser.add_argument("--undisturbed", action="store_true", help="with --steps: no events")
    parser.add_argument("--kinds", type=words, help=",".join(KINDS) + "; cut with --hosts only")
    parser.add_argument("--warm", type=int, default=20, help="steps in front of the first event")
    parser.add_argument("--patience", type=float, default=180, help="seconds until all train together again")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("runs/elastic_campaign.json"))
    parser.add_argument("--table", action="store_true", help="print the table of the runs so far, and do nothing else")
    options = parser.parse_args()
    options.kinds = options.kinds or [kind for kind in KINDS if options.hosts or kind != "cut"]
    expect_known(parser, "kinds", options.kinds, KINDS if options.hosts else KINDS[:-1])
    if options.workers < 3:
        parser.error(f"--workers {options.workers}: expected 3 or more, as some must go on")
    if options.undisturbed:
        options.events = 0
    if options.undisturbed and not options.steps:
        parser.error("--undisturbed: expected --steps, too, as nothing else ends the run")
    if not options.table and not (options.bin / "dragonn").exists():
        parser.error(f"--bin {options.bin}: no dragonn there: run scripts/build.sh, or name another folder")
    return options


def case_of(options):
    """What the rows of runs that were made alike have in common."""
    return {"config": options.config.name, "workers": options.workers, "hosts": options.hosts, "heartbeat": options.heartbeat,
            "set": options.set, "until": options.steps, "disturbed": not options.undisturbed}


class Worker:
    """A place of the run, and the process that fills it."""

    def __init__(self, run, number):
        self.run, self.number, self.started = run, number, 0
        self.start()

    def start(self):
        self.started += 1
        self.process = self.run.spawn(f"worker{self.number}.{self.started}", self.number, [
            self.run.options.bin / "dragonn-train", *self.run.arguments, "--output", self.run.folder / "run"],
            RANK=str(self.number), WORLD_SIZE=str(self.run.options.workers))
        self.is_expected_to_end = False

    def member(self):
        """The id that the process has in the run."""
        log = self.run.folder / f"worker{self.number}.{self.started}.log"
        return int((re.findall(r"member (\d+) gets the state of the run", log.read_text()) or [self.number])[-1])

    def send(self, number):
        self.process.send_signal(number)


class Run:
    """One run: its processes, the steps that it has committed and when, and what is wrong with it."""

    def __init__(self, options, number, folder, keys=()):
        self.options, self.number, self.folder = options, number, folder
        self.random = random.Random(f"{options.config.name}/{number}")
        self.findings, self.steps, self.events = [], [], []
        self.metrics, self.membership = (Lines(folder / "run" / name, skips_broken=True) for name in ("metrics.jsonl", "membership.jsonl"))
        self.cluster = f"elastic{os.getpid()}"
        meeting = f"tcp:198.18.0.{options.workers + 1}:{PORT}" if options.hosts else f"file:{folder}/meeting"
        length = ({"train.max_steps": options.steps, "train.eval_every_epochs": 1000000} if options.steps else
                  {"train.epochs": 1000000, "train.max_steps": 100000000, "train.eval_every_epochs": 0})
        self.arguments = [options.config, *sets({
            "comm.backend": "tcp", "comm.elastic": "true", "comm.coordinator": "separate", "comm.rejoin": "true",
            "comm.rendezvous": meeting, "comm.heartbeat_timeout_s": options.heartbeat, "comm.max_workers": options.workers,
            "comm.coordinator_timeout_s": 4 * options.heartbeat,
            "logging.every_steps": 1, "seed": number, **length, "train.replica_check_every": 1, "checkpoint.every_epochs": 0,
            "checkpoint.every_steps": 0}), *sets([*options.set, *keys])]
        self.workers, self.coordinator, self.is_at_end = [], None, False

    def spawn(self, name, host, command, **environment):
        prefix = ["ip", "netns", "exec", f"{self.cluster}-host{host + 1}"] if self.options.hosts else []
        with (self.folder / f"{name}.log").open("a") as log:
            return subprocess.Popen([*prefix, *map(str, command)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    env=os.environ | environment)

    def on_cluster(self, *command):
        subprocess.run([CLUSTER, *command], env=os.environ | {"DRAGONN_CLUSTER": self.cluster}, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def link(self, worker, state):
        subprocess.run(["ip", "-n", f"{self.cluster}-host{worker.number + 1}", "link", "set", "eth0", state], check=True)

    def look(self):
        """Notes new steps with the time of this look, and processes that have ended and should not have."""
        now = time.monotonic()
        self.steps += [(line["step"], now) for line in self.metrics.new() if line["kind"] == "step"]
        self.membership.new()
        for worker in self.workers:
            if worker.process.poll() is not None and not worker.is_expected_to_end:
                worker.is_expected_to_end = True
                log = (self.folder / f"worker{worker.number}.{worker.started}.log").read_text()
                raise RuntimeError(f"worker {worker.number} has ended with {worker.process.returncode}: {last_line(log)}")
        if self.coordinator.poll() is not None and not self.is_at_end:
            raise RuntimeError(f"the coordinator has ended: {last_line((self.folder / 'coordinator.log').read_text())}")

    def wait(self, seconds, what, is_true):
        """Looks until it is true. Raises RuntimeError if it is not in time."""
        deadline = time.monotonic() + seconds
        while not is_true():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} in {seconds:g} s")
            time.sleep(LOOK)
            self.look()

    def rest(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(LOOK)
            self.look()

    def members(self):
        return self.membership.lines[-1]["members"] if self.membership.lines else []

    def are_all_there(self):
        return len(self.members()) == self.options.workers

    def event(self):
        """One event: disturbs a worker, waits until the others go on, and brings it back."""
        kind = self.random.choice(self.options.kinds)
        worker = self.random.choice(self.workers)
        if kind == "lead":  # a worker that is on its way into the run would end with its coordinator
            self.wait(self.options.patience, f"not all train together before event {len(self.events) + 1} ({kind})", self.are_all_there)
        record = {"kind": kind, "worker": worker.number, "step": self.steps[-1][0], "together": len(self.members())}
        # Else it is on its way into one.
        ends_generation = kind not in ("pause", "lead") and worker.member() in self.members()
        generations, begin = len(self.membership.lines), time.monotonic()
        if kind == "cut":
            self.link(worker, "down")
        elif kind == "lead":
            self.coordinator.kill()
            self.coordinator.wait()
            time.sleep(self.random.choice([0, self.random.uniform(0, 1) * self.options.heartbeat]))
            self.start_coordinator()
        else:
            worker.is_expected_to_end = kind in ("kill", "leave")
            worker.send({"kill": signal.SIGKILL, "leave": signal.SIGTERM}.get(kind, signal.SIGSTOP))
        if kind == "pause":
            self.rest(self.random.uniform(0.05, 0.3) * self.options.heartbeat)
            worker.send(signal.SIGCONT)
        # A step of which the worker had done its part may still count: two must follow, the second without it.
        limit = 2 * self.options.heartbeat + 3 * self.step_seconds
        self.wait(limit + self.options.patience, f"no step behind event {len(self.events) + 1} ({kind})",
                  lambda: sum(at > begin for _, at in self.steps) >= 2 and
                  (len(self.membership.lines) > generations or not ends_generation))
        times = [begin, *(at for _, at in self.steps if at > begin)]
        record["gap"] = round(max(later - earlier for earlier, later in zip(times, times[1:])), 3)
        if record["gap"] > limit:
            self.findings.append(f"event {len(self.events) + 1} ({kind}): {record['gap']} s without a step, and two heartbeat "
                                 f"timeouts are {2 * self.options.heartbeat:g} s")
        self.bring_back(worker, kind)
        self.events.append(record)
        if self.random.random() < HURRIED:
            self.rest(self.random.uniform(0, 1))
        else:
            self.wait(self.options.patience, f"not all train together again behind event {len(self.events)} ({kind})",
                      self.are_all_there)
            record["together_after"] = round(time.monotonic() - begin, 2)

    def bring_back(self, worker, kind):
        if kind == "cut":
            self.rest(self.random.uniform(1, 2) * self.options.heartbeat)
            self.link(worker, "up")
        elif kind == "stop":
            worker.send(signal.SIGCONT)
        elif kind in ("kill", "leave"):
            deadline = time.monotonic() + self.options.patience
            while worker.process.poll() is None and time.monotonic() < deadline:
                time.sleep(LOOK)
                self.look()
            if kind == "leave" and worker.process.poll() != STOPPED:
                self.findings.append(f"a worker that gets SIGTERM ends with {worker.process.poll()}, not {STOPPED}")
            self.rest(self.random.choice([0, self.random.uniform(0, 1) * self.options.heartbeat]))
            worker.start()

    def judge_steps(self):
        """Steps must follow one another. Behind an event one may be made again, or lack the line that a lost rank 0 did not write."""
        steps = [step for step, _ in self.steps]
        strides = [later - earlier for earlier, later in zip(steps, steps[1:])]
        stride = statistics.mode(strides) if strides else 1
        again = sum(max(0, stride - change) // stride for change in strides)
        missing = sum(max(0, change - stride) // stride for change in strides)
        for count, what in ((again, "were made again"), (missing, "have no line")):
            if count > len(self.events):
                self.findings.append(f"{count} steps {what} behind {len(self.events)} events")
        return again

    def begin(self):
        """Starts the processes."""
        options = self.options
        if options.hosts:
            self.on_cluster("up", str(options.workers + 1), options.hosts)
        self.start_coordinator()
        self.workers += [Worker(self, number) for number in range(options.workers)]

    def start_coordinator(self):
        self.coordinator = self.spawn("coordinator", self.options.workers, [
            self.options.bin / "dragonn", "coordinator", *self.arguments, "--workers", str(self.options.workers),
            "--journal", self.folder / "journal"])

    def make(self):
        """Makes the run and returns its row."""
        options = self.options
        try:
            self.begin()
            self.wait(options.patience, f"no {options.warm} steps", lambda: len(self.steps) >= options.warm)
            times = [at for _, at in self.steps[options.warm // 2:]]
            self.step_seconds = (times[-1] - times[0]) / max(1, len(times) - 1)
            for _ in range(options.events):
                self.event()
            self.wait(options.patience, "not all train together in the end", self.are_all_there)
            count = len(self.steps)
            self.wait(options.patience, "no step in the end", lambda: len(self.steps) > count + 2)
            if options.steps:
                self.await_end()
            else:
                self.stop()
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            self.findings.append(str(error))
        finally:
            self.close()
        lost = self.judge_steps()
        end = summary(self.folder / "run")
        return case_of(options) | {
            "run": self.number, "generations": len(self.membership.lines), "steps": self.steps[-1][0] if self.steps else 0,
            "lost_steps": lost, "events": self.events, "final": end["final"] if end and options.steps else None,
            "replayed": self.replay(), "findings": self.findings}

    def await_end(self):
        """Waits until the run has made its steps."""
        self.is_at_end = True
        for worker in self.workers:
            worker.is_expected_to_end = True
        while any(worker.process.poll() is None for worker in self.workers):
            steps = len(self.steps)
            self.rest(self.options.patience / 10)
            if len(self.steps) == steps and all(worker.process.poll() is None for worker in self.workers):
                raise RuntimeError(f"no step in {self.options.patience / 10:g} s, in front of the end")
        codes = [worker.process.returncode for worker in self.workers] + [self.coordinator.wait(self.options.patience)]
        if any(codes):
            self.findings.append(f"the workers and the coordinator end with {codes}")

    def stop(self):
        self.coordinator.send_signal(signal.SIGTERM)
        for worker in self.workers:
            worker.is_expected_to_end = True
            if worker.process.wait(self.options.patience) != STOPPED:
                self.findings.append(f"worker {worker.number} ends with {worker.process.returncode}, not {STOPPED}")
        self.coordinator.wait(self.options.patience)

    def close(self):
        for process in [self.coordinator, *(worker.process for worker in self.workers)]:
            if process is None:
                continue
            process.kill()
            process.wait()
        if self.options.hosts and self.coordinator:
            self.on_cluster("down")
        self.metrics.new()

    def replay(self):
        """Repeats the run up to its last generation, and returns whether all bits are the same."""
        self.membership.new()
        if not self.membership.lines:
            return False
        command = [self.options.bin / "dragonn", "replay", self.folder / "run"]
        if not self.options.steps:
            command += ["--until", str(self.membership.lines[-1]["step"])]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.findings.append(f"the replay fails: {last_line(done.stderr)}")
        return done.returncode == 0


def final_loss(row):
    return f"{next(iter(row['final'].values()))['loss']:.3f}" if row.get("final") else "-"


def report(rows):
    """Returns the tables of docs/reliability.md."""
    by_kind = collections.defaultdict(list)
    for row in rows:
        for event in row["events"]:
            by_kind[event["kind"]].append(event)

    def seconds(values):
        return f"{statistics.median(values):.2f} s, {max(values):.2f} s" if values else "-"
    events = [[kind, len(by_kind[kind]), seconds([event["gap"] for event in by_kind[kind]]),
               seconds([event["together_after"] for event in by_kind[kind] if "together_after" in event])]
              for kind in KINDS if by_kind[kind]]
    runs = [[row["config"].removesuffix(".toml"), row["workers"], row["hosts"] or "-", row["run"], len(row["events"]),
             row["generations"], row["lost_steps"], "yes" if row["replayed"] else "no", final_loss(row), len(row["findings"])]
            for row in rows]
    return "\n\n".join([
        table(["event", "events", "without a step: median, most", "all together after: median, most"], events),
        table(["config", "workers", "links", "run", "events", "generations", "steps made again", "replay equal", "final loss",
               "findings"], runs)])


def main():
    options = parse_arguments()
    rows = Rows(options.json)
    case = case_of(options)
    for number in range(options.first, options.first + (0 if options.table else options.runs)):
        if rows.has(case | {"run": number}):
            continue
        folder = options.json.resolve().parent / f"{options.json.stem}.{options.config.stem}.{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        row = Run(options, number, folder).make()
        rows.add([row])
        for finding in row["findings"]:
            print(f"run {number}: {finding}", file=sys.stderr)
        if not row["findings"]:
            shutil.rmtree(folder)
    print(report(rows))
    return 1 if any(row["findings"] for row in rows) else 0


if __name__ == "__main__":
    run_main(main, 2, json.JSONDecodeError)
