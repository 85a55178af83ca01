"""`sextant simulate --memory` and what is refused for lack of memory: sums that add up, hints that
hold.

usage: memory_test.py --sextant PROGRAM
"""

import argparse
import pathlib
import sys
import tempfile

from habits_test import CPU, TINY, Program, expect, failures

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


def check_refusals(program):
    for verb in ("check", "simulate"):
        program.run(verb, *LARGE, "dp=8 micro_batch=1").expect_code(4).expect_error(
            "too much", "parameters", "optimizer", "largest tensor", "zero=1 needs")


def check_hints(program):
    """A setting that is said to fit fits, one that is not enough alone does not."""
    refused = program.run("check", *LARGE, "dp=2 tp=4 micro_batch=1").expect_code(4)
    hints = [line.strip().removeprefix("hint: ").removeprefix("- ")
             for line in refused.err.splitlines() if " needs " in line and "the plan" not in line]
    expect(len(hints) > 0, f"no setting would help: {refused.err}")
    for hint in hints[:2]:
        change = hint.split(" needs ")[0]
        settings = dict(word.split("=") for word in
                        ("dp=2 tp=4 micro_batch=1 " + change).split())
        strategy = " ".join(f"{key}={value}" for key, value in settings.items())
        outcome = program.run("check", *LARGE, strategy)
        outcome.expect_code(0 if "fits" in hint else 4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True, type=pathlib.Path)
    path = parser.parse_args().sextant.resolve()
    for check in (check_text, check_document, check_refusals, check_hints):
        with tempfile.TemporaryDirectory() as folder:
            print(check.__name__, flush=True)
            check(Program(path, pathlib.Path(folder)))
    print(f"{len(failures)} expectations failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
