"""Experiments: a folder that a sweep goes on in, results of others, damaged rows, what is listed.

usage: experiment_test.py --sextant PROGRAM
"""

import json
import sys

from habits_test import expect, run_checks

QUICK = ["experiment", "optimizer-sharding", "--quick"]


# Of the cheap points, what is not as the paper has it.
KNOWN_NOT_TO_HOLD = {
    "the step without its optimizer is flat over the vocabulary",
    "the whole step is flat",
    "it changes the throughput by less than 5 %",
    # Measured on a machine that does other things too.
    "on four CPU ranks the split is faster",
    "256x256: two registers lose less than 3 % to synthetic data",
    "256x256: a second register does not cost time",
    "256x256: images as bytes make a step no longer",
    "on four CPU ranks a tenth of the classes makes a step shorter",
}


def without_jpeg(experiment):
    """No libjpeg-turbo in this build: nothing of the experiment with images can be had."""
    return experiment["experiment"] == "data-pipeline" and all(
        row["error"] and row["error"]["code"] == "device" for row in experiment["rows"])


def rows_of(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def same_rows(one, other):
    """But for times: how long points took, and what is measured."""
    def facts(document):
        return [{**row, "seconds": 0, "spread": 0, "values": row["way"] != "measured" and row["values"]} for row in document["rows"]]
    return facts(one) == facts(other)


def check_list(program):
    listed = program.run("experiment", "list", "--json").expect_code(0).document()["experiments"]
    names = [experiment["name"] for experiment in listed]
    for name in ("data-parallel", "class-split", "wide-deep", "optimizer-sharding", "hybrid-gpt", "ablations", "models", "signatures", "questions"):
        expect(name in names, f"{name} is not listed")
    for experiment in listed:
        expect(0 < experiment["quick_points"] < experiment["points"], experiment["name"])
        program.run("experiment", experiment["name"], "-h").expect_code(0)


def check_goes_on(program):
    """The second run computes nothing, a cut line is computed again, --overwrite all of it."""
    first = program.run(*QUICK, "--out", "kept", "--json").expect_code(0).document()
    expect(first["reused"] == 0 and first["points"] == len(first["rows"]) > 1, "first run")
    folder = program.folder / "kept"
    for name in ("results.jsonl", "summary.json", "table.md"):
        expect((folder / name).exists(), name)
    second = program.run(*QUICK, "--out", "kept", "--json").expect_code(0).document()
    expect(second["reused"] == second["points"], "the second run computed something")
    expect(second["rows"] == first["rows"], "rows differ")
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    (folder / "results.jsonl").write_text(text[:-20], encoding="utf-8")
    third = program.run(*QUICK, "--out", "kept", "--json").expect_code(0).document()
    expect(third["reused"] == third["points"] - 1, "the cut row was not computed again")
    expect(same_rows(third, first), "a row that was computed again differs")
    new = program.run(*QUICK, "--out", "kept", "--overwrite", "--json").expect_code(0).document()
    expect(new["reused"] == 0 and len(rows_of(folder)) == new["points"], "--overwrite kept rows")


def check_refusals(program):
    program.run(*QUICK, "--out", "mine").expect_code(0)
    program.run("experiment", "hybrid-gpt", "--quick", "--out", "mine").expect_code(2).expect_error(
        "results of optimizer-sharding", "--overwrite")
    file = program.folder / "mine/results.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    lines[0] = lines[0].replace('"way":"simulated"', '"way":"dreamt"')
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    program.run(*QUICK, "--out", "mine").expect_code(3).expect_error("results.jsonl:1", "dreamt")
    program.run("experiment", "hybrid-gtp").expect_code(2)


def check_files_of_others(program):
    """What somebody else wrote stays, unless --overwrite says otherwise."""
    folder = program.folder / "theirs"
    folder.mkdir()
    for name in ("results.jsonl", "table.md"):
        (folder / name).write_text("my notes", encoding="utf-8")
        outcome = program.run(*QUICK, "--out", "theirs")
        expect(outcome.code in (2, 3), f"{name} of others: {outcome.code}")
        expect((folder / name).read_text(encoding="utf-8") == "my notes", f"{name} of others was replaced")
        (folder / name).unlink()


def check_changed_file(program):
    """A cluster file that changed under its name is another point."""
    shown = program.run("cluster", "show", "dgx1-v100:nodes=1", "--json").expect_code(0).document()["cluster"]
    file = program.folder / "mine.json"
    sweep = ["search", "gpt:layers=2,hidden=32,heads=2,vocab=64,seq=16", "-c", "mine.json", "--global-batch", "8", "--fix", "pp=1",
             "--sweep", "global_batch=8", "--out", "changed", "--json"]
    for reused in (0, 1):
        file.write_text(json.dumps(shown), encoding="utf-8")
        expect(program.run(*sweep).expect_code(0).document()["reused"] == reused, f"reused, wanted {reused}")
    shown["device"]["memory"] = shown["device"]["memory"] // 2 if isinstance(shown["device"]["memory"], int) else "8GiB"
    file.write_text(json.dumps(shown), encoding="utf-8")
    expect(program.run(*sweep).expect_code(0).document()["reused"] == 0, "a row of the file before was taken")


def check_dry_run(program):
    said = program.run(*QUICK, "--out", "none", "--dry-run", "--json").expect_code(0).document()
    expect(said["dry_run"] and any(name.endswith("results.jsonl") for name in said["writes"]), "dry run")
    expect(not (program.folder / "none").exists(), "a dry run wrote")


def check_plan_sweep(program):
    """`search --sweep`: a search per model, cluster and batch, which a second run does not repeat."""
    sweep = ["search", "gpt:layers=2,hidden=32,heads=2,vocab=64,seq=16", "-c", "dgx1-v100:nodes=1", "--global-batch", "8", "--fix", "pp=1"]
    first = program.run(*sweep, "--sweep", "global_batch=8;16", "--out", "plans", "--json").expect_code(0).document()
    expect([row["parameters"]["global_batch"] for row in first["rows"]] == [8, 16], "batches")
    alone = program.run(*sweep, "--json").expect_code(0).document()
    expect(first["rows"][0]["values"]["strategy"] == alone["plans"][0]["strategy"], "another plan than the search's")
    second = program.run(*sweep, "--sweep", "global_batch=8;16;32", "--out", "plans", "--json").expect_code(0).document()
    expect(second["reused"] == 2 and second["points"] == 3, "finished searches were repeated")
    other = program.run(*sweep, "--fix", "zero=0", "--sweep", "global_batch=8", "--out", "plans", "--json").expect_code(0).document()
    expect(other["reused"] == 0, "a row of other conditions was taken")
    point = program.run(*sweep, "--sweep", "global_batch=8;16", "--point", f"{sweep[1]} {sweep[3]} 16", "--point-limit", "5min", "--json")
    expect(same_rows({"rows": point.expect_code(0).document()["rows"]}, {"rows": first["rows"][1:]}), "a point in its own process differs")
    program.run(*sweep, "--point-limit", "10s").expect_code(2).expect_error("--point-limit", "--sweep")
    program.run(*sweep, "--sweep", "global_bath=8").expect_code(2).expect_error("did you mean 'global_batch'?")
    program.run(*sweep, "--sweep", "model=gpt2-mediumm").expect_code(2)
    program.run(*sweep, "--sweep", "global_batch=8", "--memory", "10xx").expect_code(2)
    program.run(*sweep, "--fix", "tq=1", "--sweep", "global_batch=8;16").expect_code(2).expect_error("tq")
    program.run(*sweep, "--sweep", "global_batch=8", "--pareto").expect_code(2).expect_error("--pareto")


def check_points(program):
    """Points by name, and a limit of their time: what runs over it is kept as failed and tried again."""
    point = ["experiment", "hybrid-gpt", "--point", "1x1x1_2_1536x16"]
    one = program.run(*point, "--out", "one", "--json").expect_code(0).document()
    expect([row["point"] for row in one["rows"]] == ["1x1x1_2_1536x16"], "one point was asked for")
    program.run("experiment", "hybrid-gpt", "--point", "1x1x1_2_1536x15").expect_code(2).expect_error("did you mean '1x1x1_2_1536x16'?")
    program.run(*point, "--point-limit", "30").expect_code(2).expect_error("--point-limit")
    roomy = program.run(*point, "--point-limit", "5min", "--out", "roomy", "--json").expect_code(0).document()
    expect(same_rows(roomy, one), "a point in a process of its own has other values")
    # A search of Llama 3 405B on 8,192 devices is not done within a hundredth of a second.
    slow = ["experiment", "models", "--point", "llama3-405b_8192", "--point", "llama3-8b_8_rule", "--out", "slow"]
    program.run(*slow, "--point-limit", "10ms").expect_code(6).expect_error("longer than 10.0 ms")
    rows = rows_of(program.folder / "slow")
    expect([row["error"]["code"] for row in rows] == ["rank_failed"] * 2, f"{rows}")
    again = program.run("experiment", "models", "--point", "llama3-8b_8_rule", "--out", "slow", "--point-limit", "5min", "--json")
    expect(again.expect_code(0).document()["rows"][0]["error"] is None, "the next try has more time and fails")
    # Ended while it makes pictures, or while it trains on them.
    temporary = program.folder / "temporary"
    temporary.mkdir()
    killed = ["experiment", "data-pipeline", "--point", "256x256 whole", "--out", "killed", "--point-limit", "500ms"]
    program.run(*killed, TMPDIR=str(temporary)).expect_code(6)
    expect(not list(temporary.iterdir()), f"a point that is ended leaves {list(temporary.iterdir())}")


def check_all(program):
    """Every experiment's cheap points, each in a folder of its name."""
    document = program.run("experiment", "all", "--quick", "--out", "all", "--json").expect_code(0).document()
    for experiment in document["experiments"]:
        folder = program.folder / "all" / experiment["experiment"]
        expect(len(rows_of(folder)) == experiment["points"], f"rows of {experiment['experiment']}")
        if without_jpeg(experiment):
            continue
        expect(experiment["failed"] < experiment["points"], f"{experiment['experiment']} has no row")
        errors = [row["error"] for row in experiment["rows"] if row["error"]]
        expect(all(error["code"] == "infeasible" for error in errors), f"{errors}")
        for shape in experiment["shapes"]:
            expect(shape["holds"] is not False or shape["statement"] in KNOWN_NOT_TO_HOLD,
                   f"{experiment['experiment']}: {shape['statement']}: {shape['detail']}")
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        expect(summary["shapes"] and summary["question"], f"summary of {experiment['experiment']}")
        expect(experiment["experiment"] in ("boxing-volumes", "ablations", "models", "questions", "signatures") or
               any(row["way"] == "measured" and not row["error"] for row in rows_of(folder)) or without_jpeg(experiment),
               f"nothing of {experiment['experiment']} was measured here")
        for figure in summary["figures"]:
            expect((folder / figure).read_text(encoding="utf-8").startswith("<svg"), figure)


if __name__ == "__main__":
    sys.exit(run_checks(check_list, check_goes_on, check_refusals, check_files_of_others, check_changed_file, check_dry_run, check_plan_sweep, check_points, check_all))
