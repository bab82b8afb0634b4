#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes a worker of elastic runs of 3 fail at random, by the hundred, and judges what the others make of it: they must go on to the
end of the run, without a restart, and `dragonn replay` must repeat it to the same bits. All else is as in fault_campaign.py.
"""
import signal
import subprocess

from fault_campaign import DEADLINE, TERMS, WORKERS, Case, error_lines, main
from runs import run_main, sets

# What an elastic run outlives, whichever worker it meets; its coordinator is a process of its own.
KINDS = ("kill", "kill at a time", "stop, continue", "stop", "delay", *TERMS)


class ElasticCase(Case):
    """A fault of a worker of an elastic run: the others go on to the end, and a replay has the same bits."""

    def commands(self, backend, more, environment):
        commands, environments = super().commands("tcp", more, environment)
        for rank, own in enumerate(environments):
            if rank != self.rank:  # else it would fail, too, once it has that rank
                own.pop("DRAGONN_FAULT", None)
        keys = sets(["comm.elastic=true", "comm.coordinator=separate", "comm.heartbeat_timeout_s=2", f"comm.timeout_s={DEADLINE}"])
        config, rendezvous = commands[0][1], commands[0][-1]
        coordinator = [str(self.campaign.train.with_name("dragonn")), "coordinator", config, "--workers", str(WORKERS), *keys, "--set",
                       "comm.backend=tcp", "--set", rendezvous]
        return [*(command + keys for command in commands), coordinator], [*environments, {}]

    def judge(self, codes, text, hangs):
        self.code = codes[self.rank]
        errors = error_lines(text)
        self.message = errors[0][:300] if errors else ""
        others = [code for rank, code in enumerate(codes) if rank != self.rank]
        went_on = (self.run_folder / "summary.json").exists() and not any(others)
        self.outcome = "went on" if went_on else "stopped with a checkpoint" if 75 in others else "ended"
        if not went_on and not hangs:
            self.findings.append(f"the others did not go on: exit codes {codes}: {self.message}")
        if self.kind in TERMS and codes[self.rank] not in (0, 75, -signal.SIGTERM):
            self.findings.append(f"exit code {codes[self.rank]} behind a signal: {self.message}")

    def resume(self, backend=None):
        """Repeats the run."""
        command = [self.campaign.train.with_name("dragonn"), "replay", self.run_folder]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        self.resumed = "equal" if done.returncode == 0 else "failed"
        if done.returncode != 0:
            self.findings.append(f"loss: the replay fails: {done.stderr.strip().splitlines()[-1:]}")


if __name__ == "__main__":
    run_main(lambda: main(__doc__, "runs/elastic_faults", ElasticCase, KINDS, ("tcp",)))
