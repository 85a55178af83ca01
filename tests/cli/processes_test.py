"""`mpirun sextant run` is `sextant run`: the same losses and orders, one voice, one folder of results; what differs
between processes is refused by all of them with one reason.

usage: processes_test.py --sextant PROGRAM, where MPI is there
"""

import json
import os
import shutil
import signal
import sys
import time

from faults_test import TRAINS, wait_for_stage
from habits_test import expect, run_checks
from mpi_job import Job

MODEL = "gpt:layers=4,hidden=16,heads=2,vocab=32,seq=8"
FOUR = ["run", MODEL, "-c", "cpu:ranks=4,memory=1GiB", "--strategy", "dp=2 pp=2 micro_batch=2", "--global-batch", "8",
        "--data", "random", "--steps", "4"]


def losses(folder):
    return [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def loaded(folder):
    return [json.loads(line)["loaded_bytes"] for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def record(folder):
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def check_equal_to_one_process(program):
    program.run(*FOUR, "--out", "one", "--profile", "1").expect_code(0)
    one = record(program.folder / "one")
    expect(len(one["issued"]) == 4, f"hashes of four ranks: {one['issued']}")
    # Eight samples of eight ids of 4 bytes: half of them to each replica, tokens to the first stage, labels to the last.
    expect(loaded(program.folder / "one") == [[128, 128, 128, 128]] * 4, f"{loaded(program.folder / 'one')}")
    for processes in (2, 3, 4):
        name = f"in{processes}"
        with Job(processes, [program.path, *FOUR, "--out", name, "--profile", "1"], cwd=program.folder) as job:
            job.wait()
            expect(job.exit_codes() == [0] * processes, f"exit codes {job.exit_codes()}: {job.said()}")
            expect("loss" in job.out(0), f"the first process says nothing: {job.out(0)}")
            for rank in range(1, processes):
                expect(job.out(rank) + job.err(rank) == "",
                       f"process {rank} speaks: {job.out(rank)} {job.err(rank)}")
        several = record(program.folder / name)
        expect(losses(program.folder / name) == losses(program.folder / "one"), f"losses in {processes} processes")
        expect(several["issued"] == one["issued"], f"orders in {processes} processes")
        expect(loaded(program.folder / name) == loaded(program.folder / "one"), f"bytes loaded in {processes} processes")
        expect(several["plan_hash"] == one["plan_hash"], "the plan is another one")
        expect(several["devices"] == f"4 CPU ranks in {processes} processes", several["devices"])
        expect(set(several["operator_time_s"]) == set(one["operator_time_s"]),
               "the profile lacks operators of other processes")
        rows = [{(row["queue"], row["kind"], row["launches"]) for row in of["communication"]["rows"]} for of in (one, several)]
        expect(rows[0] == rows[1] and len(rows[0]) > 1, f"communication in {processes} processes: {rows}")
        program.run("compare", f"{name}/plan.json", name).expect_code(0)


def check_document(program):
    with Job(2, [program.path, *FOUR, "--json"], cwd=program.folder) as job:
        job.wait()
        expect(job.exit_codes() == [0, 0], f"{job.exit_codes()}: {job.said()}")
        expect(json.loads(job.out(0))["ok"] is True, "the document of the first process")
        expect(job.out(1) == "", f"a second document: {job.out(1)}")


def refused(program, code, parts, others, processes=2, command=None):
    with Job(processes, command or [program.path, *FOUR], others, cwd=program.folder) as job:
        seconds = job.wait()
        # The launcher kills, a few milliseconds after the first has ended, whoever is about to.
        ended = [own for own in job.exit_codes() if own is not None]
        expect(ended and set(ended) == {code},
               f"{parts}: exit codes {job.exit_codes()}, wanted {code}: {job.said()}")
        expect(job.code == code, f"{parts}: mpirun ends with {job.code}")
        for part in parts:
            expect(part in job.err(0), f"'{part}' is not said: {job.said()}")
        for rank in range(1, processes):
            expect("error" not in job.err(rank), f"process {rank} speaks as well: {job.said()}")
        expect(seconds < 20, f"{parts}: {seconds:.1f} s")


def check_differences(program):
    """What only one process sees, all say, once."""
    (program.folder / "good.txt").write_text("to be or not to be, that is the question " * 40, encoding="utf-8")
    (program.folder / "other.txt").write_text("to be or not to be, that is the answer, " * 40, encoding="utf-8")
    data = FOUR.index("random")

    def with_data(name):
        return [program.path, *FOUR[:data], name, *FOUR[data + 1:], ]

    wide = [word.replace("vocab=32", "vocab=256") for word in map(str, with_data("good.txt"))]

    def wide_with(name):
        return [word.replace("good.txt", name) for word in wide]

    refused(program, 3, ["missing.txt"], {1: wide_with("missing.txt")}, command=wide)
    refused(program, 3, ["the same data", "process 1 of 2"], {1: wide_with("other.txt")}, command=wide)
    refused(program, 2, ["the same options", "--steps 4", "--steps 5"], {1: [program.path, *FOUR[:-1], "5"]})
    shutil.copyfile(program.path, program.folder / "other-build")
    with open(program.folder / "other-build", "ab") as build:
        build.write(b"one byte more")
    os.chmod(program.folder / "other-build", 0o755)
    refused(program, 5, ["the same build", "host "], {1: [program.folder / "other-build", *FOUR]})

    program.run(*FOUR, "--out", "one").expect_code(0)
    plan = (program.folder / "one/plan.json").read_text(encoding="utf-8")
    changed = json.loads(plan)
    changed["optimizer"] = changed["optimizer"].replace("lr=0.0003", "lr=0.0004")
    expect(changed != json.loads(plan), f"no learning rate to change: {changed['optimizer']}")
    (program.folder / "changed.json").write_text(json.dumps(changed), encoding="utf-8")

    def of_plan(name):
        return [program.path, "run", name, "--data", "random", "--steps", "4"]

    refused(program, 3, ["the same plan"], {1: of_plan("changed.json")}, command=of_plan("one/plan.json"))
    refused(program, 3, ["torn.json"], {1: of_plan("torn.json")}, command=of_plan("one/plan.json"))


def check_refusals(program):
    refused(program, 2, ["the plan has 4 ranks, which 5 processes cannot share"], {}, processes=5)
    refused(program, 2, ["not one of cpu, cuda"], {},
            command=[program.path, *FOUR, "--backend", "abacus"])
    (program.folder / "taken").write_text("", encoding="utf-8")
    with Job(2, [program.path, *FOUR, "--out", "taken"], cwd=program.folder) as job:
        job.wait()
        expect(job.code in (2, 3) and set(job.exit_codes()) <= {job.code, None},
               f"a folder that is a file: {job.exit_codes()}")
    # A launcher whose MPI is not the one of this build: every process believes to be alone.
    outcome = program.run(*FOUR, PMI_RANK="0", PMI_SIZE="2")
    outcome.expect_code(5).expect_said("a launcher started process 0 of 2, and MPI sees process 0 of 1")


def check_interrupt(program):
    """Ctrl-C: mpirun tells all, the first keeps what there is. mpirun kills an eighth of a second later, which on a busy machine may be
    before the first has written: then it is tried again."""
    for tries_left in (2, 1, 0):
        if is_kept_after_interrupt(program):
            return
        print("the launcher was faster than the first process" + (", tried again" if tries_left else ""), flush=True)
    expect(False, "nothing is kept after Ctrl-C")


def is_kept_after_interrupt(program):
    long = [*FOUR[:-1], "1000000", "--out", "kept", "--overwrite"]
    with Job(2, [program.path, *long], cwd=program.folder) as job:
        wait_for_stage(job, TRAINS)
        time.sleep(1)
        job.mpirun.send_signal(signal.SIGINT)
        seconds = job.wait()
        expect(all(code in (130, 143, None) for code in job.exit_codes()), f"{job.exit_codes()}: {job.said()}")
        expect(seconds < 3, f"{seconds:.1f} s after Ctrl-C")
    if not (program.folder / "kept/run.json").exists():
        return False
    kept = record(program.folder / "kept")
    expect(kept["end"] == "interrupted" and kept["steps"] > 0, f"what is kept: {kept['end']}, {kept['steps']}")
    return True


if __name__ == "__main__":
    sys.exit(run_checks(check_equal_to_one_process, check_document, check_differences, check_refusals,
                        check_interrupt))
