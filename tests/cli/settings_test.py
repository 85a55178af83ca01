"""Where values of options come from: defaults, a configuration file, the environment, --set, the command line.

usage: settings_test.py --sextant PROGRAM
"""

import json
import sys

from habits_test import CPU, TINY, VERBS, expect, run_checks

SEARCH = ["search", TINY, *CPU, "--global-batch", "4"]
JOB = ["--strategy", "dp=2", "--global-batch", "4"]
# What stands in the places of each verb; --print-config reads none of it.
PLACES = {"boxing": ["B@[x=1]", "B@[x=1]", "--shape", "1"], "compare": ["plan", "run"], "model show": ["m"],
          "cluster show": ["c"], "cluster import": ["f"], "search": ["m"], "simulate": ["p"], "explain": ["p"],
          "check": ["p"], "run": ["p"], "export": ["p"], "checkpoint show": ["d"],
          "checkpoint check": ["d"]}


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
    expect(settings(program, *SEARCH)["top"] == ("10", "default"), "no default")
    write(program, "all.json", {"top": 2})
    found = settings(program, *SEARCH, "--config", "all.json")["top"]
    expect(found == ("2", "all.json: top"), f"a key for all verbs: {found}")
    found = settings(program, *SEARCH, *config)
    expect(found["top"] == ("3", "some.json: search.top"), f"a section: {found['top']}")
    expect(found["fix"] == (["tp=1", "pp=1"], "some.json: search.fix"), f"a list: {found['fix']}")
    found = settings(program, *SEARCH, *config, SEXTANT_TOP="4")["top"]
    expect(found == ("4", "SEXTANT_TOP"), f"the environment: {found}")
    found = settings(program, *SEARCH, *config, "--set", "search.top=5", SEXTANT_TOP="4")["top"]
    expect(found == ("5", "--set search.top"), f"--set: {found}")
    found = settings(program, *SEARCH, *config, "--set", "search.top=5", "--top", "6", SEXTANT_TOP="4")["top"]
    expect(found == ("6", "command line"), f"the command line: {found}")
    found = settings(program, *SEARCH, "--set", "fix=tp=1", "--set", "fix=pp=1")["fix"]
    expect(found == (["tp=1", "pp=1"], "--set fix"), f"a list by --set: {found}")
    found = settings(program, *SEARCH, SEXTANT_TOP="")["top"]
    expect(found == ("10", "default"), f"an empty variable: {found}")
    # Another verb's section says nothing here, and a flag can be taken back.
    write(program, "other.json", {"boxing": {"top": 1}, "search": {"pareto": True}})
    found = settings(program, *SEARCH, "--config", "other.json", "--set", "pareto=false")
    expect(found["top"][0] == "10" and found["pareto"] == (False, "--set pareto"), f"other verbs: {found}")
    found = settings(program, *SEARCH, SEXTANT_CONFIG="some.json")["top"]
    expect(found == ("3", "some.json: search.top"), f"a configuration file named by the environment: {found}")


def check_values_work(program):
    """What a file says does what the option does."""
    write(program, "job.json", {"cluster": CPU[1], "global-batch": 4, "check": {"strategy": "dp=2"}})
    by_file = program.run("check", TINY, "--config", "job.json", "--json").expect_code(0).document()
    typed = program.run("check", TINY, *CPU, *JOB, "--json").expect_code(0).document()
    expect(by_file == typed, f"by file {by_file}, typed {typed}")


def check_given_back(program):
    """`config` of --print-config, given back, gives the same values."""
    typed = [*SEARCH, "--top", "3", "--pareto", "--fix", "tp=1", "--fix", "pp=1", "--time-limit", "5s"]
    first = program.run(*typed, "--print-config", "--json", SEXTANT_MEMORY="1GiB").expect_code(0).document()
    write(program, "kept.json", first["config"])
    again = settings(program, "search", TINY, "--config", "kept.json")
    for one in first["settings"]:
        if one["option"] != "json":
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
    # A value that is understood nowhere else is not here either, and says where it stands.
    write(program, "bad.json", {"search": {"top": "three"}})
    program.run(*SEARCH, "--config", "bad.json").expect_code(2).expect_error("bad.json: search.top", "three")
    program.run(*SEARCH, SEXTANT_TOP="three").expect_code(2).expect_error("SEXTANT_TOP", "three")
    program.run(*SEARCH, SEXTANT_PARETO="perhaps").expect_code(2).expect_error("SEXTANT_PARETO", "perhaps")
    program.run("simulate", TINY, *CPU, *JOB, "--set", "mode=slow").expect_code(2).expect_error("--set mode", "slow")


def check_every_option(program):
    """Every option that -h shows can be set, by its name."""
    common = program.run("-h").expect_code(0).out.split("Options of all verbs")[1]
    for verb in VERBS:
        shown = program.run(*verb, "-h").expect_code(0).out + common
        names = {word.split(",")[-1] for line in shown.splitlines()
                 for word in line.split()[:1] if word.startswith("-")}
        names = {name[2:] for name in names if name.startswith("--")} - {"help", "config", "set", "print-config"}
        found = settings(program, *verb, *PLACES.get(" ".join(verb), []))
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
                             ([*bench, "-o", "here.json"], ["here.json"])):
        ran = program.run(*arguments, "--dry-run", "--json").expect_code(0).document()
        expect(ran.get("dry_run") is True and set(files) <= set(ran["writes"]), f"{arguments}: {ran}")
        expect(program.files() == [], f"{arguments} writes {program.files()}")
    for arguments, code in (([*SEARCH, "--time-limit", "soon"], 2), ([*SEARCH, "--memory", "much"], 2),
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
    sys.exit(run_checks(check_which_counts_more, check_values_work, check_given_back, check_refusals,
                        check_every_option, check_dry_run, check_threads))
