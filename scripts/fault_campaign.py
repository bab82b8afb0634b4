#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes runs of 3 workers fail at random, by the hundred, and judges how each ends. docs/reliability.md has what is promised, and
the table. Build dragonn-train before (scripts/test.sh).

A fault is drawn from the seed and its number: its kind, a method, a backend, and a place in the program (core/fault_point.h) or
a time. The run must end before the deadline with an error that names the rank and the step, or go on where it may; resumed, it
must end with the parameters of a run that nothing disturbed. Hang, loss (no such resume), wrong exit code and missing words are
findings. Faults that OUTPUT/faults.jsonl has are not repeated; the folder of a finding is kept in OUTPUT/work.
"""
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

from runs import BIN, CLUSTER, ROOT, make_parser, metrics, output_of, run_main, sets, summary, table, words

WORKERS = 3
STEPS = 40
CHECKPOINT_EVERY = 5
DEADLINE = 8  # comm.timeout_s: a busy machine must not be taken for a dead rank
PATIENCE = 10 * DEADLINE  # a run that takes longer hangs
SETTINGS = ["seed=3", "model.hidden=[16]", "data.train_samples=240", "data.test_samples=40", "data.height=6", "data.width=6",
            "data.channels=1", "data.classes=4", "train.epochs=2", "train.batch_size=4", f"train.max_steps={STEPS}",
            f"checkpoint.every_steps={CHECKPOINT_EVERY}", "checkpoint.keep=4", "logging.every_steps=5",
            f"comm.timeout_s={DEADLINE}", f"comm.start_timeout_s={DEADLINE}"]
METHODS = {
    **{name: [f"compression.method={name}"]
       for name in words("dense,topk,dgc,gtopk,oktopk,exdyna,cltk,dsa,index_union,signsgd,qsgd")},
    "dgc_overlap": ["compression.method=dgc", "compression.bucket=tensor", "compression.overlap=true"],
    "topk_rice": ["compression.method=topk", "compression.codec.values=int8"],
}
OUTSIDE_STEPS = ["start", "evaluate", "save", "commit", "finish"]
MPI_PLACES = ["mpi_init", "mpi_dup", "mpi_free", "mpi_finalize"]
ACTIONS = {"throw": "throw", "kill": "kill", "stop, continue": "stop", "stop": "stop", "term": "term", "usr1": "usr1",
           "delay": "sleep=0.4", "long delay": f"sleep={3 * DEADLINE}"}  # at a place
DAMAGES = ("flipped bit", "cut file", "damaged DONE")
KINDS = ["throw", "kill", "kill at a time", "stop, continue", "stop", "stop at a time", "term", "term at a time", "usr1",
         "delay", "long delay", "full disk", "file limit", *DAMAGES, "network"]
MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_odls_base_sigkill_timeout": "2"}
TERMS = ("term", "usr1", "term at a time")
BACKENDS = ["local", "mpi", "tcp"]


def kill(pid, number, send=os.kill):
    """Sends a signal to a process that may have ended."""
    with contextlib.suppress(ProcessLookupError):
        send(pid, number)


def error_lines(text, others=()):
    return [line for line in text.splitlines() if " E " in line or line.startswith(tuple(others))]


class Processes:
    """The processes of one run, and what they print."""

    def __init__(self, commands, environments, file_limit=None):
        def before():
            os.setsid()
            if file_limit:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
        self.processes = [
            subprocess.Popen(command, env=dict(os.environ, **environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True, errors="replace", preexec_fn=before)
            for command, environment in zip(commands, environments)]
        pool = concurrent.futures.ThreadPoolExecutor(len(self.processes))
        self.texts = [pool.submit(process.stderr.read) for process in self.processes]
        pool.shutdown(wait=False)

    def ended(self):
        return all(process.poll() is not None for process in self.processes)

    def end(self):
        """Ends what is left, whatever it does."""
        for process in self.processes:
            kill(process.pid, signal.SIGKILL, os.killpg)
            process.wait()

    def text(self):
        return "".join(text.result(timeout=30) for text in self.texts)

    def wait(self, start, look=lambda: None):
        """Until all have ended, or patience has. Returns whether it has."""
        while not self.ended() and time.monotonic() - start < PATIENCE:
            time.sleep(0.02)
            look()
        return not self.ended()


class Case:
    """One fault, and its judgement."""

    def __init__(self, campaign, name, method=""):
        self.campaign, self.folder, self.method, self.kind = campaign, campaign.output / "work" / name, method, ""
        self.run_folder = self.folder / "run"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.findings, self.outcome, self.resumed, self.code, self.message, self.seconds = [], "", "", None, "", 0.0

    def draw(self, index):
        campaign, self.index = self.campaign, index
        draw = self.random = random.Random(f"{campaign.seed}/{index}")
        self.kind, self.method = draw.choice(campaign.kinds), draw.choice(list(METHODS))
        self.backend = draw.choice(campaign.backends)
        if self.kind == "stop" and self.backend == "local":
            self.kind = "stop, continue"  # a process that is stopped for ever is no run that could end
        if self.kind == "network" or (self.kind == "file limit" and self.backend == "mpi"):
            self.backend = "tcp"  # mpirun and MPI write files of their own
        if self.kind == "stop at a time":
            self.backend = "mpi"
        outside = OUTSIDE_STEPS + (MPI_PLACES if self.backend == "mpi" else [])
        self.place = draw.choice(campaign.places or (campaign.verbs[self.method] if draw.random() < 0.7 else outside))
        if self.place in MPI_PLACES and self.at_a_place():
            self.backend = "mpi"
            if self.kind == "throw":
                self.kind = "kill"  # where MPI is not at work, an error is that of the program's main
        self.rank = 0 if self.place == "commit" else draw.randrange(WORKERS)
        self.process_rank = 0 if self.backend == "local" else self.rank
        often = {"start": 1, "finish": 1, "evaluate": 2, "save": STEPS // CHECKPOINT_EVERY, "commit": STEPS // CHECKPOINT_EVERY,
                 **dict.fromkeys(MPI_PLACES, 1)}
        self.number = draw.randint(1, often.get(self.place, STEPS))
        self.delay = draw.uniform(0, 1.2) * campaign.seconds.get(self.backend, 1)
        self.bytes = int(2 ** draw.uniform(8, 16))

    def at_a_place(self):
        return self.kind in ACTIONS

    def commands(self, backend, more, environment):
        """Returns the command and environment of each process of a run."""
        base = [str(self.campaign.train), str(ROOT / "configs/synthetic_quick.toml"), *sets(SETTINGS + METHODS[self.method]),
                "--output", str(self.run_folder), *more]
        if backend == "local":
            return [base + ["--workers", str(WORKERS)]], [environment]
        if backend == "mpi":
            return [["mpirun", "-np", str(WORKERS), *base]], [environment | MPI_ENVIRONMENT]
        meeting = f"file:{self.folder}/meeting"
        prefix = [[]] * WORKERS
        if self.kind == "network" and not more:
            meeting = f"tcp:198.18.0.1:{20000 + self.index % 20000}"
            prefix = [["ip", "netns", "exec", f"{self.campaign.cluster}-host{rank + 1}"] for rank in range(WORKERS)]
        command = base + ["--set", "comm.backend=tcp", "--set", f"comm.rendezvous={meeting}"]
        return ([prefix[rank] + command for rank in range(WORKERS)],
                [environment | {"RANK": str(rank), "WORLD_SIZE": str(WORKERS)} for rank in range(WORKERS)])

    def pids(self):
        """Returns the processes that train, by rank; one under rank 0 for local workers."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if not entry.name.isdigit() or f"--output\0{self.run_folder}\0".encode() not in (entry / "cmdline").read_bytes():
                    continue
                if not os.path.basename(os.readlink(entry / "exe")).startswith("dragonn-train"):
                    continue
                words = dict(word.split("=", 1) for word in (entry / "environ").read_text(errors="replace").split("\0")
                             if "=" in word)
                found[int(words.get("OMPI_COMM_WORLD_RANK", words.get("RANK", 0)))] = int(entry.name)
            except (OSError, ValueError):
                continue
        return found

    def run(self):
        with self.campaign.network if self.kind == "network" else contextlib.nullcontext():
            (self.damage if self.kind in DAMAGES else self.disturb)()
        record = {"fault": self.index, "kind": self.kind, "method": self.method, "backend": self.backend,
                  "place": self.place if self.at_a_place() else "", "rank": self.rank, "pass": self.number,
                  "seconds": round(self.seconds, 2), "code": self.code, "outcome": self.outcome, "resumed": self.resumed,
                  "findings": self.findings, "message": self.message}
        if not self.findings:
            shutil.rmtree(self.folder, ignore_errors=True)
        return record

    def disturb(self):
        environment = {}
        if self.at_a_place():
            environment["DRAGONN_FAULT"] = f"{self.place}:{self.rank}:{self.number}:{ACTIONS[self.kind]}"
        if self.kind == "full disk":
            self.run_folder.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.run_folder], check=True)
        start = time.monotonic()
        processes = Processes(*self.commands(self.backend, [], environment),
                              file_limit=self.bytes if self.kind == "file limit" else None)
        try:
            self.act(processes, start)
            hangs = processes.wait(start, self.release_stopped)
            self.seconds = time.monotonic() - start
            codes = [process.poll() for process in processes.processes]
        finally:
            left = self.pids()
            for pid in left.values():
                kill(pid, signal.SIGKILL)
            processes.end()
            if self.kind == "network":
                self.link("up")
        text = processes.text()
        (self.folder / "log").write_text(text)
        (self.run_folder / "filler").unlink(missing_ok=True)
        if hangs:
            self.findings.append(f"hang: not ended after {PATIENCE} s")
        elif not self.kind.startswith("stop") and left:
            self.findings.append("processes are left")
        self.judge(codes, text, hangs)
        self.resume()
        if self.kind == "full disk":
            subprocess.run(["umount", self.run_folder], check=True)

    def act(self, processes, start):
        """Does what no place in the program does."""
        if self.kind not in ("kill at a time", "stop at a time", "term at a time", "full disk", "network"):
            return
        while time.monotonic() - start < self.delay and not processes.ended():
            time.sleep(0.005)
        if self.kind == "network":
            self.link("down")
        elif self.kind == "full disk":
            self.fill()
        elif pid := self.pids().get(self.process_rank):
            os.kill(pid, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "term": signal.SIGTERM}[self.kind.split()[0]])

    def link(self, state):
        subprocess.run(["ip", "-n", f"{self.campaign.cluster}-host{self.rank + 1}", "link", "set", "eth0", state], check=True)

    def fill(self):
        """Leaves little or nothing of the disk."""
        with open(self.run_folder / "filler", "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(4096))
            os.truncate(filler.fileno(), max(0, filler.tell() - self.bytes // 4 * self.random.randrange(2)))

    def release_stopped(self):
        """Continues the process that a fault has stopped, once; or ends it when all others have ended."""
        pids = self.pids() if self.kind.startswith("stop") else {}
        pid = pids.get(self.process_rank)
        try:
            if not pid or pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
                return
        except OSError:
            return
        if self.kind == "stop, continue":
            time.sleep(0.5)
            os.kill(pid, signal.SIGCONT)
        elif len(pids) == 1:
            os.kill(pid, signal.SIGKILL)

    def judge(self, codes, text, hangs):
        self.code = max((abs(code) for code in codes if code is not None), default=None)
        errors = error_lines(text, ["rank "])
        self.message = errors[0][:300] if errors else ""
        words = "\n".join(errors)
        # Where the program is not yet or no longer at work, in MPI's own start and end, its launcher speaks.
        has_summary = (self.run_folder / "summary.json").exists()
        if not (self.run_folder / "metrics.jsonl").exists() or has_summary:
            words += "".join(line for line in text.splitlines() if line.startswith("mpirun noticed"))
        finished = has_summary and all(code == 0 for code in codes)
        self.outcome = "went on" if finished else "stopped with a checkpoint" if 75 in codes else "ended"
        if hangs:
            return
        if self.kind in ("stop, continue", "delay") and not finished:
            self.findings.append(f"did not go on: {self.message}")
        if self.kind in TERMS and self.outcome == "ended" and not self.ends_before_training(codes):
            self.findings.append(f"exit codes {codes}, neither 0 nor 75: {self.message}")
        if self.kind in ("throw", "kill", "stop", "long delay") and finished:
            self.findings.append("went on, although a rank was gone")
        # Nobody is left to say that the only process was killed.
        if self.outcome != "ended" or self.kind in TERMS or (self.backend == "local" and self.kind.startswith("kill")):
            return
        if not any(codes):
            self.findings.append("exit code 0 of a run that did not finish")
        self.judge_words(words)

    def ends_before_training(self, codes):
        """Before the first step nothing can be lost, and SIGTERM does what it always does."""
        began = (self.run_folder / "metrics.jsonl").exists()
        saved = (self.run_folder / "checkpoints").exists()
        first = not saved and "'step 1" in self.message  # other ranks were in it already
        return self.kind.startswith("term") and (first or not began) and any(codes)

    def judge_words(self, errors):
        began = (self.run_folder / "metrics.jsonl").exists()
        if self.kind in ("full disk", "file limit"):
            if not re.search(r"(cannot|not enough disk)", errors):
                self.findings.append(f"does not say what cannot be written: {self.message}")
            return
        if self.place == "commit" and self.kind == "throw":
            return  # what rank 0 does for all is no rank's own error, and names its file instead
        wanted = r"rank \d" if self.kind == "network" else rf"rank {self.rank}\b"
        if self.place in MPI_PLACES and self.kind == "long delay":  # MPI does not tell which rank it waits for
            wanted = r"MPI_\w+ has not returned within|connecting to all ranks: nothing for"
        if not re.search(wanted, errors):
            self.findings.append(f"does not name rank {self.rank}: {self.message}")
        has_steps = began and not (self.run_folder / "summary.json").exists()
        outside = self.at_a_place() and self.place in ("start", "finish", *MPI_PLACES)
        if has_steps and not outside and not re.search(r"step \d+", errors):
            self.findings.append(f"does not name the step: {self.message}")

    def resume(self, backend=None):
        """Resumes from what is left, on the same backend or as local workers: the bits are the same."""
        backend = backend or self.random.choice([self.backend, "local"])
        (self.run_folder / "summary.json").unlink(missing_ok=True)
        code, text = self.run_to_end(backend, ["--resume", "auto"])
        if code != 0:
            self.resumed = "failed"
            self.findings.append(f"loss: cannot resume: {text.strip().splitlines()[-1:]}")
        elif summary(self.run_folder)["parameters_hash"] == self.campaign.hashes[self.method]:
            self.resumed = "equal"
        else:
            self.resumed = "other parameters"
            self.findings.append("loss: another result after resuming")

    def run_to_end(self, backend, more):
        processes = Processes(*self.commands(backend, more, {}))
        if processes.wait(time.monotonic()):
            self.findings.append("hang: a run that nothing disturbs")
        processes.end()
        return max(abs(process.returncode) for process in processes.processes), processes.text()

    def damage(self):
        """Damages a file of the newest checkpoint of a run that was cut short, or DONE of it or of all."""
        start = time.monotonic()
        self.run_to_end("local", ["--set", f"train.max_steps={CHECKPOINT_EVERY * self.random.randint(2, 4)}"])
        checkpoints = sorted((self.run_folder / "checkpoints").glob("step-*"))
        damaged = checkpoints[-1:]
        if self.kind == "damaged DONE":
            damaged = self.random.choice([damaged, damaged, checkpoints])
            what = self.random.choice(["emptied", "changed", "folder", "pipe", "missing"])
            for checkpoint in damaged:
                self.damage_done(checkpoint / "DONE", what)
        else:
            file = self.random.choice(sorted(damaged[0].iterdir()))
            what, content = file.name, bytearray(file.read_bytes())
            place = self.random.randrange(len(content))
            if self.kind == "cut file":
                del content[place:]
            else:
                content[place] ^= 1 << self.random.randrange(8)
            file.write_bytes(content)
        code, text = self.run_to_end(self.backend, ["--resume", "auto"])
        self.code, self.seconds = code, time.monotonic() - start
        errors = error_lines(text)
        self.message = errors[0][:300] if errors else ""
        self.outcome = "went on" if code == 0 else "ended"
        if code == 0:
            self.findings.append(f"loss: went on with {len(damaged)} damaged checkpoints ({what})")
        elif any(checkpoint.name not in text for checkpoint in damaged):
            self.findings.append(f"does not name the damaged {damaged[-1].name} ({what}): {self.message}")
        for checkpoint in damaged:
            shutil.rmtree(checkpoint, ignore_errors=True)
        self.resume("local")

    def damage_done(self, done, what):
        content = done.read_bytes()
        done.unlink()
        if what == "emptied":
            done.touch()
        elif what == "changed":
            done.write_bytes(bytes([content[0] ^ 1 << self.random.randrange(8)]) + content[1:])
        elif what == "folder":
            done.mkdir()
        elif what == "pipe":
            os.mkfifo(done)


def fault(campaign, index):
    """Makes the fault of this number. Returns what came of it."""
    case = campaign.make_case(campaign, f"{index:05}")
    case.draw(index)
    return case.run()


class Campaign:
    def __init__(self, options, make_case, backends):
        self.seed, self.output, self.train = options.seed, options.output.resolve(), options.bin.resolve() / "dragonn-train"
        self.hashes, self.verbs, self.seconds = {}, dict.fromkeys(METHODS, []), {}
        self.network, self.cluster = threading.Lock(), f"faults{os.getpid()}"
        self.places, self.make_case, self.backends = options.place or [], make_case, backends
        kinds = options.kind or ([kind for kind in options.kinds if kind in ACTIONS] if self.places else options.kinds)
        if "with fault points" not in output_of([self.train, "--version"]) and set(kinds) & set(ACTIONS):
            raise RuntimeError(f"{self.train} has no fault points: build it with DRAGONN_FAULT_POINTS=ON, as scripts/test.sh does")
        self.kinds = [kind for kind in kinds if self.permits(kind)]

    def permits(self, kind):
        if kind != "network":
            return kind != "full disk" or os.geteuid() == 0
        permits = os.geteuid() == 0 and self.on_cluster("up", str(WORKERS), "1gbit")
        if not permits:
            print("fault_campaign: no network faults: this machine permits no network namespaces", file=sys.stderr)
        return permits

    def on_cluster(self, *words):
        environment = os.environ | {"DRAGONN_CLUSTER": self.cluster, "DRAGONN_CLUSTER_AWAKE": "no"}
        return subprocess.run([CLUSTER, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode == 0

    def undisturbed(self):
        """Runs each method as nothing disturbs it; notes what it ends with and which verbs it has."""
        for method in METHODS:
            case = Case(self, f"whole-{method}", method)
            code, text = case.run_to_end("local", [])
            if code:
                raise RuntimeError(f"{method} fails undisturbed: {text}")
            self.hashes[method] = summary(case.run_folder)["parameters_hash"]
            verbs = set(metrics(case.run_folder, "step")[-1]["seconds"]) | {"agree"}
            # The thread of backward has no verb of its own beside an exchange.
            others = {"decode", "backward"} if method == "dgc_overlap" else {"decode"}
            self.verbs[method] = sorted(verb for verb in verbs - others if not verb.startswith("exchange_"))
        for backend in BACKENDS:
            start = time.monotonic()
            case.run_to_end(backend, [])
            self.seconds[backend] = time.monotonic() - start


def report(records):
    """Returns the table of docs/reliability.md."""
    def row(name, some):
        outcomes = [record["outcome"] for record in some]
        findings = [finding for record in some for finding in record["findings"]]
        hangs, losses = (sum(finding.startswith(word) for finding in findings) for word in ("hang", "loss"))
        return [name, len(some), *map(outcomes.count, ("ended", "stopped with a checkpoint", "went on")), hangs, losses,
                len(findings) - hangs - losses]

    by_kind = {kind: [record for record in records if record["kind"] == kind] for kind in KINDS}
    lines = [table(["fault", "faults", "ended with an error", "stopped with a checkpoint", "went on", "hangs", "losses",
                    "other findings"], [*(row(kind, some) for kind, some in by_kind.items() if some), row("all", records)])]
    for key in ("backend", "method", "place"):
        if counts := collections.Counter(record[key] for record in records if record[key]):
            lines.append(f"\nby {key}: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    return "\n".join(lines)


def main(text=__doc__, output="runs/faults", make_case=Case, kinds=tuple(KINDS), backends=tuple(BACKENDS)):
    """The campaign, of these cases."""
    parser = make_parser(text)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=100, help="number of faults, those of earlier calls included")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(output))
    parser.add_argument("--bin", type=pathlib.Path, default=BIN)
    parser.add_argument("--kind", action="append", choices=kinds, help="draw faults of this kind; may be given again")
    parser.add_argument("--place", action="append", choices=OUTSIDE_STEPS + MPI_PLACES,
                        help="draw faults at this place; may be given again")
    parser.add_argument("--jobs", type=int, default=1, choices=(1, 2), help="faults at a time; one on a network")
    parser.add_argument("--only", type=int, help="repeat the fault of this number alone")
    parser.add_argument("--table", action="store_true", help="print the table of the faults so far, and do nothing else")
    options = parser.parse_args()
    options.kinds = list(kinds)
    records_file = options.output / "faults.jsonl"
    records = [json.loads(line) for line in records_file.read_text().splitlines()] if records_file.exists() else []
    if options.table:
        print(report(records))
        return 0
    if not (options.bin / "dragonn-train").exists():
        parser.error(f"--bin {options.bin}: no dragonn-train there: run scripts/test.sh, or name another folder")
    options.output.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(options, make_case, backends)
    try:
        campaign.undisturbed()
        if options.only is not None:
            print(json.dumps(fault(campaign, options.only), indent=1))
            return 0
        known = {record["fault"] for record in records}
        left = [index for index in range(options.faults) if index not in known]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool, records_file.open("a") as out:
            try:
                for record in pool.map(lambda index: fault(campaign, index), left):
                    records.append(record)
                    print(json.dumps(record), file=out, flush=True)
                    for finding in record["findings"]:
                        print(f"fault {record['fault']} ({record['kind']}, {record['method']}, {record['backend']}, "
                              f"{record['place']}): {finding}", file=sys.stderr)
            finally:
                pool.shutdown(cancel_futures=True)  # an interrupted campaign ends after the faults at hand
    finally:
        campaign.on_cluster("down")
    print(report(records))
    return 1 if any(record["findings"] for record in records) else 0


if __name__ == "__main__":
    run_main(main)
