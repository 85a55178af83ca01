"""The habits of the `sextant` program: help, exit codes, errors, one JSON document, whole files.

Runs the program as a user would, on inputs small enough to take no time.

usage: habits_test.py --sextant PROGRAM
"""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

VERBS = [["search"], ["simulate"], ["explain"], ["boxing"], ["check"], ["run"], ["compare"],
         ["model", "show"], ["strategy", "show"], ["cluster", "show"], ["cluster", "bench"],
         ["cluster", "import"], ["cluster", "detect"], ["checkpoint", "show"], ["checkpoint", "check"],
         ["doctor"], ["experiment", "accuracy"], ["experiment", "list"], ["experiment", "all"], ["experiment", "hybrid-gpt"], ["export"],
         ["report"], ["plan", "diff"], ["plan", "convert"]]

TINY = "gpt:layers=2,hidden=16,heads=4,vocab=256,seq=8"
CPU = ["-c", "cpu:ranks=4,memory=2GiB"]

failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


class Outcome:
    def __init__(self, command, result):
        self.command = " ".join(command)
        self.code = result.returncode
        self.out = result.stdout
        self.err = result.stderr

    def expect_code(self, code):
        expect(self.code == code,
               f"`{self.command}` exits with {self.code}, wanted {code}: {self.err[-400:]}")
        return self

    def expect_error(self, *parts):
        """The error stands on standard error and holds every part; standard output stays empty."""
        for part in parts:
            expect(part in self.err, f"`{self.command}` does not say '{part}': {self.err[-400:]}")
        expect(self.out == "", f"`{self.command}` fails, but prints: {self.out[:200]}")
        return self

    def expect_said(self, *parts):
        """Every part stands on standard error."""
        for part in parts:
            expect(part in self.err, f"`{self.command}` does not say '{part}': {self.err[-400:]}")
        return self

    def document(self):
        """The one JSON document on standard output."""
        try:
            return json.loads(self.out)
        except ValueError as error:
            expect(False, f"`{self.command}` prints no single JSON document ({error}): "
                          f"{self.out[:200]}")
            return {}


class Program:
    def __init__(self, path, folder):
        self.path = path
        self.folder = folder

    def run(self, *arguments, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("SEXTANT_")}
        result = subprocess.run(
            [str(self.path), *arguments], cwd=self.folder, env={**clean, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", timeout=120)
        return Outcome(["sextant", *arguments], result)

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*")
                      if path.is_file())


def run_checks(*checks):
    """The whole of a test script: every check with a program and a folder of its own; the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True, type=pathlib.Path)
    path = parser.parse_args().sextant.resolve()
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            print(check.__name__, flush=True)
            check(Program(path, pathlib.Path(folder)))
    print(f"{len(failures)} expectations failed")
    return 1 if failures else 0


def check_help(program):
    for verb in [[]] + VERBS:
        outcome = program.run(*verb, "-h").expect_code(0)
        lines = outcome.out.splitlines()
        expect(len(lines) <= 40, f"the help of {verb} has {len(lines)} lines, wanted at most 40")
        examples = [line for line in lines if line.strip().startswith("sextant ")]
        expect(len(examples) >= 2, f"the help of {verb} has {len(examples)} examples, wanted two")
        expect(program.run(*verb, "--help").out == outcome.out, f"-h and --help of {verb} differ")


def check_usage(program):
    program.run().expect_code(2).expect_error("error (usage)")
    program.run("serch").expect_code(2).expect_error("unknown verb 'serch', did you mean 'search'?")
    program.run("model", "shwo").expect_code(2).expect_error("did you mean 'show'?")
    program.run("doctor", "--jsn").expect_code(2).expect_error(
        "unknown option '--jsn', did you mean '--json'?")
    program.run("search", TINY, "--global-bach=4").expect_code(2).expect_error(
        "did you mean '--global-batch'?")
    program.run("model", "show").expect_code(2).expect_error("model is required")
    program.run("search", TINY, *CPU).expect_code(2).expect_error("--global-batch")
    program.run("search", TINY, *CPU, "--global-batch", "0").expect_code(2)
    program.run("search", TINY, *CPU, "--global-batch", "-4").expect_code(2)
    program.run("search", TINY, *CPU, "--global-batch", "many").expect_code(2)
    program.run("simulate", TINY, *CPU, "--global-batch", "4").expect_code(2).expect_error(
        "--strategy")
    program.run("simulate", TINY, *CPU, "--global-batch", "4", "--strategy",
                "dp=2 tq=2").expect_code(2).expect_error("tq", "did you mean 'tp'?")
    program.run("simulate", TINY, *CPU, "--global-batch", "4", "--strategy",
                "schedule=interleaved").expect_code(2).expect_error("virtual=2")
    program.run("doctor", "--seed", "-1").expect_code(2).expect_error("--seed")
    program.run("model", "show", "gpt3-175").expect_code(2).expect_error("'gpt3-175b'")
    program.run("cluster", "show", "dgx-h10:nodes=2").expect_code(2).expect_error("dgx-h100")
    program.run("cluster", "show", "dgx-h100:nodes=0").expect_code(2)


def check_bad_files(program):
    def write(name, text):
        (program.folder / name).write_text(text, encoding="utf-8")

    program.run("model", "show", "none.json").expect_code(3).expect_error("none.json: no such file")
    write("cut.json", '{"model_type": "llama",\n "hidden_size": ')
    program.run("model", "show", "cut.json").expect_code(3).expect_error("cut.json: line 2, column")
    write("comma.json", '{"model_type": "llama",\n}')
    program.run("model", "show", "comma.json").expect_code(3).expect_error(
        "line 2, column 1", "remove the comma")
    write("moe.json", '{"model_type": "qwen2_moe"}')
    program.run("model", "show", "moe.json").expect_code(3).expect_error("experts shared by all")
    write("deep.json", "[" * 1_000_000)
    program.run("model", "show", "deep.json").expect_code(3).expect_error("nested deeper than 64")
    write("empty.json", "{}")
    program.run("cluster", "show", "empty.json").expect_code(3).expect_error("empty.json")
    program.run("model", "show", "empty.json").expect_code(3).expect_error("empty.json")
    write("page.xml", "<html></html>")
    program.run("cluster", "import", "page.xml").expect_code(3).expect_error("page.xml", "'html'")
    program.run("cluster", "import", "none.xml").expect_code(3).expect_error("none.xml")
    write("topo.txt", "     GPU0 GPU1\nGPU0  X   NV4\nGPU1 NV3  X\n")
    program.run("cluster", "show", "topo.txt").expect_code(3).expect_error("topo.txt: line 3")
    write("cluster.json", '{"nods": 2}')
    program.run("cluster", "show", "cluster.json").expect_code(3).expect_error("cluster.json")
    program.run("run", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=2", "--data",
                "none.txt").expect_code(3).expect_error("none.txt")


def check_import(program):
    (program.folder / "topo.txt").write_text(
        "     GPU0 GPU1 NIC0\nGPU0  X   NV4 PIX\nGPU1 NV4  X  SYS\n", encoding="utf-8")
    printed = program.run("cluster", "import", "topo.txt", "--base", "dgx-a100").expect_code(0)
    expect(printed.document().get("devices_per_node") == 2, "an import does not print a cluster file")
    expect("nvidia-smi" in printed.err, f"an import does not say what was read: {printed.err}")
    program.run("cluster", "import", "topo.txt", "--nodes", "2", "-o", "lab.json").expect_code(0)
    shown = program.run("cluster", "show", "lab.json", "--json").expect_code(0).document()
    expect(shown["cluster"]["nodes"] == 2, "the written cluster has not the nodes asked for")
    program.run("cluster", "import", "topo.txt", "--nodes", "-2").expect_code(2)
    program.run("simulate", TINY, "-c", "topo.txt", "--strategy", "dp=2", "--global-batch",
                "4").expect_code(0)


def check_memory_of_cpu(program):
    """CPU ranks have what the machine has, or what is asked for; the plan and `cluster show` say how much."""
    job = ["--strategy", "micro_batch=2", "--global-batch", "2", "--seq", "256"]
    check = ["check", "gpt2-124m", *job, "-c"]
    program.run(*check, "cpu:ranks=1,cores=2,memory=12GiB").expect_code(0)
    program.run(*check, "cpu:ranks=1,cores=2,memory=1GiB").expect_code(4)
    program.run(*check, "cpu:ranks=1,memory=lots").expect_code(2).expect_error("memory 'lots'")
    shown = program.run("cluster", "show", "cpu:ranks=1")
    expect("what this machine had available" in shown.out, f"the source of memory is not said: {shown.out}")
    program.run("search", TINY, "-c", "cpu:ranks=2,memory=3GiB", "--global-batch", "4", "--out",
                "plans").expect_code(0)
    plan = json.loads((program.folder / "plans/plan.json").read_text(encoding="utf-8"))
    expect(json.loads(plan["cluster_text"])["device"]["memory"] == 3 << 30,
           "a plan does not say which memory was taken")


def check_bench(program):
    """What a bench cannot do is refused before anything is measured."""
    bench = ["cluster", "bench", "--backend", "cpu"]
    program.run(*bench).expect_code(2).expect_error("-o FILE")
    program.run(*bench, "-o", "a.json", "--out", "b").expect_code(2).expect_error("two places")
    program.run(*bench, "-o", "a.json", "--base", "dgx-a100:nodes=2").expect_code(2).expect_error("2 nodes")
    program.run(*bench, "-o", "a.json", "--base", "dgx-a100:nodes=1", "--step", "nothing:1x1").expect_code(
        2).expect_error("--base dgx-a100:nodes=1 has devices A100-SXM4-80GB")
    program.run(*bench, "-o", "a.json", "--matmul-cache", "c").expect_code(2).expect_error("--backend cuda")
    program.run(*bench, "-o", "a.json", "--step", "gpt2-124m").expect_code(2)
    program.run("cluster", "bench", "--backend", "tpu", "-o", "a.json").expect_code(2).expect_error("cpu, cuda")
    expect(not (program.folder / "a.json").exists(), "a refused bench wrote a file")


def check_other_files(program):
    """A file of one kind where another is wanted is refused by what it is."""
    program.run("search", TINY, *CPU, "--global-batch", "4", "--out", "plans").expect_code(0)
    (program.folder / "text.txt").write_text("to be or not to be " * 50, encoding="utf-8")
    program.run("run", "plans/plan.json", "--data", "text.txt", "--steps", "4", "--out",
                "run").expect_code(0)
    shown = program.run("cluster", "show", CPU[1], "--json").expect_code(0)
    (program.folder / "shown.json").write_text(shown.out, encoding="utf-8")
    (program.folder / "cluster.json").write_text(json.dumps(shown.document()["cluster"]),
                                                 encoding="utf-8")
    job = ["--strategy", "dp=2", "--global-batch", "4"]
    program.run("check", TINY, "-c", "cluster.json", *job).expect_code(0)
    for file, kind in (("plans/plan.json", "leave out -c"), ("run/run.json", "sextant.run_record.v1"),
                       ("shown.json", "under its key 'cluster'")):
        program.run("check", TINY, "-c", file, *job).expect_code(3).expect_error(
            f"{file}: no cluster file but", kind)
    for file, kind in (("plans/plan.json", "this is a plan, which holds its model"),
                       ("cluster.json", "this is a cluster, not a model")):
        program.run("model", "show", file).expect_code(3).expect_error(kind)
    program.run("check", "run/run.json").expect_code(3).expect_error("run/run.json: no plan but")
    program.run("check", "cluster.json").expect_code(2).expect_error("cluster.json is no plan file")
    program.run("compare", "cluster.json", "run").expect_code(3).expect_error(
        "cluster.json: not a plan file")
    program.run("compare", "plans/plan.json", "plans").expect_code(3).expect_error("run.json")


def check_order_of_options(program):
    """An option that may be repeated takes one value, so that what stands behind it is its own."""
    rest = [*CPU, "--global-batch", "4"]
    program.run("search", "--fix", "tp=1", "--fix", "pp=1", TINY, *rest).expect_code(0)
    program.run("simulate", "--what-if", "gpu.flops=2x", TINY, *rest, "--strategy",
                "dp=2").expect_code(0)
    program.run("simulate", "--straggler", "0=2x", TINY, *rest, "--strategy", "dp=2").expect_code(0)
    for verb in (["doctor"], ["model", "show", TINY], ["cluster", "show", "cpu:ranks=2"]):
        said = program.run(*verb, "--out", "x", "--seed", "3").expect_code(0).err
        expect("--out had no effect" in said and "--seed had no effect" in said,
               f"{verb} takes --out and --seed in silence")


def check_infeasible(program):
    def simulate(strategy, batch="4"):
        return program.run("simulate", TINY, *CPU, "--global-batch", batch, "--strategy", strategy)

    # G63: 64 samples do not divide over 3 replicas.
    simulate("dp=3", "64").expect_code(4).expect_error("64")
    simulate("dp=4 micro_batch=2", "4").expect_code(4).expect_error("micro_batch")
    simulate("tp=3").expect_code(4).expect_error("tp that would do: 1, 2, 4")
    simulate("pp=4").expect_code(4).expect_error("2")  # two layers over four stages
    simulate("dp=8", "8").expect_code(4).expect_error("8 ranks", "4 devices")
    program.run("search", TINY, *CPU, "--global-batch", "4", "--memory",
                "1KiB").expect_code(4).expect_error("error (infeasible)")


def check_conditions(program):
    """--fix and --forbid add up; what cannot be is refused by option and value."""
    search = ["search", TINY, *CPU, "--global-batch", "4", "--time-limit", "2s"]
    found = program.run(*search, "--fix", "pp=2", "--fix", "zero=3", "--fix", "dp=2", "--forbid",
                        "recompute=full", "--json").expect_code(0).document()
    for plan in found["plans"]:
        expect("dp=2 tp=1 pp=2" in plan["strategy"] and "zero=3" in plan["strategy"] and
               "recompute=full" not in plan["strategy"], f"conditions do not hold: {plan['strategy']}")
    for wrong, said in ((["--fix", "tp=3"], "--fix tp=3"), (["--fix", "ep=2"], "--fix ep=2"),
                        (["--fix", "dp=4", "--fix", "tp=4"], "--fix dp=4 --fix tp=4"),
                        (["--fix", "dp=4", "--forbid", "dp=4"], "contradict"),
                        (["--fix", "tq=2"], "tq"), (["--forbid", "zero=4"], "zero=4"),
                        (["--memory", "3GiB"], "--memory 3.00 GiB")):
        program.run(*search, *wrong).expect_code(2).expect_error(said)
    # The closest miss with what it lacks, and one line per kind of reason.
    refused = program.run("search", TINY, "-c", "cpu:ranks=4,memory=50KiB", "--global-batch", "4",
                          "--json").expect_code(4).document()
    expect("the closest miss is" in refused["message"] and
           "no strategy does with less than" in refused["message"] and refused["hints"],
           f"a search without a plan does not say what is closest: {refused}")


def check_front_and_sensitivity(program):
    """--pareto and --sensitivity say what they are of, in text and in JSON."""
    search = ["search", TINY, *CPU, "--global-batch", "4", "--fix", "pieces=1", "--fix", "cp=1", "--fix",
              "recompute=none", "--pareto", "--sensitivity"]
    found = program.run(*search, "--json").expect_code(0).document()
    front, plans = found["pareto"], found["plans"]
    expect(front["of_simulated"] == len(plans) and front["open"] == found["candidates"]["open"] and
           front["complete"] == found["complete"], f"the front does not say what it is of: {front}")
    points = [(plan["step_time_s"], plan["memory_bytes"]) for plan in front["plans"]]
    expect(points and all(a[0] < b[0] and a[1] > b[1] for a, b in zip(points, points[1:])),
           f"time does not rise as memory falls along the front: {points}")
    everything = [(plan["step_time_s"], plan["peak_memory_bytes"] + plan["library_memory_bytes"])
                  for plan in plans]
    expect(set(points) == {a for a in everything
                           if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in everything)},
           "the front is not that of the plans")
    sensitivity = found["sensitivity"]
    expect(sensitivity["of_simulated"] == len(plans) and sensitivity["runner_up"]["strategy"] in
           [plan["strategy"] for plan in plans[1:]], f"no runner-up: {sensitivity}")
    expect({(entry["key"], entry["direction"]) for entry in sensitivity["links"]} ==
           {("link.intra_node.bandwidth", "slower"), ("link.intra_node.bandwidth", "faster")} and
           [entry["samples"] for entry in sensitivity["global_batch"]] == [1, 2, 8, 16],
           f"not every change was tried: {sensitivity}")
    expect(sensitivity["memory"]["least_bytes"] == everything[0][1], "the least memory is not what is needed")
    said = program.run(*search).expect_code(0).out
    for words in ("time against memory", "beats in time and memory", "what would make the runner-up win",
                  "link.intra_node.bandwidth", "global batch", "memory: the best plan fits in"):
        expect(words in said, f"search does not say '{words}': {said}")


def check_json(program):
    outcome = program.run("model", "show", "gpt2-124m", "--json").expect_code(0)
    shown = outcome.document()
    expect(shown.get("ok") is True and str(shown.get("schema", "")).startswith("sextant."),
           "the document of model show lacks schema or ok")
    expect(shown.get("parameters") == 124439808, "model show --json counts parameters wrongly")
    for key in ("flops_per_token", "layers"):
        expect(key in shown, f"the document of model show lacks {key}")

    refused = program.run("model", "show", "none.json", "--json").expect_code(3).document()
    expect(refused.get("ok") is False and refused.get("code") == "bad_input" and
           "none.json" in refused.get("message", "") and "hints" in refused,
           "the document of an error lacks ok, code, message or hints")
    usage = program.run("doctor", "--json", "--no-such-option").expect_code(2).document()
    expect(usage.get("code") == "usage", "the document of a usage error lacks its code")

    for arguments in (["cluster", "show", "dgx-h100:nodes=2"], ["doctor"]):
        expect(program.run(*arguments, "--json").expect_code(0).document().get("ok") is True,
               f"{arguments} --json lacks ok")

    simulated = program.run("simulate", TINY, *CPU, "--global-batch", "4", "--strategy",
                            "dp=2 tp=2 micro_batch=1", "--json").expect_code(0).document()
    for key in ("step_time_s", "tokens_per_s", "samples_per_s", "mfu", "parts_s", "peak_memory_bytes",
                "memory_by_class_bytes", "ranks_simulated", "events"):
        expect(key in simulated, f"the document of simulate lacks {key}")
    expect(set(simulated.get("parts_s", {})) ==
           {"optimizer", "compute", "exposed_communication", "host", "bubble"},
           "the parts of the step are not the five of the product")


def check_main_line(program):
    """search writes a plan; the other verbs take it; results do not depend on the terminal."""
    found = program.run("search", TINY, *CPU, "--global-batch", "4", "--out", "plans",
                        "--json").expect_code(0).document()
    for key in ("plans", "certificate", "candidates", "timing_s"):
        expect(key in found, f"the document of search lacks {key}")
    counts = found["candidates"]
    expect(counts["counted"] == counts["simulated"] + counts["cut_by_memory"] + counts["refused"] +
           counts["cut_by_bound"] + counts["open"] and counts["simulated"] == len(found["plans"]),
           f"the strategies of a search do not add up: {counts}")
    best = found["plans"][0]["step_time_s"]
    bound, gap = found["certificate"]["lower_bound_s"], found["certificate"]["gap"]
    expect(bound <= best and abs(gap - (best - bound) / best) < 1e-9, "the gap is not what it is defined as")
    expect(program.files().count("plans/plan.json") == 1, "search --out writes no plan.json")
    plan = json.loads((program.folder / "plans/plan.json").read_text(encoding="utf-8"))
    expect(plan["certificate"]["gap"] == gap and plan["certificate"]["open"] == counts["open"],
           "the plan does not carry the certificate")
    plain = program.run("simulate", "plans/plan.json").expect_code(0)
    for setting in ({"LC_ALL": "C"}, {"NO_COLOR": "1"}, {"TERM": "xterm-256color"}):
        expect(program.run("simulate", "plans/plan.json", **setting).out == plain.out,
               f"simulate prints something else under {setting}")
    expect("\x1b" not in plain.out, "simulate prints colour on a pipe")
    program.run("check", "plans/plan.json").expect_code(0)
    program.run("explain", "plans/plan.json").expect_code(0)
    program.run("simulate", "plans/plan.json", "--strategy", "dp=2").expect_code(2).expect_error(
        "is a plan")

    plan = json.loads((program.folder / "plans/plan.json").read_text(encoding="utf-8"))
    text = json.dumps({**plan, "model_hash": "0" * 16})
    (program.folder / "other.json").write_text(text, encoding="utf-8")
    program.run("simulate", "other.json").expect_code(3).expect_error("other.json")

    (program.folder / "text.txt").write_text("to be or not to be, " * 50, encoding="utf-8")
    program.run("run", "plans/plan.json", "--data", "text.txt", "--steps", "3", "--out",
                "result").expect_code(0)
    lines = (program.folder / "result/metrics.jsonl").read_text(encoding="utf-8").splitlines()
    expect(len(lines) == 3, f"metrics.jsonl has {len(lines)} lines after 3 steps")
    for key in ("step", "loss", "step_time_s", "tokens_per_s", "samples_per_s", "peak_memory_bytes"):
        expect(all(key in json.loads(line) for line in lines), f"metrics.jsonl lacks {key}")
    compared = program.run("compare", "plans/plan.json", "result",
                           "--json").expect_code(0).document()
    expect(compared.get("message_order_equal") is True,
           "simulator and CPU issued in different orders")


def check_explained_names(program):
    """Layers share a row, results of one operator do not: `loss:1` is the loss's second result."""
    document = program.run("explain", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=2 pp=2",
                           "--json").expect_code(0).document()
    names = {row["name"] for row in document.get("boxing", [])}
    for name in ("loss.", "loss:1.", "layer*.mlp.down.grad_weight.all_reduce"):
        expect(any(row.startswith(name) for row in names),
               f"explain has no row '{name}...': {sorted(names)}")
    expect(not any(":*" in name for name in names),
           f"explain takes the number of a result for a layer's: {sorted(names)}")


def check_explained_causes(program):
    """Every boxing has its two sides and its cost, the dearest first; the sums are those of the rows."""
    plan = [TINY, *CPU, "--global-batch", "4", "--strategy", "tp=2 pp=2 micro_batch=2"]
    document = program.run("explain", *plan, "--graphviz", "graph.dot",
                           "--json").expect_code(0).document()
    rows = document["boxing"]
    totals = [row["total_s"] for row in rows]
    expect(totals == sorted(totals, reverse=True), f"explain is not sorted by cost: {totals}")
    expect(abs(document["boxing_totals"]["all"]["time_s"] - sum(totals)) < 1e-9,
           "explain's total is not the sum of its rows")
    down = [row for row in rows if row["producer"].startswith("layer*.mlp.down (matmul): (B, P(sum))")]
    expect(len(down) == 1, f"explain has no row for the partial sums of mlp.down: {rows}")
    expect(down[0]["primitive"] == "all_reduce" and down[0]["axes"] == "tp" and
           down[0]["readers"] == ["layer*.mlp.down.biased[0] (bias_add): (B, B)"],
           f"mlp.down is reduced over tp because its bias wants it whole, explain says {down[0]}")
    some = program.run("explain", *plan, "layer1.mlp.down", "--json").expect_code(0).document()
    expect(0 < len(some["boxing"]) < len(rows) and down[0] in some["boxing"],
           "explain with a name does not select the boxings it concerns")
    # Hidden states of two samples are 2 x 8 x 16 f32 = 1,024 bytes whatever brings them. Of two
    # devices that reduce them each sends a half of the sums and then a half of the result.
    expect(down[0]["bytes"] == 1024 and down[0]["moved_bytes"] == 2 * 1024,
           f"mlp.down is 1,024 bytes, reduced by moving 2,048; explain says {down[0]}")
    handed = [row for row in rows if row["primitive"] == "transfer" and "residual" in row["producer"]]
    expect(sorted(row["producer"] for row in handed) ==
           ["layer*.mlp.residual (add): (B, B)", "layer*.mlp.residual.grad_sum (add): (B, B)"] and
           all(row["bytes"] == 1024 for row in handed),
           f"stages hand hidden states and their gradients of 1,024 bytes over, explain says {handed}")
    expect(all(row["moved_bytes"] * row["per_step"] == row["moved_bytes_per_step"] for row in rows),
           "what moves in a step is not what moves in its acts")
    dot = (program.folder / "graph.dot").read_text(encoding="utf-8")
    expect(dot.count("subgraph cluster_") == 2, "the picture has another number of stages than 2")


def check_explained_columns(program):
    """Every line fits a terminal, names in full; tensors and what moves have columns of their own."""
    for options in ([], ["layer1.mlp"], ["--why-not", "pp=1"]):
        said = program.run("explain", TINY, *CPU, "--global-batch", "4", "--strategy",
                           "tp=2 pp=2", *options).expect_code(0).out
        long = [line for line in said.splitlines() if len(line) > 100]
        expect(not long, f"explain prints more than 100 columns: {long[:3]}")
        expect("..." not in said, "explain leaves out parts of names")
    said = program.run("explain", TINY, *CPU, "--global-batch", "4", "--strategy", "tp=2 pp=2").out
    expect(re.search(r"^total +times +each +tensor +moved +primitive", said, re.MULTILINE),
           f"explain has no columns tensor and moved: {said[:400]}")
    expect("made by layer*.mlp.down (matmul): (B, P(sum))" in said, "explain does not name a producer")


def check_nothing_half_written(program):
    before = program.files()
    program.run("search", TINY, *CPU, "--global-batch", "4", "--memory", "40").expect_code(
        2).expect_error("--memory: '40' has no unit")
    program.run("search", TINY, *CPU, "--global-batch", "4", "--memory", "1KiB", "--out",
                "never").expect_code(4)
    program.run("simulate", TINY, *CPU, "--global-batch", "64", "--strategy", "dp=3", "--trace",
                "never/trace.json").expect_code(4)
    expect(program.files() == before, f"a verb that failed left {set(program.files()) - set(before)}")


def check_odd_files(program):
    """Pipes and links are never replaced by a file; bytes that are no text are an error like any."""
    simulate = ["simulate", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=2", "--trace"]
    os.mkfifo(program.folder / "pipe")
    (program.folder / "target").write_text("kept", encoding="utf-8")
    (program.folder / "link").symlink_to("target")
    for name in ("pipe", "link"):
        program.run(*simulate, name).expect_code(3).expect_error("not a regular file")
    expect((program.folder / "pipe").is_fifo(), "a pipe was replaced")
    expect((program.folder / "link").is_symlink(), "a link was replaced")
    expect((program.folder / "target").read_text(encoding="utf-8") == "kept", "a link was followed")

    (program.folder / "binary.json").write_bytes(bytes(range(128, 256)) * 4)
    refused = program.run("model", "show", "binary.json", "--json").expect_code(3).document()
    expect(refused.get("ok") is False, "a binary model file gives no error document")

    train = ["run", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=2", "--steps", "2"]
    program.run(*train, "--data", "target", "--out", "target").expect_code(3).expect_error(
        "not a folder")
    program.run(*train, "--data", "pipe").expect_code(3).expect_error("neither a file nor a folder")
    (program.folder / "text.txt").write_text("to be or not to be, " * 50, encoding="utf-8")
    for rate in ("nan", "inf", "-1", "0"):
        program.run(*train, "--data", "text.txt", "--learning-rate", rate).expect_code(2).expect_error(
            "--learning-rate")
    diverged = program.run(*train, "--data", "text.txt", "--learning-rate", "1e30", "--json")
    expect(diverged.expect_code(7).document().get("ok") is False,
           "a loss that is not finite is reported as success")


def check_plan_values(program):
    """Numbers of the optimizer that no training can use are refused with their key."""
    program.run("search", TINY, *CPU, "--global-batch", "4", "--out", "plans").expect_code(0)
    plan = json.loads((program.folder / "plans/plan.json").read_text(encoding="utf-8"))
    for setting in ("lr=-1", "beta1=1.0", "beta2=1e308", "eps=0"):
        plan_text = json.dumps({**plan, "optimizer": f"adamw {setting}"})
        (program.folder / "edited.json").write_text(plan_text, encoding="utf-8")
        program.run("check", "edited.json").expect_code(3).expect_error(setting.split("=")[0])


def check_quiet_streams(program):
    """With --json nothing for people stands beside the document but errors, notes and progress."""
    strategy = ["--global-batch", "4", "--strategy", "dp=4"]
    for arguments in (["simulate", TINY, *CPU, *strategy, "--memory", "--operators", "--links"],
                      ["explain", TINY, *CPU, *strategy], ["check", TINY, *CPU, *strategy],
                      ["run", TINY, *CPU, *strategy, "--data", "random", "--steps", "3"],
                      ["search", TINY, *CPU, "--global-batch", "4", "--fix", "dp=4"],
                      ["boxing", "P@[x=2]", "B@[x=2]", "--shape", "4"], ["model", "show", TINY],
                      ["cluster", "show", CPU[1]], ["strategy", "show", "dp=2"], ["doctor"]):
        ran = program.run(*arguments, "--json").expect_code(0)
        expect(ran.document().get("ok") is True, f"{arguments}: no document")
        others = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
        expect(others == [], f"{arguments} says beside its document: {others[:3]}")


def check_error_places(program):
    """An error document has the place apart from the message where one is known."""
    (program.folder / "bad.json").write_text('{"schema": "sextant.graph/1", "name": }', encoding="utf-8")
    for arguments, place in ((["model", "show", "bad.json"], "bad.json: line 1, column 39"),
                             (["check", TINY, *CPU, "--global-batch", "4", "--strategy", "dpp=4"], "strategy"),
                             (["check", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=4", "--optimizer", "adamw lrr=1"],
                              "optimizer"),
                             (["model", "show", TINY, "--seq", "0"], "")):
        error = program.run(*arguments, "--json").document()
        expect(error["place"] == place and error["message"].startswith(place), f"{arguments}: {error}")


def check_environment(program):
    """Options come from the environment too; the command line wins."""
    strategy = ["--strategy", "dp=2"]
    from_environment = program.run("simulate", TINY, *strategy, "--json", SEXTANT_GLOBAL_BATCH="4",
                                   SEXTANT_CLUSTER=CPU[1]).expect_code(0).document()
    typed = program.run("simulate", TINY, *CPU, *strategy, "--global-batch", "4", "--json",
                        SEXTANT_GLOBAL_BATCH="3").expect_code(0).document()
    expect(from_environment == typed, "SEXTANT_X does not mean what the option means")
    program.run("simulate", TINY, *CPU, *strategy, SEXTANT_GLOBAL_BATCH="x").expect_code(2)


def check_backends(program):
    """Options that a backend does not have, and a GPU that is not there."""
    def run(*arguments):
        return program.run("run", TINY, *CPU, "--global-batch", "4", "--strategy", "micro_batch=4",
                           "--data", "random", "--steps", "3", *arguments)

    run("--out", "random").expect_code(0)
    run("--backend", "tpu").expect_code(2).expect_error("cpu, cuda")
    run("--graphs", "off").expect_code(2).expect_error("--backend cuda")
    run("--deterministic").expect_code(2).expect_error("same bits")
    run("--matmul-cache", "file").expect_code(2).expect_error("--backend cuda")
    for option, value in (("--queues", "inline"), ("--kernels", "fast")):
        run("--backend", "cuda", option, value).expect_code(2).expect_error(option, "--backend cpu")
    run("--backend", "cuda", "--graphs", "maybe").expect_code(2).expect_error("on, off")
    for option, value in (("--gpus", "0"), ("--ranks-per-gpu", "2"), ("--collectives", "local")):
        run(option, value).expect_code(2).expect_error(option, "--backend cuda")
    for option, value in (("--gpus", "0,"), ("--gpus", "x"), ("--gpus", "1,0,1"), ("--ranks-per-gpu", "0"),
                          ("--collectives", "mpi"), ("--timeout", "0"), ("--timeout", "-1"), ("--timeout", "nan")):
        run("--backend", "cuda", option, value).expect_code(2).expect_error(option)
    run("--backend", "cuda", "--gpus", "0,0").expect_code(2).expect_error("GPU 0 is named twice")
    run("--backend", "cuda", "--collectives", "nccl", "--ranks-per-gpu", "2").expect_code(2).expect_error(
        "a card for each rank", "--collectives local")
    run("--timeout", "0").expect_code(2).expect_error("--timeout")
    cuda = program.run("doctor", "--json").document()["cuda"]
    if "GPU(s)" in cuda:
        program.run("run", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=2", "--backend",
                    "cuda", "--data", "random", "--gpus", "0").expect_code(4).expect_error("--ranks-per-gpu 2")
        program.run("run", TINY, *CPU, "--global-batch", "4", "--strategy", "dp=2 micro_batch=2", "--backend",
                    "cuda", "--data", "random", "--gpus", "0", "--ranks-per-gpu", "2", "--steps", "3").expect_code(0)
    else:
        run("--backend", "cuda").expect_code(5).expect_error("CUDA")


def check_signals(program):
    """An interrupted run ends within two seconds, by its signal, with the steps it made."""
    (program.folder / "text.txt").write_text("the quick brown fox " * 50, encoding="utf-8")
    process = subprocess.Popen(
        [str(program.path), "run", TINY, *CPU, "--strategy", "dp=2", "--global-batch", "4",
         "--data", "text.txt", "--steps", "1000000", "--out", "cut"],
        cwd=program.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL)
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    try:
        code = process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait()
    took = time.monotonic() - begin
    expect(code == 130, f"an interrupted run exits with {code}, wanted 130")
    expect(took < 2.0, f"an interrupted run takes {took:.1f} s to end, wanted less than 2 s")
    metrics = program.folder / "cut/metrics.jsonl"
    expect(metrics.exists(), "an interrupted run leaves no metrics.jsonl")
    if metrics.exists():
        steps = [json.loads(line)["step"]
                 for line in metrics.read_text(encoding="utf-8").splitlines()]
        expect(len(steps) > 0 and steps == list(range(steps[0], steps[0] + len(steps))),
               "the steps of an interrupted run are not loadable in order")
        record = json.loads((program.folder / "cut/run.json").read_text(encoding="utf-8"))
        expect(record["end"] == "interrupted" and record["steps"] == len(steps) and
               record["asked_steps"] == 1000000,
               f"run.json does not say how far an interrupted run came: {record}")


def check_signals_of_long_work(program):
    """Work that is not asked to stop ends at once, whichever verb does it."""
    big = ["gpt3-175b", "-c", "dgx-a100:nodes=128", "--strategy",
           "dp=16 tp=8 pp=8 micro_batch=1", "--global-batch", "1536"]
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        process = subprocess.Popen(
            [str(program.path), "simulate", *big, "--unfolded", "--mode", "step", "--json"],
            cwd=program.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        time.sleep(1.0)
        expect(process.poll() is None, "a simulation of 1,024 ranks takes less than a second")
        process.send_signal(number)
        begin = time.monotonic()
        try:
            out, error = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            out, error = process.communicate()
        expect(process.returncode == code, f"exits with {process.returncode}, wanted {code}")
        expect(time.monotonic() - begin < 2.0, "an interrupted simulation takes 2 s to end")
        expect(b"interrupted" in error, "an interrupted simulation does not say so")
        try:
            document = json.loads(out)
        except ValueError:
            document = {}
        expect(document.get("ok") is False and document.get("code") == "interrupted",
               f"an interrupted simulation gives no error document: {out[:200]}")


if __name__ == "__main__":
    sys.exit(run_checks(
        check_help, check_usage, check_bad_files, check_import, check_memory_of_cpu,
        check_bench, check_other_files, check_order_of_options, check_infeasible,
        check_conditions, check_front_and_sensitivity, check_json, check_main_line, check_explained_names,
        check_explained_causes, check_explained_columns, check_nothing_half_written,
        check_odd_files, check_plan_values, check_quiet_streams, check_error_places, check_environment,
        check_backends, check_signals, check_signals_of_long_work))
