"""Checkpoints of runs over processes: the files of one process, the same bits after a resume in any number of processes and
under any plan, and the last good checkpoint after a kill of any process at any moment.

usage: process_checkpoint_test.py --sextant PROGRAM, where MPI is there; SEXTANT_LONG=1: 200 steps and more kills
"""

import json
import os
import random
import shutil
import signal
import sys
import time

from checkpoint_test import bytes_below, losses_of, steps_in, with_text
from habits_test import CPU, TINY, expect, run_checks
from mpi_job import Job

IS_LONG = bool(os.environ.get("SEXTANT_LONG"))
HALF = 100 if IS_LONG else 3
KILLS = 30 if IS_LONG else 3
PLAN = "dp=2 tp=2 zero=1"


def job_of(strategy, model=TINY):
    return ["run", model, *CPU, "--strategy", strategy, "--global-batch", "4", "--data", "text.txt", "--seed", "3"]


def run_in(program, processes, *arguments, others=None):
    """Exit codes and what was said; one process is no job."""
    if processes == 1:
        outcome = program.run(*arguments)
        return [outcome.code], outcome.out + outcome.err
    with Job(processes, [program.path, *arguments], others, cwd=program.folder) as job:
        job.wait()
        return job.exit_codes(), job.out(0) + job.said()


def expect_trained(program, processes, *arguments):
    codes, said = run_in(program, processes, *arguments)
    expect(codes == [0] * processes, f"{processes} processes: exit codes {codes}: {said}")
    return said


def expect_refused(program, code, parts, arguments, others=None):
    codes, said = run_in(program, 2, *arguments, others=others)
    # The launcher ends whoever is about to end.
    expect({own for own in codes if own is not None} == {code}, f"{parts}: exit codes {codes}, wanted {code}: {said}")
    for part in parts:
        expect(part in said, f"'{part}' is not said: {said}")


def check_same_bits(program):
    """Files do not depend on who wrote them, and half and half is the whole."""
    with_text(program)
    last, middle = f"step-{2 * HALF:06}", f"step-{HALF:06}"
    save = ["--checkpoint-every", str(HALF), "--steps", str(2 * HALF)]
    program.run(*job_of(PLAN), "--checkpoint", "one", *save, "--out", "out one").expect_code(0)
    said = expect_trained(program, 2, *job_of(PLAN), "--checkpoint", "two", *save)
    expect("2 checkpoints, the last two/" in said, f"not said what is saved: {said}")
    expect(bytes_below(program.folder / "one") == bytes_below(program.folder / "two"), "two processes leave other files than one")
    losses = losses_of(program, "out one")
    for processes in (1, 2, 3, 4) if IS_LONG else (1, 3):
        name = f"in {processes}"
        said = expect_trained(program, processes, *job_of(PLAN), "--resume", f"two/{middle}", "--checkpoint", name, "--steps", str(2 * HALF),
                              "--out", f"out {name}")
        expect(f"goes on behind step {HALF} of two/{middle}" in said, f"not said from where: {said}")
        rest = losses_of(program, f"out {name}")
        expect(list(rest) == list(range(HALF, 2 * HALF)), f"steps of the second half: {list(rest)}")
        expect(all(losses[step] == loss for step, loss in rest.items()), f"{name}: losses {losses}, {rest}")
        expect(bytes_below(program.folder / "one" / last) == bytes_below(program.folder / name / last), f"{name}: other files")


def check_other_plans(program):
    """Under another plan the states are the same to the bit: what two processes make of it is what one makes."""
    with_text(program)
    expect_trained(program, 2, *job_of(PLAN), "--checkpoint", "c", "--steps", "2")
    for number, strategy in enumerate(["dp=4 zero=3", "dp=2 pp=2 zero=2"]):
        for processes in (1, 3):
            expect_trained(program, processes, *job_of(strategy), "--resume", "c", "--steps", "4", "--checkpoint", f"{number} in {processes}")
        expect(bytes_below(program.folder / f"{number} in 1") == bytes_below(program.folder / f"{number} in 3"), f"{strategy}: other files")
    # A process whose ranks hold no box of some states, and a rank without any.
    expect_trained(program, 4, *job_of("tp=2 pp=2"), "--resume", "c", "--steps", "3", "--checkpoint", "last")
    program.run("checkpoint", "check", "last").expect_code(0)


def check_refusals(program):
    """Damage ends all processes with 8, who speak with one voice; so do options that differ."""
    with_text(program)
    expect_trained(program, 2, *job_of(PLAN), "--checkpoint", "c", "--checkpoint-every", "2", "--steps", "4")
    resume = [*job_of(PLAN), "--resume", "c", "--steps", "6"]
    shard = program.folder / "c" / "step-000004" / "rank-00003.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:])
    expect_refused(program, 8, ["c/step-000004/rank-00003.safetensors: '", "is damaged: checksum", "--resume c/step-000002"], resume)
    shard.unlink()
    expect_refused(program, 8, ["rank-00003.safetensors: is missing (needed by '"], resume)
    shard.write_bytes(whole)
    expect_refused(program, 8, ["c/step-000004/manifest.json", "another model"],
                   [*job_of(PLAN, TINY.replace("hidden=16", "hidden=32")), "--resume", "c", "--steps", "6"])
    expect_refused(program, 3, ["nowhere: there is no such folder"], [*job_of(PLAN), "--resume", "nowhere"])
    expect_refused(program, 2, ["the same options", "--checkpoint-every 1"], [*resume, "--checkpoint", "d"],
                   {1: [program.path, *resume, "--checkpoint", "d", "--checkpoint-every", "1"]})
    expect_refused(program, 2, ["c: has a checkpoint of step 4"], [*job_of(PLAN), "--checkpoint", "c", "--steps", "2"])
    expect(not (program.folder / "d").exists(), "a refused run left a folder")
    # Each sees a folder of its own, of the same name.
    (program.folder / "there").mkdir()
    shutil.copytree(program.folder / "c" / "step-000002", program.folder / "there" / "c" / "step-000002")
    (program.folder / "there" / "text.txt").write_bytes((program.folder / "text.txt").read_bytes())
    expect_refused(program, 3, ["the same checkpoint", "step 4", "step 2"], resume,
                   {1: ["bash", "-c", 'cd there && exec "$@"', "bash", program.path, *resume]})
    shutil.rmtree(program.folder / "there" / "c")
    saving = [*job_of(PLAN), "--checkpoint", "e", "--steps", "2"]
    expect_refused(program, 3, ["e: cannot be opened"], saving, {1: ["bash", "-c", 'cd there && exec "$@"', "bash", program.path, *saving]})


def check_weights(program):
    """Any number of processes begins with a file as one does, to the bit; what one of them cannot begin with ends all."""
    with_text(program)
    program.run(*job_of(PLAN), "--checkpoint", "c", "--steps", "1").expect_code(0)
    program.run("checkpoint", "export", "c", "--out", "w").expect_code(0)
    # Of the second plan no process has all parameters.
    for number, strategy in enumerate([PLAN, "tp=2 pp=2"]):
        begin = [*job_of(strategy), "--weights", "w", "--steps", "2"]
        program.run(*begin, "--checkpoint", f"{number} in 1", "--out", f"out {number}").expect_code(0)
        for processes in (2, 4) if IS_LONG or number else (2,):
            name = f"{number} in {processes}"
            said = expect_trained(program, processes, *begin, "--checkpoint", name, "--out", f"out {name}")
            expect("begins with" in said, f"not said where from: {said}")
            expect(losses_of(program, f"out {number}") == losses_of(program, f"out {name}"), f"{name}: other losses")
            expect(bytes_below(program.folder / f"{number} in 1") == bytes_below(program.folder / name), f"{name}: other files")
    expect_refused(program, 3, ["nowhere: cannot be read"], [*job_of(PLAN), "--weights", "nowhere"])
    # Each sees a folder of its own, of the same name: with nothing, with a tensor less, with other values.
    begin = [*job_of(PLAN), "--weights", "w", "--steps", "2"]
    there = {1: ["bash", "-c", 'cd there && exec "$@"', "bash", program.path, *begin]}
    (program.folder / "there" / "w").mkdir(parents=True)
    (program.folder / "there" / "text.txt").write_bytes((program.folder / "text.txt").read_bytes())
    expect_refused(program, 3, ["w: no safetensors file in this folder"], begin, there)
    whole = (program.folder / "w" / "model.safetensors").read_bytes()
    other = program.folder / "there" / "w" / "model.safetensors"
    other.write_bytes(whole.replace(b'"transformer.wte.weight"', b'"transformer.wte.height"', 1))
    expect_refused(program, 3, ["w: has no tensor 'transformer.wte.weight,"], begin, there)
    other.write_bytes(whole[:-1] + bytes([whole[-1] ^ 4]))
    expect_refused(program, 3, ["all processes must have the same weights"], begin, there)
    expect_refused(program, 3, ["all processes must have the same weights", "none"], begin, {1: [program.path, *begin[:-4], *begin[-2:]]})


def checkpoints_of(folder):
    return [name for name in steps_in(folder) if not name.endswith(".unfinished")] if folder.exists() else []


def check_kills(program):
    """A kill of any process at any moment leaves checkpoints that are whole, and any number of processes goes on from the last."""
    with_text(program)
    folder, step = program.folder / "c", 0
    chance = random.Random(5)
    for number in range(KILLS):
        processes, victim = 2 + number % 2, (number + 1) % 2
        arguments = [*job_of(PLAN), "--checkpoint", "c", "--checkpoint-every", "1", "--keep", "3", "--steps", "1000000", "--timeout", "5"]
        with Job(processes, [program.path, *arguments, *(["--resume", "c"] if step else [])], cwd=program.folder) as job:
            begin = time.monotonic()
            while time.monotonic() - begin < 60 and job.mpirun.poll() is None:
                if any(name > f"step-{step:06}" for name in checkpoints_of(folder)):
                    break
                time.sleep(0.002)
            time.sleep(chance.random() * 0.05)
            job.signal(victim, signal.SIGKILL)
            job.wait()
            codes = {code for rank, code in enumerate(job.exit_codes()) if rank != victim} - {None}
            expect(codes <= {6, 143}, f"kill {number}: exit codes {job.exit_codes()}: {job.said()}")
        shown = program.run("checkpoint", "show", "c", "--json").expect_code(0).document()
        expect(shown["step"] > step, f"kill {number}: step {shown['step']}, before it {step}: {steps_in(folder)}")
        step = shown["step"]
        program.run("checkpoint", "check", "c").expect_code(0)


def check_full_disk(program):
    """What one process cannot write ends all with the code of that, names shard and process, and leaves the last good checkpoint."""
    with_text(program)
    expect_trained(program, 2, *job_of(PLAN), "--checkpoint", "c", "--steps", "2")
    before = bytes_below(program.folder / "c")
    arguments = [*job_of(PLAN), "--checkpoint", "c", "--checkpoint-every", "1", "--resume", "c", "--steps", "1000000"]
    limited = ["bash", "-c", 'trap "" XFSZ; ulimit -f 8; exec "$@"', "bash", program.path, *arguments]
    expect_refused(program, 3, ["rank-0000", "cannot be written: File too large", "(process 1 of 2"], arguments, {1: limited})
    expect(bytes_below(program.folder / "c") == before, f"left {steps_in(program.folder / 'c')}")


def check_interrupt(program):
    """Checkpoints stay that were written before Ctrl-C."""
    with_text(program)
    arguments = [*job_of(PLAN), "--checkpoint", "c", "--checkpoint-every", "2", "--steps", "1000000", "--json"]
    with Job(2, [program.path, *arguments], cwd=program.folder) as job:
        begin = time.monotonic()
        while time.monotonic() - begin < 60 and not (program.folder / "c" / "step-000004").exists():
            time.sleep(0.005)
        program.run(*job_of(PLAN), "--checkpoint", "c", "--resume", "c", "--steps", "1000000").expect_code(2).expect_error(
            "another run writes here")
        job.mpirun.send_signal(signal.SIGINT)
        job.wait()
        if job.out(0):  # else the launcher was faster than its last words
            expect(json.loads(job.out(0))["end"] == "interrupted", job.out(0))
    program.run("checkpoint", "check", "c").expect_code(0)


if __name__ == "__main__":
    sys.exit(run_checks(check_same_bits, check_other_plans, check_refusals, check_weights, check_kills, check_full_disk, check_interrupt))
