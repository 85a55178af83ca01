"""`sextant simulate --memory` and what is refused for lack of memory: sums that add up, hints that
hold, and a process that takes what its plan says.

usage: memory_test.py --sextant PROGRAM
"""

import json
import os
import subprocess
import sys

from habits_test import CPU, TINY, expect, run_checks
from models_test import operator

STRATEGY = ["--strategy", "dp=2 pp=2 micro_batch=1 schedule=1f1b", "--global-batch", "8"]
# 7 billion parameters with AdamW take 16 bytes each: more than a V100 has.
LARGE = ["llama2-7b", "-c", "v100x8", "--global-batch", "8", "--strategy"]


def check_text(program):
    outcome = program.run("simulate", TINY, *CPU, *STRATEGY, "--memory").expect_code(0)
    for part in ("memory at the peak", "stage0", "stage1", "parameters", "bound", "packing",
                 "in use over the step", "peak at", "largest owners on stage"):
        expect(part in outcome.out, f"simulate --memory does not say '{part}'")
    plain = program.run("simulate", TINY, *CPU, *STRATEGY).expect_code(0)
    expect("largest owners" not in plain.out, "simulate without --memory lists owners")


def check_document(program):
    outcome = program.run("simulate", TINY, *CPU, *STRATEGY, "--memory", "--json").expect_code(0)
    memory = outcome.document().get("memory", {})
    programs = memory.get("programs", [])
    expect([p["program"] for p in programs] == ["stage0", "stage1"], f"programs: {programs}")
    expect(memory["max_arena_bytes"] == max(p["arena_bytes"] for p in programs), "the worst arena")
    for stage in programs:
        name = stage["program"]
        expect(sum(stage["by_class_bytes"].values()) == stage["peak_bytes"],
               f"{name}: classes do not add up to the peak")
        expect(max(stage["over_time_bytes"]) == stage["peak_bytes"],
               f"{name}: the peak is in no window")
        expect(stage["peak_bytes"] <= stage["arena_bytes"], f"{name}: more in use than the arena")
        expect(stage["lower_bound_bytes"] <= stage["arena_bytes"], f"{name}: below its bound")
        owned = [owner["bytes"] for owner in stage["owners"]]
        expect(owned == sorted(owned, reverse=True), f"{name}: owners are not the largest first")
        expect(sum(owned) <= stage["peak_bytes"], f"{name}: owners hold more than the peak")
        expect(all(owner["count"] > 0 for owner in stage["owners"]), f"{name}: an owner of nothing")


def check_worst_device(program):
    """The largest arena is not the worst where another stage has more communicators beside it."""
    job = ["gpt:layers=8,hidden=1024,heads=16,vocab=4096,seq=512", "-c", "dgx-h100:nodes=1",
           "--strategy", "dp=2 pp=4 micro_batch=1", "--global-batch", "32", "--json"]
    checked = program.run("check", *job).expect_code(0).document()
    simulated = program.run("simulate", *job, "--memory").expect_code(0).document()
    libraries = sum(library["bytes"] for library in simulated["library_memory"])
    arena = simulated["peak_memory_bytes"]
    expect(arena < simulated["memory"]["max_arena_bytes"], "the largest arena is the worst: no test")
    expect((arena, libraries) == (checked["peak_memory_bytes"], checked["library_memory_bytes"]),
           f"simulate and check name different devices: {arena}, {libraries} and {checked}")
    expect(sum(simulated["memory_by_class_bytes"].values()) <= arena,
           "the classes are of another device than the arena")


def check_refusals(program):
    for verb in ("check", "simulate"):
        program.run(verb, *LARGE, "dp=8 micro_batch=1").expect_code(4).expect_error(
            "too much", "parameters", "optimizer", "largest tensor", "zero=1 needs")


def hints_of(program, job, strategy):
    refused = program.run("check", *job, strategy).expect_code(4)
    return [line.strip().removeprefix("hint: ").removeprefix("- ")
            for line in refused.err.splitlines() if " needs " in line and "the plan" not in line]


def check_hint(program, job, strategy, hint):
    """With the change of the hint the plan fits, or it does not, as the hint says."""
    change = hint.split(" needs ")[0]
    settings = dict(word.split("=") for word in f"{strategy} {change}".split())
    changed = " ".join(f"{key}={value}" for key, value in settings.items())
    program.run("check", *job, changed).expect_code(0 if "which fits" in hint else 4)


def check_hints(program):
    """A setting that is said to fit fits, one that is not enough alone does not."""
    strategy = "dp=2 tp=4 micro_batch=1"
    hints = hints_of(program, LARGE, strategy)
    expect(len(hints) > 0, f"no setting would help: {hints}")
    expect(not any("at least" in hint for hint in hints), f"a small model has bounds only: {hints}")
    for hint in hints[:2]:
        check_hint(program, LARGE, strategy, hint)


def check_bounded_hints(program):
    """Of a large model few changes are compiled; what is said of the others is true as well."""
    job = ["llama3-70b", "-c", "dgx-h100:nodes=2", "--global-batch", "128", "--strategy"]
    strategy = "dp=2 tp=4 pp=2 micro_batch=2 zero=1"
    hints = hints_of(program, job, strategy)
    exact = [hint for hint in hints if "at least" not in hint]
    too_large = [hint for hint in hints if "at least" in hint and "not enough alone" in hint]
    expect(len(exact) >= 1, f"nothing was compiled: {hints}")
    expect(len(exact) < len(hints), f"everything was compiled: {hints}")
    expect(all("may be enough" in hint for hint in hints if hint not in exact + too_large), f"{hints}")
    check_hint(program, job, strategy, exact[0])
    if too_large:
        check_hint(program, job, strategy, too_large[0])


COLUMNS = 32768


def wide_graph(rows):
    """A row of bf16 is expanded to all rows, of which the loss is taken: one tensor of any size, no product."""
    logits = ["logits", "max", "sum", "pick", "labels"]
    return {
        "schema": "sextant.graph/1",
        "name": "wide",
        "operators": [
            operator("row", "parameter", 0, shape=[COLUMNS], dtype="f32", init="normal", init_std=0.3),
            operator("narrow", "cast", 0, ["row"], dtype="bf16"),
            operator("logits", "expand", 0, ["narrow"], shape=[rows, COLUMNS], dims=[0]),
            operator("labels", "input", 0, shape=[rows], dtype="i32", limit=COLUMNS),
            operator("max", "row_max", 0, logits[:1]),
            operator("sum", "row_sum_exp", 0, logits[:2]),
            operator("pick", "pick", 0, ["logits", "labels"]),
            operator("loss", "cross_entropy", 0, logits),
        ],
        "loss": {"sum": "loss", "count": "loss:1"},
    }


def wide_run(program, rows):
    (program.folder / "wide.json").write_text(json.dumps(wide_graph(rows)), encoding="utf-8")
    # The ranks of `cpu` have no 16-bit types; one of these devices runs as a rank of this machine.
    return ["run", "wide.json", "-c", "dgx-a100:nodes=1", "--strategy", f"dp=1 micro_batch={rows}",
            "--global-batch", str(rows), "--steps", "1", "--json"]


def check_spare_memory(program):
    """Guards of a plan delay no step while memory is free, and take none that was not given."""
    job = ["gpt2-medium", "-c", "dgx-h100:nodes=1", "--global-batch", "64"]
    strategy = "dp=8 micro_batch=2 zero=3 recompute=full"
    said = program.run("check", *job, "--strategy", strategy).expect_code(0).out
    expect("so that guards delay the step less" in said, f"no spare memory is spent: {said}")
    document = program.run("search", *job, "--fix", strategy + " tp=1 pp=1", "--memory", "5GiB",
                           "--out", "spare", "--json").expect_code(0).document()
    expect(len(document["plans"]) == 1, "a text of several settings fixes them all")
    for verb in ("check", "simulate"):
        said = program.run(verb, "spare/plan.json").expect_code(0).out
        expect("of 5.00 GiB" in said, f"{verb} of a plan for less memory forgets it: {said}")
    again = program.run("simulate", "spare/plan.json", "--json").expect_code(0).document()
    expect(again["step_time_s"] == document["plans"][0]["step_time_s"],
           "a plan for less memory takes another time than the search said")


def peak_of_run(program, rows):
    """Bytes of the largest moment of a whole process, and those of its plan's arena."""
    arguments = wide_run(program, rows)
    out = f"out{rows}"
    with subprocess.Popen([str(program.path), *arguments, "--out", out], cwd=program.folder,
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    expect(child.returncode == 0, f"{rows} rows: exit {child.returncode}")
    planned = program.run("simulate", f"{out}/plan.json", "--memory", "--json").expect_code(0).document()
    return usage.ru_maxrss * 1024, planned["memory"]["max_arena_bytes"]


def check_process_memory(program):
    """Kernels that widened their operands took four times the planned memory beside it.

    The program and its libraries, 70 MiB without CUDA and 220 with it, are those of a run of few rows.
    """
    few, many = 8, 1024
    program_alone, planned_few = peak_of_run(program, few)
    peak, planned = peak_of_run(program, many)
    expect(planned >= many * COLUMNS * 2, f"the plan of {planned} bytes has no room for the logits")
    beside = (peak - program_alone) - (planned - planned_few)
    expect(beside <= 32 << 20, f"{beside >> 20} MiB beside a plan of {planned >> 20} MiB: the process takes "
           f"{peak >> 20}, one with a plan of {planned_few >> 20} takes {program_alone >> 20}")


def check_process_that_cannot_fit(program):
    """64 GiB of two large tensors: inside the device that the plan is for, beyond the machine that shall run it."""
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 60 << 30:
        print("SKIPPED: this machine has more than 60 GiB")
        return
    program.run(*wide_run(program, 1 << 19)).expect_code(4).expect_said("are available", "too much")


if __name__ == "__main__":
    sys.exit(run_checks(
        check_text, check_document, check_worst_device, check_refusals, check_hints, check_bounded_hints, check_spare_memory,
        check_process_memory,
        check_process_that_cannot_fit))
