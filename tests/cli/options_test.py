"""Values of options: whole numbers as people write them, files that are not replaced, places that can be
written to.

usage: options_test.py --sextant PROGRAM
"""

import json
import os
import resource
import shutil
import subprocess
import sys

from habits_test import CPU, TINY, expect, run_checks
from models_test import operator

JOB = ["--strategy", "dp=2", "--global-batch", "4"]
TRAIN = ["run", TINY, *CPU, *JOB, "--data", "random"]


def check_whole_numbers(program):
    """Neither octal nor hexadecimal, and nothing that is cut to what fits."""
    check = ["check", TINY, *CPU, "--strategy", "dp=2", "--global-batch"]
    for text in ("010", "0x4", "1e3", "4.0", "+4", "99999999999999999999", "four"):
        program.run(*check, text).expect_code(2).expect_error("--global-batch", text)
    for text in ("011", "99999999999999999999"):
        for option in ("--steps", "--profile"):
            program.run(*TRAIN, option, text).expect_code(2).expect_error(option, text)
    program.run(*TRAIN, "--steps", "1", "--seed=-1").expect_code(2).expect_error("--seed", "-1")
    program.run(*check, "4").expect_code(0)
    # What is not given is the model's; zero and less are given.
    for text in ("0", "-3"):
        program.run(*check, "4", "--seq", text).expect_code(2).expect_error("--seq must be positive", text)
        program.run("model", "show", TINY, "--seq", text).expect_code(2).expect_error("--seq must be positive", text)
    program.run("check", TINY, *CPU, "--strategy", "dp=2", SEXTANT_GLOBAL_BATCH="010").expect_code(2)


def check_different_files(program):
    """What a verb writes is not what it reads, whatever the path looks like."""
    program.run(*TRAIN, "--steps", "1", "--out", "run").expect_code(0)
    plan = (program.folder / "run/plan.json").read_bytes()
    os.symlink("run/plan.json", program.folder / "link.json")
    for path in ("run/plan.json", "./run/../run/plan.json", "link.json"):
        program.run("explain", "run/plan.json", "--graphviz", path).expect_code(2).expect_error(
            "--graphviz are the same file")
    expect((program.folder / "run/plan.json").read_bytes() == plan, "a plan was replaced by its picture")
    shown = program.run("cluster", "show", "cpu:ranks=2", "--json").expect_code(0).document()
    (program.folder / "here.json").write_text(json.dumps(shown["cluster"]), encoding="utf-8")
    program.run("cluster", "import", "here.json", "-o", "here.json").expect_code(2).expect_error("same file")
    program.run("cluster", "bench", "--backend", "cpu", "--base", "here.json", "-o",
                "here.json").expect_code(2).expect_error("same file")


def check_places(program):
    """A place that cannot be written to is said before the work."""
    (program.folder / "taken/plan.json").mkdir(parents=True)
    (program.folder / "broken").mkdir()
    os.symlink("nowhere", program.folder / "broken/run.json")
    for folder in ("/proc/results", "taken", "broken"):
        ran = program.run(*TRAIN, "--steps", "100000000", "--out", folder, "--overwrite").expect_code(3)
        ran.expect_error(folder)
    program.run("search", TINY, *CPU, "--global-batch", "4", "--out", "/proc/results").expect_code(3)
    program.run("cluster", "bench", "--backend", "cpu", "-o", ".").expect_code(3).expect_error("regular file")


def check_full_disk(program):
    """A file that could not be written whole leaves nothing, and the reason is said."""
    write = [str(program.path), "simulate", TINY, *CPU, *JOB, "--trace", "trace.json"]

    def few_bytes():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    # Python ignores the signal of that limit, so that a write fails as on a full disk.
    ran = subprocess.run(write, cwd=program.folder, preexec_fn=few_bytes, restore_signals=False,
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    expect(ran.returncode == 3 and "trace.json: cannot be written: File too large" in ran.stderr,
           f"a full disk: {ran.returncode}, {ran.stderr}")
    expect(program.files() == [], f"a file that was not written whole leaves {program.files()}")


def check_what_is_not_known(program):
    """Nothing is not zero, and no next step leads into an error."""
    ran = program.run(*TRAIN, "--steps", "2", "--out", "short").expect_code(0)
    expect("next:" not in ran.out, f"two steps have no step time to compare: {ran.out}")
    program.run(*TRAIN, "--steps", "4", "--out", "plain").expect_code(0)
    compared = program.run("compare", "plain/plan.json", "plain", "--json").expect_code(0).document()
    expect(compared["median_operator_error"] is None, "an error of operators that were not measured")


def check_order_of_streams(program):
    """An error ends the output; it stands behind all that was said before."""
    arguments = ["explain", TINY, *CPU, *JOB, "--why-not", "foo=2"]
    with open(program.folder / "both.txt", "wb") as both:
        child = os.posix_spawn(
            str(program.path), [str(program.path), *arguments], os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, both.fileno(), 1), (os.POSIX_SPAWN_DUP2, both.fileno(), 2)])
        _, status = os.waitpid(child, 0)
    expect(os.waitstatus_to_exitcode(status) == 2, "an unknown setting is a usage error")
    lines = (program.folder / "both.txt").read_text(encoding="utf-8").splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error (usage)")]
    expect(len(errors) == 1 and all(line.startswith("  hint") for line in lines[errors[0] + 1:]),
           f"the error is not the last line: {lines[-3:]}")


def check_attributes_without_sense(program):
    graph = {
        "schema": "sextant.graph/1", "name": "odd",
        "operators": [
            operator("x", "input", 0, shape=[2, 4], dtype="f32"),
            operator("g", "parameter", 0, shape=[4], dtype="f32", init="ones", init_std=0.0),
            operator("y", "rms_norm", 0, ["x", "g"], epsilon=1e-5),
            operator("s", "reduce_sum", 0, ["y"], dims=[0, 1]),
            operator("n", "constant", 0, shape=[], dtype="f32", value=2.0)],
        "loss": {"sum": "s", "count": "n"}}
    for name, attribute, value, says in (("y", "epsilon", -1.0, "epsilon -1"),
                                         ("g", "init_std", -1.0, "init_std -1")):
        changed = json.loads(json.dumps(graph))
        next(op for op in changed["operators"] if op["name"] == name)["attributes"][attribute] = value
        (program.folder / "odd.json").write_text(json.dumps(changed), encoding="utf-8")
        program.run("check", "odd.json", *CPU, "--strategy", "micro_batch=2", "--global-batch",
                    "2").expect_code(3).expect_error(says)


def check_words_problem(program):
    """Words per operator for outside solvers: a file, our own answer as pins, errors by option and value."""
    search = ["search", "class_head:features=64,hidden=128,classes=4096", *CPU, "--global-batch", "64"]
    write = [*search, "--words-problem", "words.lp"]
    found = program.run(*write, "--fix", "dp=4", "--fix", "micro_batch=16", "--json").expect_code(0).document()
    text = (program.folder / "words.lp").read_text(encoding="utf-8")
    expect(text.startswith("\\ words per operator under dp=4") and "\nBinary\n" in text and
           ": operator head\n" in text, f"no problem of words: {text[:200]}")
    expect(found["gap"] == 0 and found["sum_s"] == found["lower_bound_s"] <= found["own_sum_s"],
           f"the problem is not solved: {found}")
    # The pins are settings of a strategy, and the sum is that of its own words.
    strategy = " ".join(["dp=4", "micro_batch=16", *found["pins"]])
    program.run("check", search[1], *CPU, "--global-batch", "64", "--strategy", strategy).expect_code(0)
    again = [argument for pin in found["pins"] for argument in ("--fix", pin)]
    pinned = program.run(*write, "--fix", "dp=4", "--fix", "micro_batch=16", *again, "--json").expect_code(0)
    expect(pinned.document()["own_sum_s"] == found["sum_s"] and pinned.document()["pins"] == [],
           f"the pins do not give the words: {pinned.out}")
    if shutil.which("cbc"):
        subprocess.run(["cbc", "words.lp", "solve", "solution", "found.txt"], cwd=program.folder, check=True,
                       stdout=subprocess.DEVNULL)
        first = (program.folder / "found.txt").read_text(encoding="utf-8").splitlines()[0]
        picoseconds = float(first.split("value")[1])
        expect(first.startswith("Optimal") and abs(picoseconds - found["sum_s"] * 1e12) < 1,
               f"cbc finds another sum: {first}, not {found['sum_s']} s")
    else:
        print("skipped: no cbc to solve the problem with", flush=True)
    for wrong, said in (([], "no --fix"), (["--fix", "dp=2"], "--fix dp=2"),
                        (["--fix", "dp=4", "--fix", "cp=2"], "cp=2"),
                        (["--fix", "tp=4", "--fix", "sp=on"], "sp=on"),
                        (["--fix", "dp=4", "--fix", "zero=3"], "zero=3"),
                        (["--fix", "dp=4", "--fix", "recompute=full"], "recompute=full"),
                        (["--fix", "dp=4", "--fix", "tq=2"], "--fix tq=2"),
                        (["--fix", "dp=4", "--fix", "dp=2"], "dp is given twice"),
                        (["--fix", "dp=4", "--fix", "pin=nothing:(B,B)"], "pin=nothing:(B,B)"),
                        (["--fix", "dp=4", "--forbid", "zero=1"], "--forbid zero=1"),
                        (["--fix", "dp=4", "--memory", "1GiB"], "--memory 1GiB"),
                        (["--fix", "dp=4", "--out", "plans"], "--out plans"),
                        (["--fix", "dp=4", "--time-limit", "soon"], "--time-limit")):
        program.run(*write, *wrong).expect_code(2).expect_error(said)
    program.run(*search, "--fix", "dp=4", "--words-problem", "/proc/words.lp").expect_code(3).expect_error("/proc")


def check_own_words(program):
    """The best plan of a search carries pins where words per operator make it faster, and says so."""
    found = program.run("search", "class_head:features=64,hidden=128,classes=65536", *CPU, "--global-batch", "64",
                        "--fix", "dp=4", "--fix", "zero=0", "--out", "words", "--json").expect_code(0)
    words, plain = found.document()["own_words"], found.document()["plans"][0]
    found.expect_said(f"{words['pins']} pins behind {plain['strategy']}")
    expect(words["pins"] > 0 and words["step_time_s"] < plain["step_time_s"] and
           "pin=head.weight:(S(1),B)" in words["strategy"], f"own words that are no faster: {words}")
    plan = json.loads((program.folder / "words/plan.json").read_text(encoding="utf-8"))
    expect(plan["strategy"] == words["strategy"], f"the plan is another: {plan['strategy']}")
    simulated = program.run("simulate", "words/plan.json", "--json").expect_code(0).document()
    expect(abs(simulated["step_time_s"] - words["step_time_s"]) < 1e-12, f"simulated: {simulated['step_time_s']}")
    program.run("check", "words/plan.json").expect_code(0)


CARD = ('<pci busid="0000:0{0}:00.0" class="0x030000" vendor="0x10de" device="0x2bb3" '
        'link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="{0}" sm="120"/></pci>')


def check_stand_in(program):
    """Whose numbers a GPU has that no file describes is said by every verb that plans on it."""
    cards = CARD.format(1) + CARD.format(2)
    (program.folder / "rtx.xml").write_text(f'<system version="1"><cpu numaid="0">{cards}</cpu></system>',
                                            encoding="utf-8")
    job = [TINY, "-c", "rtx.xml", "--global-batch", "4"]
    for verb in (["simulate", *job, "--strategy", "dp=2"], ["check", *job, "--strategy", "dp=2"],
                 ["explain", *job, "--strategy", "dp=2"], ["search", *job, "--fix", "dp=2"]):
        outcome = program.run(*verb).expect_code(0)
        expect("nobody described the devices of rtx: GB200-186GB stands in, with 173 GiB" in
               " ".join((outcome.out + outcome.err).split()),
               f"`{outcome.command}` does not say what stands in for the card")


if __name__ == "__main__":
    sys.exit(run_checks(
        check_whole_numbers, check_different_files, check_places, check_full_disk,
        check_what_is_not_known,
        check_order_of_streams, check_attributes_without_sense, check_words_problem,
        check_own_words, check_stand_in))
