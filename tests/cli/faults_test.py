"""What breaks a run over processes ends it everywhere: soon, with exit code 6, a first line that says which process is
meant and what was waited for, and nobody left.

usage: faults_test.py --sextant PROGRAM [--long], where MPI is there; --long
or SEXTANT_LONG=1: each fault at five moments
"""

import os
import pathlib
import re
import signal
import sys
import tempfile
import time

from habits_test import expect, failures
from mpi_job import Job

TIMEOUT_S = 2
RUN = ["run", "gpt:layers=4,hidden=16,heads=2,vocab=32,seq=8", "-c", "cpu:ranks=4,memory=1GiB", "--strategy",
       "dp=2 pp=2 micro_batch=2", "--global-batch", "8", "--data", "random", "--steps", "1000000", "--timeout",
       str(TIMEOUT_S)]
# Threads of a process by which it is seen how far it is: a watch beside those of MPI when it has joined, many of
# ranks while it trains.
STARTS, PREPARES, TRAINS = 0, 6, 12


class Fault:
    """`hit` happens to the victim `after_s` after all processes have come to a stage. `dies`: the victim is no survivor.
    All have ended after `bound_s`, which is promised; on a quiet machine after `soon_s`, which is only said."""

    def __init__(self, name, processes, stage, hit, victim, says=(), code=6, bound_s=TIMEOUT_S + 5, dies=True,
                 after_s=0.2, arguments=RUN, files=None, soon_s=None, others=None):
        self.name, self.processes, self.stage, self.hit, self.victim = name, processes, stage, hit, victim
        self.says, self.code, self.bound_s, self.dies, self.after_s = says, code, bound_s, dies, after_s
        self.arguments, self.files, self.soon_s, self.others = arguments, files or {}, soon_s or bound_s, others


def threads_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


def wait_for_stage(job, stage):
    end = time.monotonic() + 30
    while any(threads_of(pid) < stage for pid in job.pids()) and job.mpirun.poll() is None:
        if time.monotonic() > end:
            raise TimeoutError(f"no process has {stage} threads")
        time.sleep(0.005)


def kill(number):
    return lambda job, rank: job.signal(rank, number)


def stop_and_go_on(job, rank):
    job.signal(rank, signal.SIGSTOP)
    time.sleep(TIMEOUT_S / 4)
    job.signal(rank, signal.SIGCONT)


def nothing(_job, _rank):
    pass


GONE = [r"process {victim} of \d \(ranks? [0-9to ]+, host \S+, pid \d+\) is gone"]
GONE_EARLY = [r"process {victim} of \d \((ranks? [0-9to ]+, )?host \S+, pid \d+\) is gone"]
WAITED = [r"rank \d: operator '[^']+' \([a-z_]+\), act \d+ of step \d+: ",
          r"communication \d+ of group '[^']+': ranks [0-9, ]+ arrived, "]
# Whoever waited for the process says so, unless the silence is noticed first.
SILENT = [r"process {victim} of \d( \((ranks? [0-9to ]+, )?host \S+, pid \d+\))?", r"timed out after 2000 ms|has said nothing for 2000 ms"]

# Ids of bytes; what is no digit is outside the vocabulary, and rare enough that no first step meets it.
TORN_TEXT = ("0123456789" * 150 + "z") * 50
TORN = [*(word.replace("vocab=32", "vocab=64") for word in RUN)]
TORN[TORN.index("random")] = "torn.txt"

# Comes to MPI's start, which waits for all, and says nothing after it.
SPEECHLESS = """
import ctypes, time
ctypes.CDLL("libmpi.so", ctypes.RTLD_GLOBAL).MPI_Init(None, None)
time.sleep(60)
"""

FAULTS = [
    Fault("killed in training, of two", 2, TRAINS, kill(signal.SIGKILL), 1, GONE + WAITED, soon_s=3),
    Fault("the first killed in training", 2, TRAINS, kill(signal.SIGKILL), 0, GONE + WAITED, soon_s=3),
    Fault("killed, a process per rank", 4, TRAINS, kill(signal.SIGKILL), 2, GONE, soon_s=3, after_s=0.5),
    Fault("crashed", 3, TRAINS, kill(signal.SIGSEGV), 1, GONE, soon_s=3),
    Fault("killed in the first step", 2, TRAINS, kill(signal.SIGKILL), 1, GONE, soon_s=3, after_s=0),
    Fault("killed while it prepares", 2, PREPARES, kill(signal.SIGKILL), 1, GONE_EARLY, soon_s=3, after_s=0),
    Fault("stopped in training", 2, TRAINS, kill(signal.SIGSTOP), 1, SILENT + WAITED[1:]),
    Fault("the first stopped in training", 2, TRAINS, kill(signal.SIGSTOP), 0, SILENT),
    Fault("stopped, a process per rank", 4, TRAINS, kill(signal.SIGSTOP), 3, SILENT),
    Fault("stopped while it prepares", 2, PREPARES, kill(signal.SIGSTOP), 1, SILENT[:1], after_s=0),
    Fault("stopped before it joins", 2, STARTS, kill(signal.SIGSTOP), 1, [r"process \d of 2"], after_s=0),
    Fault("never said where it is", 2, STARTS, nothing, 1, [r"process 1 of 2 has said nothing for 6000 ms"],
          bound_s=30, arguments=[*RUN[:-1], "6"], others={1: [sys.executable, "speechless.py"]}, files={"speechless.py": SPEECHLESS}),
    # The launcher's signal to the others comes a second after the victim's end, its word before.
    Fault("interrupted while it prepares, alone", 2, PREPARES, kill(signal.SIGTERM), 1,
          [r"process 1 of 2"], after_s=0.05),
    Fault("interrupted in training, alone", 2, TRAINS, kill(signal.SIGTERM), 1, [r"interrupted \(process 1 of 2"]),
    Fault("slow, and there again", 2, TRAINS, stop_and_go_on, 1, code=0, dies=False, bound_s=90,
          arguments=["600" if word == "1000000" else word for word in RUN]),
    Fault("a sample that one rank cannot read", 2, STARTS, nothing, 0, [r"(: |stopped: )labels: sample \d+, place \d: id 122 is outside the vocabulary 0 to 63", r"host \S+, pid \d+"],
          dies=False, bound_s=30, arguments=TORN, files={"torn.txt": TORN_TEXT}),
]


def check(program, fault, shift_s, folder):
    for name, text in fault.files.items():
        (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
    with Job(fault.processes, [program, *fault.arguments], fault.others, cwd=folder) as job:
        wait_for_stage(job, fault.stage)
        time.sleep(fault.after_s + shift_s)
        if job.mpirun.poll() is not None and fault.hit is not nothing:
            return expect(False, f"{fault.name}: the run was over before its fault: {job.said()}")
        begin = time.monotonic()
        fault.hit(job, fault.victim)
        try:
            job.wait(fault.bound_s + 10)
        except Exception as error:  # a hang is the worst of faults: say what hangs
            return expect(False, f"{fault.name}: {error}: {job.exit_codes()} {job.said()}")
        seconds = time.monotonic() - begin
        said = job.said()
        survivors = [rank for rank in range(fault.processes) if rank != fault.victim or not fault.dies]
        codes = [job.exit_code(rank) for rank in survivors]
        # The launcher kills, a few milliseconds after the first has ended, whoever is about to.
        ended = [code for code in codes if code is not None]
        expect(ended and set(ended) == {fault.code},
               f"{fault.name}: exit codes {job.exit_codes()}, wanted {fault.code}: {said}")
        expect(seconds < fault.bound_s, f"{fault.name}: {seconds:.1f} s, wanted {fault.bound_s}: {said}")
        if seconds > fault.soon_s:
            print(f"{fault.name}: slower than the {fault.soon_s} s of a quiet machine")
        # The first process speaks for all; where it was stopped, the launcher lets it go on before it kills.
        errors = {rank: [line for line in job.err(rank).splitlines() if line.startswith("error")] for rank in range(fault.processes)}
        lines = [line for rank in survivors for line in errors[rank]] or errors[fault.victim]
        if fault.code != 0:
            expect(len(lines) >= 1 and lines[0].startswith("error (rank_failed): "), f"{fault.name}: {said}")
        for pattern in fault.says:
            wanted = pattern.replace("{victim}", str(fault.victim))
            expect(bool(lines) and re.search(wanted, lines[0]) is not None, f"{fault.name}: no '{wanted}' in: {said}")
        if WAITED[1] in fault.says:
            rows = [line for line in said.splitlines() if re.search(r"\]   rank \d, [a-z_]+: launch \d+, '", line)]
            expect(any("at work" in row for row in rows) and any("waits for launch" in row for row in rows),
                   f"{fault.name}: what stood still is not said: {said}")
        print(f"{fault.name}: {seconds:.1f} s, {job.exit_codes()}\n    {lines[0] if lines else ''}", flush=True)


def main():
    program = pathlib.Path(sys.argv[sys.argv.index("--sextant") + 1]).resolve()
    is_long = "--long" in sys.argv or bool(os.environ.get("SEXTANT_LONG"))
    for fault in FAULTS:
        for shift_s in (0.0, 0.07, 0.19, 0.43, 0.77) if is_long else (0.0,):
            with tempfile.TemporaryDirectory() as folder:
                check(program, fault, shift_s, folder)
    print(f"{len(failures)} expectations failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
