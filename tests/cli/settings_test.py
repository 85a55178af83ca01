"""Where values of options come from: defaults, a configuration file, the environment, --set, the command line.

usage: settings_test.py --sextant PROGRAM
"""

import json
import sys

from habits_test import CPU, TINY, VERBS, expect, run_checks

SEARCH = ["search", TINY, *CPU, "--global-batch", "4"]
JOB = ["--strategy", "dp=2", "--global-batch", "4"]
# What stands in the places of each verb; --print-config reads none of it.
PLACES = {"boxing": ["B@[x=1]", "B@[x=1]", "--set", "shape=1"], "compare": ["plan", "run"], "model show": ["m"],
          "cluster show": ["c"], "cluster import": ["f"], "search": ["m"], "simulate": ["p"], "explain": ["p"],
          "check": ["p"], "run": ["p"], "export": ["p"], "checkpoint show": ["d"],
          "checkpoint check": ["d"], "report": ["r", "-o", "x"], "plan diff": ["a", "b"],
          "plan convert": ["p", "-o", "x"]}


def write(program, name, content):
    (program.folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")


def settings(program, *arguments, **environment):
    """Value and place of each option, by name."""
    ran = program.run(*arguments, "--print-config", "--json", **environment).expect_code(0)
    return {one["option"]: (one["value"], one["from"]) for one in ran.document()["settings"]}


def check_which_counts_more(program):
    """Default < file < environment < --set < command line."""
    write(program, "some.json", {"schema": "sextant.config/1", "top": 2, "search": {"top": 3, "fix": ["tp=1", "pp=1"]}})
    config = ["--config", "some.json"]
    expect(settings(program, *SEARCH)["top"] == (10, "default"), "no default")
    write(program, "all.json", {"top": 2})
    found = settings(program, *SEARCH, "--config", "all.json")["top"]
    expect(found == (2, "all.json: top"), f"a key for all verbs: {found}")
    found = settings(program, *SEARCH, *config)
    expect(found["top"] == (3, "some.json: search.top"), f"a section: {found['top']}")
    expect(found["fix"] == (["tp=1", "pp=1"], "some.json: search.fix"), f"a list: {found['fix']}")
    found = settings(program, *SEARCH, *config, SEXTANT_TOP="4")["top"]
    expect(found == (4, "SEXTANT_TOP"), f"the environment: {found}")
    found = settings(program, *SEARCH, *config, "--set", "search.top=5", SEXTANT_TOP="4")["top"]
    expect(found == (5, "--set search.top"), f"--set: {found}")
    found = settings(program, *SEARCH, *config, "--set", "search.top=5", "--top", "6", SEXTANT_TOP="4")["top"]
    expect(found == (6, "command line"), f"the command line: {found}")
    found = settings(program, *SEARCH, "--set", "fix=tp=1", "--set", "fix=pp=1")["fix"]
    expect(found == (["tp=1", "pp=1"], "--set fix"), f"a list by --set: {found}")
    found = settings(program, *SEARCH, SEXTANT_TOP="")["top"]
    expect(found == (10, "default"), f"an empty variable: {found}")
    # What is narrower counts more, whatever stands first.
    for sets in (["top=4", "search.top=5"], ["search.top=5", "top=4"]):
        found = settings(program, *SEARCH, *[word for one in sets for word in ("--set", one)])["top"]
        expect(found == (5, "--set search.top"), f"{sets}: {found}")
    found = settings(program, *SEARCH, "--set", "fix=tp=1", "--set", "search.fix=pp=1")["fix"]
    expect(found == (["pp=1"], "--set search.fix"), f"a list of a section: {found}")
    # Another verb's section says nothing here, and a flag can be taken back.
    write(program, "other.json", {"boxing": {"top": 1}, "search": {"pareto": True}})
    found = settings(program, *SEARCH, "--config", "other.json", "--set", "pareto=false")
    expect(found["top"][0] == 10 and found["pareto"] == (False, "--set pareto"), f"other verbs: {found}")
    found = settings(program, *SEARCH, SEXTANT_CONFIG="some.json")["top"]
    expect(found == (3, "some.json: search.top"), f"a configuration file named by the environment: {found}")


def check_values_work(program):
    """What a file says does what the option does."""
    write(program, "job.json", {"cluster": CPU[1], "global-batch": 4, "check": {"strategy": "dp=2"}})
    by_file = program.run("check", TINY, "--config", "job.json", "--json").expect_code(0).document()
    typed = program.run("check", TINY, *CPU, *JOB, "--json").expect_code(0).document()
    expect(by_file == typed, f"by file {by_file}, typed {typed}")


def check_kinds(program):
    """A name that is a flag of one verb and a value of another goes to whom it can be meant for."""
    simulate = ["simulate", TINY, *CPU, *JOB]
    write(program, "memory.json", {"memory": "1GiB"})
    for source in ({"SEXTANT_MEMORY": "1GiB"}, {"SEXTANT_CONFIG": "memory.json"}):
        expect(settings(program, *SEARCH, **source)["memory"][0] == "1GiB", f"{source} for search")
        expect(settings(program, *simulate, **source)["memory"] == (False, "default"), f"{source} for simulate")
    write(program, "flag.json", {"memory": True})
    found = settings(program, *simulate, "--config", "flag.json")["memory"]
    expect(found == (True, "flag.json: memory"), f"a flag for all verbs: {found}")
    for text, value in (("1", True), ("on", True), ("yes", True), ("true", True), ("0", False), ("off", False)):
        found = settings(program, *SEARCH, SEXTANT_PARETO=text)["pareto"]
        expect(found == (value, "SEXTANT_PARETO"), f"a flag that is {text}: {found}")
    # What a verb cannot do without may come from anywhere.
    boxing = ["boxing", "P@[x=2]", "B@[x=2]"]
    program.run(*boxing).expect_code(2).expect_error("--shape is required")
    for ran in (program.run(*boxing, "--set", "shape=4"), program.run(*boxing, SEXTANT_SHAPE="4")):
        ran.expect_code(0)
    # An option that replaces results is typed.
    expect(settings(program, *SEARCH, SEXTANT_OVERWRITE="1")["overwrite"] == (False, "default"), "results are replaced")


def check_plan_has_its_own(program):
    """A configuration that names a model's cluster and batch leaves a plan file what it is."""
    program.run(*SEARCH, "--fix", "dp=4", "--out", "plans").expect_code(0)
    write(program, "job.json", {"cluster": "cpu:ranks=2", "global-batch": 8, "simulate": {"mode": "timed"}})
    plain = program.run("simulate", "plans/plan.json", "--mode", "timed", "--json").expect_code(0).document()
    ran = program.run("simulate", "plans/plan.json", "--config", "job.json", "--json").expect_code(0)
    expect(ran.document() == plain, "a plan of another cluster")
    ran.expect_said("job.json: cluster has no effect: the plan has its own")
    program.run("simulate", "plans/plan.json", *CPU).expect_code(2).expect_error("leave out -c")


def check_given_back(program):
    """`config` of --print-config, given back, gives the same values."""
    typed = [*SEARCH, "--top", "3", "--pareto", "--fix", "tp=1", "--fix", "pp=1", "--time-limit", "5s"]
    first = program.run(*typed, "--print-config", "--json", SEXTANT_MEMORY="1GiB").expect_code(0).document()
    write(program, "kept.json", first["config"])
    again = settings(program, "search", TINY, "--config", "kept.json")
    for one in first["settings"]:
        if one["option"] not in ("json", "config"):
            expect(again[one["option"]][0] == one["value"], f"{one['option']}: {again[one['option']]}, not {one}")


def check_refusals(program):
    """With the place, and the nearest that would do."""
    for content, parts in (({"tpo": 3}, ("tpo", "did you mean 'top'")),
                           ({"serch": {"top": 3}}, ("serch", "did you mean 'search'")),
                           ({"search": {"to": 3}}, ("search.to", "'search'", "did you mean 'top'")),
                           ({"search": {"trace": "t"}}, ("search.trace", "no option of 'search'")),
                           ({"cluster": {"bensh": {}}}, ("cluster.bensh", "did you mean 'bench'")),
                           ({"config": "x.json"}, ("config",)),
                           ({"top": [1]}, ("top", "one value")),
                           ({"top": ""}, ("top", "empty")),
                           ({"top": None}, ("top",)),
                           ({"pareto": 1}, ("pareto", "true or false")),
                           ({"top": True}, ("top", "flags")),
                           ({"schema": "sextant.plan/1"}, ("schema", "sextant.config/1")),
                           ([], ("an object",)),
                           ('{"top": 3,}', ("line 1",)),
                           ('{"top": 3, "top": 4}', ("top",))):
        write(program, "bad.json", content)
        program.run(*SEARCH, "--config", "bad.json").expect_code(3).expect_error("bad.json", *parts)
    program.run(*SEARCH, "--config", "missing.json").expect_code(3).expect_error("missing.json")
    for text, part in (("top", "KEY=VALUE"), ("=3", "KEY=VALUE"), ("top=", "KEY=VALUE"),
                       ("tpo=3", "did you mean 'top'"), ("serch.top=3", "did you mean 'search'"),
                       ("pareto=maybe", "true or false"), ("config=x", "config"), ("search.=3", "search.")):
        program.run(*SEARCH, "--set", text).expect_code(2).expect_error(text, part)
    write(program, "bad.json", {"top": {"x": 1}})
    program.run(*SEARCH, "--config", "bad.json").expect_code(3).expect_error("one value was wanted, not an object")
    # A value that is understood nowhere else is not here either, and says where it stands.
    write(program, "bad.json", {"search": {"top": "three"}})
    program.run(*SEARCH, "--config", "bad.json").expect_code(3).expect_error("bad.json: search.top", "three")
    for place, source in (("bad.json: search.top", {"SEXTANT_CONFIG": "bad.json"}), ("SEXTANT_TOP", {"SEXTANT_TOP": "x"})):
        error = program.run(*SEARCH, "--json", **source).document()
        expect(error.get("place") == place, f"{source}: {error}")
    expect(program.run(*SEARCH, SEXTANT_TOP="x", SEXTANT_JSON="1").document().get("ok") is False, "no error document")
    program.run(*SEARCH, SEXTANT_TOP="three").expect_code(2).expect_error("SEXTANT_TOP", "three")
    program.run(*SEARCH, SEXTANT_PARETO="perhaps").expect_code(2).expect_error("SEXTANT_PARETO", "perhaps")
    program.run("simulate", TINY, *CPU, *JOB, "--set", "mode=slow").expect_code(2).expect_error("--set mode", "slow")


def check_every_option(program):
    """Every option that -h shows can be set, by its name; what has no line of its own stands in that of another option."""
    common = program.run("-h").expect_code(0).out.split("Options of all verbs")[1]
    for verb in VERBS:
        shown = program.run(*verb, "-h").expect_code(0).out + common
        names = {word.split(",")[-1] for line in shown.splitlines()
                 for word in line.split()[:1] if word.startswith("-")}
        names = {name[2:] for name in names if name.startswith("--")} - {"help", "set", "print-config"}
        found = settings(program, *verb, *PLACES.get(" ".join(verb), []))
        names |= {name for name in found if f" --{name}" in shown.replace(",", " ")}
        expect(set(found) == names, f"{verb}: shown and settable differ in {set(found) ^ names}")
    expect(program.files() == [], f"--print-config writes {program.files()}")


def check_dry_run(program):
    """Everything is read and checked, and nothing is written."""
    bench = ["cluster", "bench", "--backend", "cpu", "--base", CPU[1]]
    for arguments, files in (([*SEARCH, "--out", "plans"], ["plans/plan.json"]),
                             (["simulate", TINY, *CPU, *JOB, "--trace", "t.json"], ["t.json"]),
                             (["run", TINY, *CPU, *JOB, "--data", "random", "--out", "run"],
                              ["run/run.json", "run/metrics.jsonl"]),
                             (["run", TINY, *CPU, *JOB, "--data", "random"], []),
                             (["export", TINY, *CPU, *JOB, "--out", "weights"], ["weights/weights.safetensors"]),
                             (["explain", TINY, *CPU, *JOB, "--graphviz", "p.dot"], ["p.dot"]),
                             ([*SEARCH, "--fix", "dp=4", "--words-problem", "w.lp"], ["w.lp"]),
                             ([*bench, "-o", "here.json"], ["here.json"])):
        ran = program.run(*arguments, "--dry-run", "--json").expect_code(0).document()
        expect(ran.get("dry_run") is True and set(files) <= set(ran["writes"]), f"{arguments}: {ran}")
        expect(program.files() == [], f"{arguments} writes {program.files()}")
    for arguments, code in (([*SEARCH, "--fix", "tq=3"], 2), ([*SEARCH, "--time-limit", "soon"], 2),
                            (["export", TINY, *CPU, *JOB, "--out", "w", "--data", "nowhere"], 3), ([*SEARCH, "--memory", "much"], 2),
                            (["run", TINY, *CPU, *JOB, "--data", "nowhere"], 3),
                            (["run", TINY, *CPU, *JOB, "--data", "random", "--steps", "0"], 2),
                            (["simulate", TINY, *CPU, "--strategy", "dp=3", "--global-batch", "4"], 4)):
        program.run(*arguments, "--dry-run").expect_code(code)
    program.run("doctor", "--dry-run").expect_code(0).expect_said("--dry-run had no effect")


def check_threads(program):
    """The same with one thread and with two."""
    check = ["check", TINY, *CPU, "--strategy", "pp=2 dp=2", "--global-batch", "8", "--json"]
    one, two = (program.run(*check, "--threads", n).expect_code(0).document() for n in ("1", "2"))
    expect(one == two, f"one thread {one}, two {two}")
    program.run(*check, "--threads=-1").expect_code(2)


if __name__ == "__main__":
    sys.exit(run_checks(check_which_counts_more, check_values_work, check_kinds, check_plan_has_its_own, check_given_back,
                        check_refusals,
                        check_every_option, check_dry_run, check_threads))
