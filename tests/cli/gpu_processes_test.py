"""Ranks on GPUs in several processes: the losses of one process to the bit, checkpoints that both read, start after start
without a hang, and one exit code, in time, when a process is killed or stopped.

usage: gpu_processes_test.py --sextant PROGRAM, where MPI and two GPUs are; SEXTANT_LONG=1: 30 starts instead of 3
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

from checkpoint_test import losses_of, with_text
from habits_test import expect, run_checks
from mpi_job import Job

STARTS = 30 if os.environ.get("SEXTANT_LONG") else 3
TIMEOUT_S = 3
MODEL = "gpt:layers=4,hidden=128,heads=4,vocab=256,seq=64"
CUDA = ["-c", "hgx-h200:nodes=1", "--backend", "cuda", "--global-batch", "8", "--data", "text.txt", "--seed", "3"]
STRATEGIES = ["dp=2", "dp=2 zero=3", "tp=2 sp=on", "pp=2 micro_batch=2 schedule=1f1b", "cp=2"]

STRATEGIES_OF_FOUR = ["dp=4 zero=2", "dp=2 tp=2", "pp=2 dp=2 micro_batch=2", "pp=2 tp=2 micro_batch=2 schedule=zb-h1", "cp=2 dp=2",
                      "pp=4 micro_batch=1"]
# A place for every token: what experts drop depends on who is beside whom.
EXPERTS = "llama:layers=2,hidden=64,heads=4,ffn=128,vocab=256,seq=64,experts=4,top_k=2,capacity_factor=4"


def num_gpus():
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return 0
    return len(listed.stdout.splitlines()) if listed.returncode == 0 else 0


def job_of(strategy, *more):
    return ["run", MODEL, *CUDA, "--strategy", strategy, *more]


def run_in_two(program, arguments, others=None):
    """Exit codes, and what was said."""
    with Job(2, [program.path, *arguments], others, cwd=program.folder) as job:
        job.wait(120)
        return job.exit_codes(), job.out(0) + job.said()


def check_same_losses(program):
    """Threads and processes do the same, launched singly and as graphs."""
    with_text(program)
    for number, strategy in enumerate(STRATEGIES):
        for graphs in ("off", "on"):
            arguments = job_of(strategy, "--steps", "12", "--deterministic", "--graphs", graphs)
            one, two = f"one{number}{graphs}", f"two{number}{graphs}"
            program.run(*arguments, "--out", one).expect_code(0)
            codes, said = run_in_two(program, [*arguments, "--out", two])
            expect(codes == [0, 0], f"{strategy}, graphs {graphs}: exit codes {codes}: {said}")
            if codes == [0, 0]:
                expect(losses_of(program, one) == losses_of(program, two), f"{strategy}, graphs {graphs}: other losses")
                expect(len(losses_of(program, two)) == 12, f"{strategy}: steps are missing")


def check_tuned_and_profiled(program):
    """Without --deterministic algorithms are measured by one process and known to the other; operators are timed."""
    with_text(program)
    codes, said = run_in_two(program, job_of("dp=2", "--steps", "12", "--profile", "2", "--out", "out"))
    expect(codes == [0, 0], f"exit codes {codes}: {said}")
    if codes == [0, 0]:
        run = json.loads((program.folder / "out/run.json").read_text(encoding="utf-8"))
        expect("2 processes" in run["devices"], f"devices {run['devices']}")
        expect(bool(run["kind_time_s"]), "no times of kinds")


def check_checkpoints(program):
    """What two processes save one reads, and the other way round."""
    with_text(program)
    whole = job_of("dp=2 zero=1", "--steps", "12", "--deterministic", "--out", "whole")
    program.run(*whole).expect_code(0)
    half = job_of("dp=2 zero=1", "--steps", "6", "--deterministic", "--checkpoint-every", "6")
    rest = job_of("dp=2 zero=1", "--steps", "12", "--deterministic")
    codes, said = run_in_two(program, [*half, "--checkpoint", "by two"])
    expect(codes == [0, 0], f"exit codes {codes}: {said}")
    program.run(*half, "--checkpoint", "by one").expect_code(0)
    program.run(*rest, "--resume", "by two", "--out", "in one").expect_code(0)
    codes, said = run_in_two(program, [*rest, "--resume", "by one", "--out", "in two"])
    expect(codes == [0, 0], f"exit codes {codes}: {said}")
    losses = losses_of(program, "whole")
    for folder in ("in one", "in two"):
        expect(len(losses_of(program, folder)) == 6, f"{folder}: {len(losses_of(program, folder))} steps behind the checkpoint")
        for step, loss in losses_of(program, folder).items():
            expect(losses[step] == loss, f"{folder}: step {step} has loss {loss}, without a stop {losses[step]}")


def check_curves(program, model, strategies):
    arguments = ["run", model, *CUDA, "--dtype", "f32", "--steps", "200"]
    program.run(*arguments, "--strategy", "dp=1", "--out", "one", "--overwrite").expect_code(0)
    one = losses_of(program, "one")
    for strategy in strategies:
        program.run(*arguments, "--strategy", strategy, "--out", "many", "--overwrite").expect_code(0)
        losses = losses_of(program, "many")
        worst = max(abs(losses[step] - one[step]) / one[step] for step in one)
        print(f"{strategy}: {worst:.2g} from one GPU in 200 steps, last loss {losses[max(one)]:.4f}", flush=True)
        expect(len(losses) == 200 and worst < 2e-3, f"{strategy}: {worst:.2g} from one GPU")


def check_loss_curves(program):
    """200 steps of every strategy, in f32, beside one GPU: rounding alone tells them apart."""
    with_text(program)
    check_curves(program, MODEL, STRATEGIES + (STRATEGIES_OF_FOUR if num_gpus() >= 4 else []))
    check_curves(program, EXPERTS, ["dp=2 ep=2"] + (["dp=4 ep=2"] if num_gpus() >= 4 else []))


def check_refused(program):
    """What cannot be over processes ends both, with one code."""
    with_text(program)
    for more, says in ((["--collectives", "local"], "--collectives local"), (["--gpus", "0"], "--ranks-per-gpu 2 would do"),
                       (["--gpus", "0,1", "--ranks-per-gpu", "2"], "share 1 GPU"), (["--gpus", str(num_gpus())], f"GPU {num_gpus()}")):
        codes, said = run_in_two(program, job_of("dp=2", "--steps", "2", *more))
        expect(len(set(codes)) == 1 and codes[0] in (2, 4, 5) and says in said, f"{more}: exit codes {codes}: {said}")
    others = {1: [program.path, *job_of("dp=2", "--steps", "2", "--graphs", "on")]}
    codes, said = run_in_two(program, job_of("dp=2", "--steps", "2"), others)
    expect(codes == [2, 2] and "same options of the backend" in said, f"graphs of one alone: {codes}: {said}")
    others = {0: [program.path, *job_of("dp=2", "--steps", "2", "--gpus", "0")],
              1: [program.path, *job_of("dp=2", "--steps", "2", "--gpus", "1")]}
    codes, said = run_in_two(program, job_of("dp=2"), others)
    expect(codes == [0, 0], f"a card for each process: {codes}: {said}")


def check_starts(program):
    """20 steps each, as graphs every second time."""
    with_text(program)
    for start in range(STARTS):
        graphs = "on" if start % 2 else "off"
        codes, said = run_in_two(program, job_of(STRATEGIES[start % len(STRATEGIES)], "--steps", "20", "--graphs", graphs))
        expect(codes == [0, 0], f"start {start}: exit codes {codes}: {said}")


def end_of(program, graphs, hit):
    """Of a run whose second process is hit while it trains: seconds, codes, first lines of errors."""
    shutil.rmtree(program.folder / "saved", ignore_errors=True)
    arguments = job_of("dp=2", "--steps", "1000000", "--graphs", graphs, "--timeout", str(TIMEOUT_S), "--checkpoint", "saved",
                       "--checkpoint-every", "20", "--keep", "2")
    with Job(2, [program.path, *arguments], cwd=program.folder) as job:
        end = time.monotonic() + 60
        while not any((program.folder / "saved").glob("step-*")) and job.mpirun.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        expect(any((program.folder / "saved").glob("step-*")), f"it does not train: {job.said()}")
        begin = time.monotonic()
        hit(job)
        while job.exit_code(0) is None and time.monotonic() < begin + 40:
            time.sleep(0.01)
        took = time.monotonic() - begin
        job.signal(1, signal.SIGKILL)
        try:
            job.wait(30)
        except (TimeoutError, subprocess.TimeoutExpired):
            expect(False, f"orphans: {job.said()}")
        return took, job.exit_code(0), [line for line in job.err(0).splitlines() if line.startswith("error")]


def check_killed_and_stopped(program):
    """The other process ends with 6, soon or after the timeout, and names who is missing."""
    with_text(program)
    for graphs in ("off", "on"):
        for what, number in (("killed", signal.SIGKILL), ("stopped", signal.SIGSTOP)):
            took, code, errors = end_of(program, graphs, lambda job, number=number: job.signal(1, number))
            print(f"graphs {graphs}, {what}: {took:.1f} s, code {code}: {errors[:1]}", flush=True)
            expect(code == 6, f"graphs {graphs}, {what}: code {code}: {errors}")
            expect(took <= TIMEOUT_S + 5, f"graphs {graphs}, {what}: {took:.1f} s")
            expect(bool(errors) and "process 1" in errors[0], f"graphs {graphs}, {what}: not said who is missing: {errors}")


if __name__ == "__main__":
    if num_gpus() < 2:
        print("skipped: two GPUs are needed")
        sys.exit(77)
    sys.exit(run_checks(check_same_losses, check_tuned_and_profiled, check_checkpoints, check_loss_curves, check_refused, check_starts,
                        check_killed_and_stopped))
