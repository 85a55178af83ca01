"""`mpirun sextant search` and `sextant experiment` find what one process finds; every other verb is done once.

usage: spread_test.py --sextant PROGRAM, where MPI is there
"""

import json
import os
import pathlib
import signal
import sys
import time

from experiment_test import same_rows
from habits_test import expect, run_checks
from mpi_job import Job

# A few dozen strategies are compiled.
SEARCH = ["search", "gpt:layers=8,hidden=64,heads=4,vocab=100,seq=32", "-c", "dgx-a100:nodes=1", "--global-batch", "16"]


def over(program, processes, *arguments):
    job = Job(processes, [program.path, *arguments], cwd=program.folder)
    with job:
        job.wait()
        for rank in range(1, processes):
            expect(job.out(rank) == "" and "error" not in job.err(rank), f"process {rank} speaks: {job.said()}")
        return job.exit_codes(), job.out(0), job.err(0)


def found(text):
    document = json.loads(text)
    for key in ("timing_s", "plan_file"):
        document.pop(key)
    return document


def check_search(program):
    one = program.run(*SEARCH, "--json", "--out", "one").expect_code(0)
    for processes in (2, 3) if os.environ.get("SEXTANT_LONG") else (2,):
        name = f"of{processes}"
        codes, out, err = over(program, processes, *SEARCH, "--json", "--out", name)
        expect(codes == [0] * processes, f"{codes}: {err}")
        expect(found(out) == found(one.out), f"the result of {processes} processes is another one")
        expect("by other processes" in err and "\nnote: 0 " not in err, f"others had nothing to do: {err}")
        plans = [(program.folder / folder / "plan.json").read_bytes() for folder in ("one", name)]
        expect(plans[0] == plans[1], f"the plan of {processes} processes is another one")


def check_search_refused(program):
    """The exit code is that of one process, and one speaks."""
    nothing = [*SEARCH, "--memory", "1MiB"]
    one = program.run(*nothing).expect_code(4)
    codes, _, err = over(program, 2, *nothing)
    expect(set(codes) <= {4, None} and 4 in codes, f"{codes}: {err}")
    expect(one.err.strip().splitlines()[-1] in err, f"another refusal: {err}")
    codes, _, err = over(program, 2, *SEARCH, "--top", "0")
    expect(set(codes) <= {2, None} and 2 in codes and "--top must be positive" in err, f"{codes}: {err}")
    codes, _, err = over(program, 2, *SEARCH, "--tpo", "3")
    expect(set(codes) <= {2, None} and 2 in codes and err.count("did you mean") == 1, f"{codes}: {err}")


def is_killed_search_over(program, folder):
    """Whether the first process said what happened. A second after the first end the launcher signals whoever is left: on a
    busy machine before that one has heard why, and then it takes the signal for its user's."""
    long = ["search", "gpt3-175b", "-c", "dgx-a100:nodes=128", "--global-batch", "1536", "--time-limit", "100s", "--out", folder]
    with Job(2, [program.path, *long], cwd=program.folder) as job:
        job.pids()
        time.sleep(2)
        job.signal(1, signal.SIGKILL)
        seconds = job.wait(20)
        if job.exit_code(0) == 128 + signal.SIGTERM and "interrupted" in job.err(0):
            print(f"the launcher was before the word of the fault: {job.exit_codes()} {job.said()}", flush=True)
            return False
        expect(job.exit_code(0) == 6, f"{job.exit_codes()}: {job.said()}")
        expect("process 1 of 2" in job.err(0).splitlines()[-1] and "is gone" in job.err(0), job.said())
        expect(seconds < 7, f"{seconds:.1f} s")
    expect(not (program.folder / folder).exists(), f"something is left: {program.files()}")
    return True


def check_search_faults(program):
    """A helper that is killed ends the search on all."""
    expect(any(is_killed_search_over(program, f"killed{attempt}") for attempt in range(3)),
           "three times the launcher was before the word of the fault")


def data_folder():
    shared = os.environ.get("SEXTANT_SHARED")
    return pathlib.Path(shared if shared else pathlib.Path(__file__).parents[2] / "../shared").resolve() / "data"


def check_experiment(program):
    if not (data_folder() / "vtrain_single_node.csv").exists():
        return print("skipped: rows of an experiment, no measurements beside the tree")
    group = ["experiment", "accuracy", "--data", data_folder(), "--group", "pytorch", "--json"]
    one = program.run(*map(str, group), "--out", "rows1").expect_code(0)
    codes, out, err = over(program, 3, *group, "--out", "rows3")
    expect(codes == [0, 0, 0], f"{codes}: {err}")
    several, alone = json.loads(out), json.loads(one.out)
    expect(several["groups"] == alone["groups"], "the summary of three processes is another one")
    expect(same_rows(several, alone), "rows of three processes differ")
    for name in ("accuracy.md", "accuracy.svg", "table.md"):
        expect((program.folder / "rows1" / name).read_bytes() == (program.folder / "rows3" / name).read_bytes(),
               f"{name} of three processes is another one")


def check_sweep(program):
    """Points are dealt out; the first keeps all rows, and a second run by one process has nothing to do."""
    sweep = ["experiment", "class-split", "--quick", "--json"]
    one = json.loads(program.run(*sweep).expect_code(0).out)
    codes, out, err = over(program, 3, *sweep, "--out", "spread")
    expect(codes == [0, 0, 0], f"{codes}: {err}")
    several = json.loads(out)
    expect(several["points"] == one["points"] and several["failed"] == one["failed"], "numbers of points differ")
    verdicts = [[(shape["statement"], shape["holds"]) for shape in found["shapes"]] for found in (one, several)]
    expect(verdicts[0] == verdicts[1], "verdicts of three processes differ")
    expect(same_rows(one, several), "rows of three processes differ")
    again = program.run(*sweep, "--out", "spread").expect_code(0).document()
    expect(again["reused"] == again["points"], f"{again['reused']} of {again['points']} rows were kept")
    codes, out, _ = over(program, 2, *sweep, "--out", "dry", "--dry-run")
    expect(codes == [0, 0] and json.loads(out)["dry_run"], f"a dry run of two processes: {codes}: {out}")
    codes, _, err = over(program, 2, *SEARCH, "--sweep", "global_bath=8")
    expect(set(codes) <= {2, None} and err.count("did you mean") == 1, f"{codes}: {err}")
    codes, _, err = over(program, 2, "experiment", "hybrid-gpt", "--quick", "--out", "spread")
    expect(set(codes) <= {2, None} and 2 in codes and "results of class-split" in err, f"{codes}: {err}")


def check_once(program):
    """Verbs that processes cannot share are done by the first."""
    for verb in (["strategy", "show"],
                 ["simulate", "gpt:layers=2,hidden=16,heads=2,vocab=32,seq=8", "-c", "dgx-h100:nodes=1", "--strategy", "dp=8",
                  "--global-batch", "8", "--trace", "t.json"]):
        one = program.run(*verb).expect_code(0)
        codes, out, err = over(program, 3, *verb)
        expect(codes == [0, 0, 0], f"{verb}: {codes}: {err}")
        expect(out == one.out, f"{verb} under mpirun prints something else: {out}")


if __name__ == "__main__":
    sys.exit(run_checks(check_search, check_search_refused, check_search_faults, check_experiment, check_sweep, check_once))
