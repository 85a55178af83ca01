"""Two network namespaces as two hosts: a run over both is a run, and a cable that is pulled ends it on both.

A launcher's agent enters the namespace instead of logging in. Needs root and `ip`; skipped visibly elsewhere.

usage: two_hosts_test.py --sextant PROGRAM, where MPI is there
"""

import json
import os
import re
import signal
import subprocess
import sys
import time

from faults_test import TRAINS, wait_for_stage
from habits_test import expect, run_checks
from mpi_job import Job, is_alive

FOUR = ["run", "gpt:layers=4,hidden=16,heads=2,vocab=32,seq=8", "-c", "cpu:ranks=4,memory=1GiB", "--strategy",
        "dp=2 pp=2 micro_batch=2", "--global-batch", "8", "--data", "random", "--steps"]
SKIPPED, TIMEOUT_S = 77, 3

# $1: the address of a host; behind it what a login would run.
AGENT = """#!/bin/sh
case $1 in *.1) host={prefix}a;; *) host={prefix}b;; esac
shift
exec ip netns exec $host unshare --uts sh -c 'hostname $0; exec sh -c "$1"' $host "$*"
"""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=False)


class TwoHosts:
    """Namespaces `a` and `b` with a cable between them."""

    def __init__(self, folder):
        self.prefix = f"sx{os.getpid()}"
        self.a, self.b = self.prefix + "a", self.prefix + "b"
        self.agent = folder / "agent"
        self.agent.write_text(AGENT.format(prefix=self.prefix), encoding="utf-8")
        self.agent.chmod(0o755)

    def __enter__(self):
        steps = [["netns", "add", self.a], ["netns", "add", self.b],
                 ["link", "add", self.a, "netns", self.a, "type", "veth", "peer", "name", self.b, "netns", self.b]]
        for number, host in enumerate((self.a, self.b), 1):
            steps += [["-n", host, "addr", "add", f"10.77.0.{number}/24", "dev", host],
                      ["-n", host, "link", "set", "lo", "up"], ["-n", host, "link", "set", host, "up"]]
        try:
            failed = [result.stderr.strip() for result in map(lambda step: ip(*step), steps) if result.returncode != 0]
        except FileNotFoundError:
            failed = ["no `ip`"]
        self.why_not = "; ".join(failed)
        return self

    def __exit__(self, *_):
        for host in (self.a, self.b):
            try:
                ip("netns", "del", host)
            except FileNotFoundError:
                pass

    def launcher(self):
        """Words before mpirun's own."""
        return ["ip", "netns", "exec", self.a, "unshare", "--uts", "sh", "-c", 'hostname "$0"; exec "$@"', self.a]

    def options(self):
        network = ["--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include", "10.77.0.0/24"]
        return ["--mca", "plm", "rsh", "--mca", "plm_rsh_agent", self.agent, *network, "--host", "10.77.0.1:2,10.77.0.2:2",
                "--map-by", "node"]

    def pull_cable(self):
        ip("-n", self.b, "link", "set", self.b, "down")


def check_machine(program):
    with TwoHosts(program.folder) as hosts:
        if hosts.why_not:
            print(f"skipped: no network namespaces here: {hosts.why_not}")
            sys.exit(SKIPPED)


def check_run(program):
    program.run(*FOUR, "4", "--out", "one", "--record", "one.rec").expect_code(0)
    with TwoHosts(program.folder) as hosts:
        with Job(2, [program.path, *FOUR, "4", "--out", "two", "--record", "two.rec"], cwd=program.folder,
                 options=hosts.options(), launcher=hosts.launcher()) as job:
            job.wait()
            expect(job.exit_codes() == [0, 0], f"{job.exit_codes()}: {job.said()}")

    def losses(name):
        lines = (program.folder / name / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["loss"] for line in lines]

    def issued(name):
        return json.loads((program.folder / name / "run.json").read_text(encoding="utf-8"))["issued"]

    expect(losses("one") == losses("two"), "losses of two hosts are others")
    expect(issued("one") == issued("two"), "orders of two hosts are others")
    replay = program.run("simulate", "one/plan.json", "--replay", "two.rec", "--json").expect_code(0).document()
    expect(replay["began_early"]["launches"] == 0, f"launches of two hosts before their waits: {replay}")


def check_faults(program):
    """The words name the host; where the network is gone each host ends by itself."""
    with TwoHosts(program.folder) as hosts:
        for name, hit in (("killed", lambda job: job.signal(1, signal.SIGKILL)), ("stopped", lambda job: job.signal(1, signal.SIGSTOP)),
                          ("cable pulled", lambda job: hosts.pull_cable())):
            with Job(2, [program.path, *FOUR, "1000000", "--timeout", str(TIMEOUT_S)], cwd=program.folder, options=hosts.options(),
                     launcher=hosts.launcher()) as job:
                wait_for_stage(job, TRAINS)
                time.sleep(0.3)
                begin = time.monotonic()
                hit(job)
                # Without a network the launcher waits for its own other half.
                while any(map(is_alive, job.pids())) and time.monotonic() - begin < 20:
                    time.sleep(0.01)
                seconds = time.monotonic() - begin
                if name != "cable pulled":
                    job.wait(20)
                lines = [line for line in job.err(0).splitlines() if line.startswith("error")]
                print(f"{name}: {seconds:.1f} s, {job.exit_codes()}\n    {lines[0] if lines else job.said()}", flush=True)
                # The launcher kills, a few milliseconds after one has ended, whoever is about to.
                expect(job.exit_code(0) in (6, None), f"{name}: {job.exit_codes()}: {job.said()}")
                expect(bool(lines) and lines[0].startswith("error (rank_failed)"), f"{name}: {job.said()}")
                expect(seconds < TIMEOUT_S + 5, f"{name}: {seconds:.1f} s")
                expect(bool(lines) and re.search(r"process 1 of 2 \(ranks 2 to 3, host " + hosts.b + r", pid \d+\)", lines[0]) is not None,
                       f"{name}: which host is not said: {job.said()}")


if __name__ == "__main__":
    sys.exit(run_checks(check_machine, check_run, check_faults))
