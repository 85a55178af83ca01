"""What breaks a run over processes ends it everywhere: soon, with exit code 6, a first line that says which process is
meant and what was waited for, nobody left and nothing half-written.

usage: faults_test.py --sextant PROGRAM [--leave-check PROGRAM] [--long] [--only PART], where MPI is there; --long
or SEXTANT_LONG=1: each fault at five moments. --only: those with it in their names
"""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

from habits_test import expect, failures
from mpi_job import Job

TIMEOUT_S = 2
# Most of the time all wait for a timeout.
SIDE_BY_SIDE = 4
MODEL = "gpt:layers=4,hidden=16,heads=2,vocab=32,seq=8"
RUN = ["run", MODEL, "-c", "cpu:ranks=4,memory=1GiB", "--strategy",
       "dp=2 pp=2 micro_batch=2", "--global-batch", "8", "--data", "random", "--steps", "1000000", "--out", "results",
       "--timeout", str(TIMEOUT_S)]
# Threads of a process by which it is seen how far it is: a watch beside those of MPI when it has joined, many of
# ranks while it trains.
STARTS, PREPARES, TRAINS = 0, 6, 12
# A stage of its own: the first process has begun to write results.
ENDS = -1


def run_with(**changes):
    """RUN with other values of options, None: without the option."""
    words = [*RUN]
    for name, value in changes.items():
        at = words.index(f"--{name}") if f"--{name}" in words else len(words)
        words[at:at + 2] = [] if value is None else [f"--{name}", str(value)]
    return words


class Fault:
    """`hit` happens to the victim, or to all `victims`, `after_s` after all processes have come to a stage. `dies`: they are
    no survivors, who all end with one of `codes`. All have ended after `bound_s`, which is promised; on a quiet machine
    after `soon_s`, which is only said. `others`: by process, words of those that have other ones; `limits`: what a shell
    does before."""

    def __init__(self, name, processes, stage, hit, victim, says=(), code=6, codes=None, bound_s=TIMEOUT_S + 5, dies=True,
                 after_s=0.2, arguments=RUN, files=None, soon_s=None, others=None, limits=None, victims=None,
                 options=(), full_disk=False):
        self.name, self.processes, self.stage, self.hit, self.victim = name, processes, stage, hit, victim
        self.says, self.codes, self.bound_s, self.after_s = says, codes or (code,), bound_s, after_s
        self.arguments, self.files, self.soon_s = arguments, files or {}, soon_s or bound_s
        self.others, self.limits, self.options, self.full_disk = others or {}, limits or {}, options, full_disk
        self.dead = (victims or [victim]) if dies else []

    def commands(self, program):
        """By process, where it is not that of all."""
        commands = {rank: [program, *words] if words[0] == "run" else words for rank, words in self.others.items()}
        for rank, limit in self.limits.items():
            commands[rank] = ["bash", "-c", f'{limit}; exec "$@"', "bash", program, *self.arguments]
        return commands


def threads_of(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except FileNotFoundError:
        return 0


def wait_for_stage(job, stage):
    if stage == ENDS:
        while not (job.cwd / "results/metrics.jsonl").exists() and job.mpirun.poll() is None:
            time.sleep(0.0002)
        return
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


def stop_too_long(job, rank):
    """Given up by the others, and there again."""
    job.signal(rank, signal.SIGSTOP)
    time.sleep(2 * TIMEOUT_S)
    job.signal(rank, signal.SIGCONT)


def slow_down(job, rank):
    """A tenth of its speed for two seconds."""
    for _ in range(20):
        job.signal(rank, signal.SIGSTOP)
        time.sleep(0.09)
        job.signal(rank, signal.SIGCONT)
        time.sleep(0.01)


def both(hit, others):
    def hit_all(job, rank):
        for other in (rank, *others):
            hit(job, other)
    return hit_all


def sockets_of(pid):
    """File numbers by what the kernel calls a socket."""
    sockets = {}
    for entry in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{entry}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:["):
            sockets[target[len("socket:["):-1]] = int(entry)
    return sockets


def connected_sockets(pid, other):
    """File numbers of `pid` whose other end `other` has."""
    rows = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    of_other = sockets_of(other)
    theirs = {row[1] for row in rows if row[9] in of_other}
    return [number for inode, number in sockets_of(pid).items() for row in rows if row[9] == inode and row[2] in theirs]


def close_sockets(job, rank):
    """Ends every connection to the other process, as a network does that goes away; file numbers stay open."""
    pid = job.pid(rank)
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd_open, pidfd_getfd = 434, 438
    process = libc.syscall(pidfd_open, pid, 0)
    numbers = connected_sockets(pid, job.pid(1 - rank))
    expect(bool(numbers), "no socket between the processes")
    for number in numbers:
        copy = libc.syscall(pidfd_getfd, process, number, 0)
        expect(copy >= 0, f"socket {number} of another process cannot be had")
        libc.shutdown(copy, 2)
        os.close(copy)
    os.close(process)


def kill_launcher(job, _rank):
    """Nobody is left to remove MPI's shared memory: the job does."""
    for pid in job.pids():
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
        job.left_behind |= set(re.findall(r"/dev/shm/vader_segment\S+", maps))
    job.mpirun.kill()


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
TORN = run_with(data="torn.txt")
TORN[1] = MODEL.replace("vocab=32", "vocab=64")

# Comes to MPI's start, which waits for all, and says nothing after it.
SPEECHLESS = """
import ctypes, time
ctypes.CDLL("libmpi.so", ctypes.RTLD_GLOBAL).MPI_Init(None, None)
time.sleep(60)
"""

# A model whose ranks want more than a process may have that is allowed so much.
LARGE = run_with()
LARGE[1], LARGE[3] = "gpt:layers=4,hidden=1024,heads=8,vocab=32000,seq=32", "cpu:ranks=4,memory=4GiB"
SCARCE = "ulimit -v 1500000"

# Between hosts messages go through sockets.
SOCKETS = ["--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]

GOOD_TEXT, OTHER_TEXT = "to be or not to be, that is the question " * 40, "to be or not to be, that is the answer, " * 40
WIDE = run_with(data="good.txt")
WIDE[1] = MODEL.replace("vocab=32", "vocab=256")


def wide_with(**changes):
    words = [*WIDE]
    for name, value in changes.items():
        words[words.index(f"--{name}") + 1] = str(value)
    return words


STOP, KILL, TERM, SEGV = (kill(number) for number in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV))
SHORT = run_with(steps=300)

FAULTS = [
    # Gone.
    Fault("killed in training, of two", 2, TRAINS, KILL, 1, GONE + WAITED, soon_s=3),
    Fault("the first killed in training", 2, TRAINS, KILL, 0, GONE + WAITED, soon_s=3),
    Fault("killed, a process per rank", 4, TRAINS, KILL, 2, GONE, soon_s=3, after_s=0.5),
    Fault("two killed, a process per rank", 4, TRAINS, both(KILL, [3]), 1, [r"process [13] of \d \(ranks? [0-9to ]+, host \S+, pid \d+\) is gone"],
          soon_s=3, victims=[1, 3]),
    Fault("crashed", 3, TRAINS, SEGV, 1, GONE, soon_s=3),
    Fault("the first crashed", 3, TRAINS, SEGV, 0, GONE, soon_s=3),
    Fault("aborted", 2, TRAINS, kill(signal.SIGABRT), 1, GONE + WAITED, soon_s=3),
    Fault("killed in the first step", 2, TRAINS, KILL, 1, GONE, soon_s=3, after_s=0),
    Fault("the first killed in the first step", 2, TRAINS, KILL, 0, GONE, soon_s=3, after_s=0),
    Fault("killed while it prepares", 2, PREPARES, KILL, 1, GONE_EARLY, soon_s=3, after_s=0),
    Fault("the first killed while it prepares", 2, PREPARES, KILL, 0, GONE_EARLY, soon_s=3, after_s=0),
    Fault("crashed while it prepares", 3, PREPARES, SEGV, 2, GONE_EARLY, soon_s=3, after_s=0),
    # Before all have agreed that all is done: 6; behind it: 0, whatever the launcher says to those that are left.
    Fault("killed at the end", 2, ENDS, KILL, 1, codes=(0, 6), arguments=SHORT, after_s=0),
    Fault("the first killed at the end", 2, ENDS, KILL, 0, codes=(0, 6), arguments=SHORT, after_s=0),
    Fault("stopped at the end", 2, ENDS, STOP, 1, codes=(0, 6), arguments=SHORT, after_s=0),
    # Silent.
    Fault("stopped in training", 2, TRAINS, STOP, 1, SILENT + WAITED[1:]),
    Fault("the first stopped in training", 2, TRAINS, STOP, 0, SILENT),
    Fault("stopped in the first step", 2, TRAINS, STOP, 1, SILENT[:1], after_s=0),
    Fault("stopped, a process per rank", 4, TRAINS, STOP, 3, SILENT),
    Fault("two stopped, a process per rank", 4, TRAINS, both(STOP, [2]), 1, [r"process [12] of 4", SILENT[1]], victims=[1, 2]),
    Fault("stopped while it prepares", 2, PREPARES, STOP, 1, SILENT[:1], after_s=0),
    Fault("the first stopped while it prepares", 2, PREPARES, STOP, 0, SILENT[:1], after_s=0),
    # Nobody misses who has said goodbye.
    Fault("stopped for a while at the end", 2, ENDS, stop_too_long, 1, codes=(0, 6), arguments=SHORT, after_s=0),
    Fault("the first stopped for a while at the end", 2, ENDS, stop_too_long, 0, codes=(0, 6), arguments=SHORT, after_s=0),
    Fault("stopped before it joins", 2, STARTS, STOP, 1, [r"process \d of 2"], after_s=0),
    Fault("given up and there again", 2, TRAINS, stop_too_long, 1, SILENT + WAITED[1:]),
    Fault("never said where it is", 2, STARTS, nothing, 1, [r"process 1 of 2 has said nothing for 3000 ms"],
          bound_s=30, arguments=run_with(timeout=3), others={1: [sys.executable, "speechless.py"]}, files={"speechless.py": SPEECHLESS}),
    # A network between them.
    Fault("killed behind a socket", 2, TRAINS, KILL, 1, GONE, soon_s=3, options=SOCKETS),
    Fault("stopped behind a socket", 2, TRAINS, STOP, 1, SILENT, options=SOCKETS),
    # MPI connects again, unless something was on its way.
    Fault("sockets closed", 2, TRAINS, close_sockets, 1, codes=(0, 6), options=SOCKETS, arguments=SHORT, bound_s=30),
    Fault("sockets closed while it prepares", 2, PREPARES, close_sockets, 1, codes=(0, 6), options=SOCKETS, dies=False,
          arguments=SHORT, after_s=0.05, bound_s=30),
    # MPI's own end, with a code of its own.
    Fault("the launcher killed", 2, TRAINS, kill_launcher, 1, codes=(6, 195), dies=False),
    # Interrupted. The launcher's signal to the others comes a second after the victim's end, its word before.
    Fault("interrupted while it prepares, alone", 2, PREPARES, TERM, 1, [r"process 1 of 2"], after_s=0.05),
    Fault("interrupted in training, alone", 2, TRAINS, TERM, 1, [r"interrupted \(process 1 of 2"]),
    Fault("the first interrupted in training, alone", 2, TRAINS, TERM, 0, [r"interrupted \(process 0 of 2"]),
    # Slow, which is no fault.
    Fault("slow, and there again", 2, TRAINS, stop_and_go_on, 1, code=0, dies=False, bound_s=90, arguments=SHORT),
    Fault("slow all the time", 2, TRAINS, slow_down, 1, code=0, dies=False, bound_s=90, arguments=SHORT),
    Fault("the first slow while it prepares", 2, PREPARES, slow_down, 0, code=0, dies=False, bound_s=90, arguments=run_with(steps=10), after_s=0),
    # Wrong or missing on one of them: an error that all agree on has its own code.
    Fault("a sample that one rank cannot read", 2, STARTS, nothing, 0, [r"(: |stopped: )(labels|tokens): sample \d+, place \d: id 122 is outside the vocabulary 0 to 63", r"host \S+, pid \d+"],
          dies=False, bound_s=30, arguments=TORN, files={"torn.txt": TORN_TEXT}),
    Fault("another text on one", 2, STARTS, nothing, 1, [r"the same data: process 0 of 2 .* has [0-9a-f]+ places, process 1 of 2"], code=3, dies=False, bound_s=30,
          arguments=WIDE, files={"good.txt": GOOD_TEXT, "other.txt": OTHER_TEXT}, others={1: wide_with(data="other.txt")}),
    Fault("no text on one", 2, STARTS, nothing, 1, [r"missing.txt"], code=3, dies=False, bound_s=30,
          arguments=WIDE, files={"good.txt": GOOD_TEXT}, others={1: wide_with(data="missing.txt")}),
    Fault("a torn plan on the first", 2, STARTS, nothing, 0, [r"torn.json"], code=3, dies=False, bound_s=30,
          others={0: ["run", "torn.json", *RUN[8:]]}, files={"torn.json": '{"strategy": "dp=2 pp'}),
    Fault("out of memory on one while it prepares", 2, STARTS, nothing, 1, [r"rank [23]: this process gets no memory for an arena"], code=4, dies=False, bound_s=30,
          arguments=LARGE, limits={1: SCARCE}),
    # Results that have no place.
    Fault("no room for the metrics", 2, STARTS, nothing, 0, [r"full/results/metrics.jsonl: cannot be written: No space left"], code=3, dies=False,
          bound_s=30, arguments=run_with(steps=40, out="full/results"), full_disk=True),
    Fault("no room for the recording", 2, STARTS, nothing, 0, [r"full/run.rec: cannot be written: No space left"], code=3, dies=False,
          bound_s=30, arguments=run_with(steps=5, out=None, record="full/run.rec"), full_disk=True),
]


class FullDisk:
    """A folder `full` with room for a page, where the machine lets us make one."""

    def __init__(self, folder):
        self.place = pathlib.Path(folder) / "full"

    def __enter__(self):
        self.place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", self.place], capture_output=True, check=False)
        self.is_there = mounted.returncode == 0
        return self

    def __exit__(self, *_):
        if self.is_there:
            subprocess.run(["umount", "--lazy", self.place], check=False)


def check_nothing_half_written(fault, folder):
    """What is left is whole: results of the steps so far, or nothing."""
    known = set(fault.files) | {"metrics.jsonl", "run.json", "plan.json"}
    for path in pathlib.Path(folder).rglob("*"):
        # Who is killed while it writes leaves what is beside its place.
        if path.is_dir() or (0 in fault.dead and path.name.endswith(".partial")):
            continue
        expect(path.name in known, f"{fault.name}: {path.name} is left")
        if path.name in fault.files:
            continue
        for text in path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text(encoding="utf-8")]:
            try:
                json.loads(text)
            except ValueError as error:
                expect(False, f"{fault.name}: {path.name} is half-written: {error}")


def check_words(fault, job):
    """One first line for all, and behind it what stood still."""
    said = job.said()
    # The first process speaks for all; where it was stopped, the launcher lets it go on before it kills.
    errors = {rank: [line for line in job.err(rank).splitlines() if line.startswith("error")] for rank in range(fault.processes)}
    lines = [line for rank in errors if rank not in fault.dead for line in errors[rank]]
    lines += [line for rank in fault.dead for line in errors[rank]]
    if fault.codes == (6,):
        expect(len(lines) >= 1 and lines[0].startswith("error (rank_failed): "), f"{fault.name}: {said}")
    if fault.says[:len(GONE)] == GONE and WAITED[1] in fault.says and lines and not re.search(WAITED[1], lines[0]):
        raise TooBusy(f"{fault.name}: the survivor was between two communications: {lines[0]}")
    for pattern in fault.says:
        wanted = pattern.replace("{victim}", str(fault.victim))
        expect(bool(lines) and re.search(wanted, lines[0]) is not None, f"{fault.name}: no '{wanted}' in: {said}")
    if WAITED[1] in fault.says:
        rows = [line for line in said.splitlines() if re.search(r"\]   rank \d, [a-z_]+: launch \d+, '", line)]
        expect(any("at work" in row for row in rows) and any("waits for launch" in row for row in rows),
               f"{fault.name}: what stood still is not said: {said}")
    return lines[0] if lines else ""


class TooBusy(Exception):
    """The fault itself was not tried: the machine was slower than the scenario's timeout or the launcher's, or whom it should
    have met in a communication was between two of them."""


# What a run says that ended before its fault, or in spite of a fault that it bears, because a process got no processor for as
# long as the scenario waits.
SLOW_MACHINE = re.compile(r"have joined within|has said nothing for \d+ ms|timed out after \d+ ms")


def check_launcher_was_later(fault, job):
    """A second after the first end the launcher signals whoever is left, and kills it a second later. A survivor that had
    not yet heard why takes the signal for its user's; one that had not yet said why is silent."""
    if not fault.dead or fault.stage == ENDS:
        return
    survivors = [rank for rank in range(fault.processes) if rank not in fault.dead]
    interrupted = 128 + signal.SIGTERM
    overtaken = [rank for rank in survivors if job.exit_code(rank) == interrupted and "interrupted" in job.err(rank)]
    silent = job.exit_code(survivors[0]) is None and "error" not in job.err(survivors[0])
    if (overtaken and interrupted not in fault.codes) or silent:
        raise TooBusy(f"{fault.name}: the launcher was before the word of the fault: {job.exit_codes()} {job.said()}")


def check_in(program, fault, shift_s, folder):
    for name, text in fault.files.items():
        (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
    with Job(fault.processes, [program, *fault.arguments], fault.commands(program), cwd=folder, options=fault.options) as job:
        wait_for_stage(job, fault.stage)
        time.sleep(fault.after_s + shift_s)
        if job.mpirun.poll() is not None and fault.hit is not nothing and fault.stage != ENDS:
            if fault.stage != STARTS and SLOW_MACHINE.search(job.said()):
                raise TooBusy(f"{fault.name}: {job.said()}")
            return expect(False, f"{fault.name}: the run was over before its fault: {job.said()}")
        begin = time.monotonic()
        fault.hit(job, fault.victim)
        try:
            job.wait(fault.bound_s + 10)
        except Exception as error:  # a hang is the worst of faults: say what hangs
            return expect(False, f"{fault.name}: {error}: {job.exit_codes()} {job.said()}")
        seconds = time.monotonic() - begin
        check_launcher_was_later(fault, job)
        if fault.codes == (0,) and SLOW_MACHINE.search(job.said()):
            raise TooBusy(f"{fault.name}: {job.said()}")
        # The launcher kills, a while after the first has ended, whoever is about to: all of them, on a busy machine, and
        # then their words alone tell.
        ended = {job.exit_code(rank) for rank in range(fault.processes) if rank not in fault.dead} - {None}
        # MPI and its launcher may be faster than the last words of a process, above all while all leave.
        is_mpi = fault.hit is kill_launcher or bool(fault.options) or fault.stage == ENDS
        only_words = not ended and bool(fault.dead) and bool(fault.says)
        expect((len(ended) == 1 or only_words or is_mpi) and ended <= set(fault.codes),
               f"{fault.name}: exit codes {job.exit_codes()}, wanted {fault.codes}: {job.said()}")
        expect(seconds < fault.bound_s, f"{fault.name}: {seconds:.1f} s, wanted {fault.bound_s}: {job.said()}")
        if seconds > fault.soon_s:
            print(f"{fault.name}: slower than the {fault.soon_s} s of a quiet machine")
        line = check_words(fault, job)
        check_nothing_half_written(fault, folder)
        print(f"{fault.name}: {seconds:.1f} s, {job.exit_codes()}\n    {line}", flush=True)


def check(program, fault, shift_s):
    for tries_left in (2, 1, 0):
        try:
            return check_once(program, fault, shift_s)
        except TooBusy as busy:
            print(f"{busy} (tried again)" if tries_left else f"{busy}", flush=True)
            expect(tries_left > 0, f"{fault.name}: not once in three times did the fault meet what it is for")


def check_once(program, fault, shift_s):
    with tempfile.TemporaryDirectory() as folder:
        if not fault.full_disk:
            return check_in(program, fault, shift_s, folder)
        with FullDisk(folder) as disk:
            if disk.is_there:
                return check_in(program, fault, shift_s, folder)
            print(f"{fault.name}: skipped, nothing can be mounted here")


def check_stopped_behind_goodbye(program):
    """MPI's end waits for all; who has said goodbye and is stopped then holds nobody, and the launcher ends him."""
    with Job(2, [program]) as job:
        seconds = job.wait(20)
        said = job.out(0).strip()
        left = re.fullmatch(r"left alone after (\d+\.\d) s", said)
        expect(job.exit_code(0) == 0 and left is not None and float(left[1]) >= TIMEOUT_S,
               f"stopped behind its goodbye: {job.exit_codes()}: {said} {job.said()}")
        expect(seconds < TIMEOUT_S + 5, f"stopped behind its goodbye: {seconds:.1f} s")
        print(f"stopped behind its goodbye: {seconds:.1f} s, {job.exit_codes()}\n    {said}", flush=True)


def main():
    program = pathlib.Path(sys.argv[sys.argv.index("--sextant") + 1]).resolve()
    is_long = "--long" in sys.argv or bool(os.environ.get("SEXTANT_LONG"))
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    shifts = (0.0, 0.07, 0.19, 0.43, 0.77) if is_long else (0.0,)
    faults = [fault for fault in FAULTS if only in fault.name]
    with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        leaving = []
        if "--leave-check" in sys.argv and only in "stopped behind its goodbye":
            leaving.append(pool.submit(check_stopped_behind_goodbye, sys.argv[sys.argv.index("--leave-check") + 1]))
        for done in leaving + [pool.submit(check, program, fault, shift_s) for fault in faults for shift_s in shifts]:
            done.result()
    for failure in failures:  # once more where the end of a long output is shown
        print(f"FAILED: {failure.strip()}")
    print(f"{len(faults)} faults at {len(shifts)} moments, {len(failures)} expectations failed")
    return 1 if failures or not (faults or leaving) else 0


if __name__ == "__main__":
    sys.exit(main())
