"""`run --record` writes what a run did, `simulate --replay` repeats it, `compare` says where it left the plan.

usage: recording_test.py --sextant PROGRAM
"""

import json
import shutil
import sys

from habits_test import expect, run_checks
from mpi_job import Job

MODEL = "gpt:layers=4,hidden=16,heads=2,vocab=32,seq=8"
JOB = [MODEL, "-c", "cpu:ranks=4,memory=1GiB", "--strategy", "dp=2 pp=2 micro_batch=2", "--global-batch", "8"]
RUN = ["run", *JOB, "--data", "random", "--steps", "6"]


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def record(program):
    program.run(*RUN, "--record", "run.rec", "--out", "run").expect_code(0)
    return program.folder / "run.rec"


def check_repeated(program):
    first, *launches, last = lines(record(program))
    expect(first["ranks"] == 4 and first["steps"] == 6, f"the first line: {first}")
    expect(last == {"end": len(launches)}, f"the last line: {last}")
    expect({line["launch"][0] for line in launches if "launch" in line} == {0, 1, 2, 3}, "launches of all ranks")
    expect({line["actor"] for line in launches if "host" in line} == {"tokens", "labels", "metrics"}, "acts of hosts")
    replay = program.run("simulate", "run/plan.json", "--replay", "run.rec", "--json").expect_code(0).document()
    expect(replay["mode"] == "replay", f"the mode: {replay.get('mode')}")
    expect(replay["began_early"]["launches"] == 0, f"launches before their waits: {replay['began_early']}")
    expect(replay["other_waits"]["launches"] == 0, f"other messages: {replay['other_waits']}")
    expect(replay["step_time_s"] == replay["recorded_step_time_s"] == replay["recorded_step_times_s"][replay["step"]],
           f"the step that is repeated: {replay}")
    expect(0 < replay["without_start_delays_s"], f"without start delays: {replay}")
    comparison = program.run("compare", "run/plan.json", "run.rec", "--json").expect_code(0).document()
    expect(comparison["message_order_equal"] is True, f"{comparison}")
    expect(comparison["measured_step_time_s"] == replay["step_time_s"], "compare and replay tell of one step")
    kinds = {kind["kind"]: kind for kind in comparison["per_kind"]}
    expect({"all_reduce", "transfer", "forward", "optimizer"} <= set(kinds), f"kinds: {sorted(kinds)}")
    expect(all(kind["recorded_s"] > 0 and kind["launches"] > 0 for kind in kinds.values()), f"{kinds}")
    # A queue is in one launch at a time, so no kind of one queue takes longer than all steps together.
    expect(kinds["all_reduce"]["recorded_s"] + kinds["all_reduce"]["recorded_wait_s"] <= sum(replay["recorded_step_times_s"]),
           f"launches that start together are counted one by one: {kinds['all_reduce']}")
    both = comparison["communication"]
    expect(both["measured"]["exposed_s"] > 0 and [row["launches"] for row in both["measured"]["rows"]], f"{both}")
    text = program.run("compare", "run/plan.json", "run.rec").expect_code(0).out
    expect("leaves the plan at rank" in text or "of when the plan has it" in text, f"where it left the plan: {text}")


def check_processes(program):
    if shutil.which("mpirun") is None:
        return print("skipped: a run over processes, no mpirun")
    record(program)
    with Job(3, [program.path, *RUN, "--record", "three.rec", "--out", "three"], cwd=program.folder) as job:
        job.wait()
        if job.exit_code(0) == 5 and "no MPI" in job.err(0):
            return print("skipped: a run over processes, no MPI in this build")
        expect(job.exit_codes() == [0, 0, 0], f"{job.exit_codes()}: {job.said()}")

    def issued(name):
        """By rank, what was launched and what for it waited."""
        ranks = {}
        for line in lines(program.folder / name)[1:-1]:
            if "launch" in line:
                ranks.setdefault(line["launch"][0], []).append((line["launch"], line["queue"], line["waits"]))
        return ranks

    expect(issued("three.rec") == issued("run.rec"), "launches and messages in three processes are those of one")
    replay = program.run("simulate", "run/plan.json", "--replay", "three.rec", "--json").expect_code(0).document()
    expect(replay["began_early"]["launches"] == 0 and replay["other_waits"]["launches"] == 0, f"{replay}")


def lanes(path):
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    names = {(event["name"], event["pid"], event["tid"]): event["args"]["name"] for event in events if event["ph"] == "M"}
    return {(names["process_name", pid, 0], names["thread_name", pid, tid]) for name, pid, tid in names
            if name == "thread_name"}


def check_traces(program):
    record(program)
    program.run("simulate", "run/plan.json", "--unfolded", "--trace", "plan.json.trace").expect_code(0)
    program.run("simulate", "run/plan.json", "--replay", "run.rec", "--trace", "run.trace", "--timeline",
                "run.html").expect_code(0)
    plan, run = lanes(program.folder / "plan.json.trace"), lanes(program.folder / "run.trace")
    hosts = {lane for lane in run if lane[1] in ("tokens", "labels", "metrics")}
    expect({actor for _, actor in hosts} == {"tokens", "labels", "metrics"}, f"lanes of host actors: {sorted(hosts)}")
    run -= hosts
    expect(plan == run and len(plan) > 4, f"lanes of the plan {sorted(plan)}, of the run {sorted(run)}")
    program.run("compare", "run/plan.json", "run.rec", "--trace", "both.trace").expect_code(0)
    both = lanes(program.folder / "both.trace")
    expect(both == {(f"{rank}: {what}", queue) for rank, queue in plan for what in ("plan", "run")},
           f"lanes of both: {sorted(both)}")


def check_refused(program):
    path = record(program)
    text = path.read_text(encoding="utf-8")

    def refused(content, code, *parts):
        (program.folder / "bad.rec").write_text(content, encoding="utf-8")
        for command in (["simulate", "run/plan.json", "--replay", "bad.rec"], ["compare", "run/plan.json", "bad.rec"]):
            program.run(*command).expect_code(code).expect_error(*parts)

    refused(text[:len(text) // 2], 3, "bad.rec", "the file is cut")
    refused(text[:text.rindex('{"end"')], 3, "bad.rec", "the file is cut")
    refused(text.replace("recording.v1", "recording.v9", 1), 3, "sextant.recording.v9", "reads 'sextant.recording.v1'")
    refused("", 3, "bad.rec")
    refused("not a recording\n", 3, "bad.rec", "line 1")
    middle = text.splitlines(keepends=True)
    refused("".join(middle[:5] + middle[6:]), 3, "lines were written")
    program.run("run", *JOB[:4], "dp=4 micro_batch=2", *JOB[5:], "--data", "random", "--steps", "2", "--record",
                "other.rec").expect_code(0)
    refused((program.folder / "other.rec").read_text(encoding="utf-8"), 3, "bad.rec was made with plan", "dp=4")
    program.run("simulate", "run/plan.json", "--replay", "missing.rec").expect_code(3).expect_error("missing.rec")
    program.run("simulate", "run/plan.json", "--replay", "run.rec", "--jitter", "0.1").expect_code(2).expect_error(
        "--jitter with --replay")
    program.run("compare", "run/plan.json", "run", "--trace", "t.json").expect_code(2).expect_error("only a recording")
    # A launch out of order: replay refuses it, compare says where.
    swapped = [*middle]
    swapped[2], swapped[3] = swapped[3], swapped[2]
    (program.folder / "bad.rec").write_text("".join(swapped), encoding="utf-8")
    program.run("simulate", "run/plan.json", "--replay", "bad.rec").expect_code(3).expect_error("rank 0, launch 1")
    found = program.run("compare", "run/plan.json", "bad.rec", "--json").expect_code(0).document()
    expect(found["message_order_equal"] is False and "rank 0, launch 1" in found["first_difference"], f"{found}")


def check_not_recorded(program):
    """What cannot be written is refused before anything runs."""
    program.run(*RUN[:-1], "1000000", "--record", "big.rec").expect_code(2).expect_error("a recording holds 1000000 launches")
    program.run(*RUN, "--record", "/proc/no/such.rec").expect_code(3).expect_error("--record /proc/no/such.rec")
    program.run(*RUN, "--backend", "cuda", "--record", "gpu.rec").expect_code(2).expect_error("only CPU ranks are recorded")
    expect(not [name for name in program.files() if name.endswith(".rec")], f"files are left: {program.files()}")


if __name__ == "__main__":
    sys.exit(run_checks(check_repeated, check_processes, check_traces, check_refused, check_not_recorded))
