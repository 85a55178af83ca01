"""`sextant simulate` beyond the step: modes, critical path, changes, variation, pictures.

usage: simulate_test.py --sextant PROGRAM
"""

import gzip
import json
import math
import re
import sys

from habits_test import TINY, expect, run_checks

PLAN = [TINY, "-c", "dgx-h100:nodes=1", "--strategy", "dp=2 tp=2 pp=2 micro_batch=1",
        "--global-batch", "8"]


def simulate(program, *options, code=0):
    return program.run("simulate", *PLAN, *options, "--json").expect_code(code)


def check_modes(program):
    steps = {mode: simulate(program, "--mode", mode).document()["step_time_s"]
             for mode in ("tape", "block", "step", "timed")}
    expect(steps["tape"] == steps["step"] == steps["block"], f"tape, step and block differ: {steps}")
    expect(steps["timed"] >= steps["tape"], f"timed is earlier than tape: {steps}")


def check_critical_path(program):
    document = simulate(program, "--critical-path").document()
    segments = document["critical_path"]["segments"]
    expect(document["critical_path"]["steady"], "the step is not steady")
    length = sum(segment["end_s"] - segment["begin_s"] for segment in segments)
    expect(math.isclose(length, document["step_time_s"], rel_tol=1e-9),
           f"the path takes {length} s of {document['step_time_s']} s")
    expect(any(queue["least_slack_s"] == 0 for queue in document["critical_path"]["slack"]),
           "every queue has slack")
    simulate(program, "--critical-path", "--mode", "timed", code=2)


def check_changes(program):
    document = simulate(program, "--what-if", "gpu.flops=2x", "--what-if",
                        "link.nvlink4.bandwidth=2x").document()
    now, rows = document["what_if"]["now"], document["what_if"]["changes"]
    expect([row["change"] for row in rows] ==
           ["gpu.flops=2x", "link.nvlink4.bandwidth=2x", "all together"], f"rows: {rows}")
    expect(now["step_time_s"] == document["step_time_s"], "now is another step")
    expect(all(row["step_time_s"] <= now["step_time_s"] for row in rows), "faster parts, slower step")
    outcome = program.run("simulate", *PLAN, "--what-if", "gpu.memory=2x").expect_code(0)
    expect("changes nothing" in outcome.out, "a change without effect is not said")
    program.run("simulate", *PLAN, "--what-if", "link.nvlink.bandwidth=2x").expect_code(
        2).expect_error("did you mean 'link.nvlink4.bandwidth'")
    program.run("simulate", *PLAN, "--what-if", "gpu.flops").expect_code(2)


def check_sweep(program):
    plot = program.folder / "sweep.svg"
    values = simulate(program, "--sweep", "gpu.flops=0.5x..2x:3", "--plot",
                      str(plot)).document()["sweep"]["values"]
    times = [value["step_time_s"] for value in values]
    expect(len(times) == 3 and times == sorted(times, reverse=True), f"times of the sweep: {times}")
    expect(plot.read_text().startswith("<svg"), "the plot is no SVG")
    simulate(program, "--plot", str(plot), code=2)
    wide = "gpt:layers=2,hidden=512,heads=8,vocab=32000,seq=128"
    said = program.run("simulate", wide, *PLAN[1:], "--sweep", "gpu.memory=0.001x,1x").out
    expect(said.count("(does not fit)") == 1 and "gpu.memory=0.001x (does not fit)" in said,
           f"what does not fit is not said: {said}")


def check_refusals(program):
    """What is given twice, empty, or beyond every machine is refused by name."""
    def refused(*options):
        return program.run("simulate", *PLAN, *options).expect_code(2)

    for option in ("--trace", "--timeline", "--plot", "--what-if", "--sweep", "--failures",
                   "--straggler", "--out", "--dtype", "--optimizer"):
        refused(option, "").expect_error(f"{option} is given an empty value")
    refused("--trace", "x.json", "--timeline", "./x.json").expect_error(
        "--trace and --timeline are the same file")
    refused("--sweep", "gpu.flops=1x,2x", "--plot", "x", "--trace", "x").expect_error("same file")
    refused("--failures", "mtbf=1h mtbf=2h").expect_error("'mtbf' appears twice")
    refused("--straggler", "1=2x", "--straggler", "1=3x").expect_error("twice for rank 1")
    refused("--what-if", "gpu.flops=2x", "--what-if", "device.flops=3x").expect_error(
        "twice for gpu.flops")
    refused("--sweep", "gpu.flops=2x,2x").expect_error("stands twice")
    refused("--what-if", "gpu.flops=1e-9x").expect_error("a factor of 1e-09 is no machine's")
    refused("--what-if", "gpu.memory_bandwidth=3KB/s").expect_error(
        "device.memory_bandwidth is 3000 B/s")
    expect(program.files() == [], f"refused, but files are left: {program.files()}")
    simulate(program, "--trace", "plan.json", "--timeline", "page.html")
    program.run("search", TINY, "-c", "cpu:ranks=4,memory=2GiB", "--global-batch", "4", "--fix", "tp=1",
                "--fix", "tp=2").expect_code(2).expect_error("'tp' is fixed twice")
    program.run("search", TINY, "-c", "cpu:ranks=4,memory=2GiB", "--global-batch", "4", "--out",
                "plans").expect_code(0)
    plan = program.folder / "plans/plan.json"
    before = plan.read_bytes()
    program.run("simulate", str(plan), "--trace", str(plan)).expect_code(2).expect_error("same file")
    expect(plan.read_bytes() == before, "a plan is overwritten by its trace")


def check_variation(program):
    plain = simulate(program).document()["step_time_s"]
    slow = simulate(program, "--straggler", "3=20x").document()["step_time_s"]
    expect(slow > plain, f"a straggler makes no difference: {plain}, {slow}")
    simulate(program, "--straggler", "8=2x", code=2)
    program.run("simulate", TINY, *PLAN[1:3], "--strategy", "dp=2", *PLAN[5:], "--straggler",
                "2=2x").expect_code(2).expect_error("the plan has ranks 0 to 1")
    samples = simulate(program, "--jitter", "0.1", "--samples", "20").document()["samples"]
    quantiles = list(samples["quantiles_s"].values())
    expect(samples["steps"] == 20 and quantiles == sorted(quantiles), f"quantiles: {samples}")
    expect(quantiles[0] < quantiles[-1], "jitter without variation")
    simulate(program, "--samples", "20", code=2)
    run = simulate(program, "--failures", "mtbf=100h checkpoint=30s").document()["long_run"]
    total = run["goodput"] + run["checkpoints"] + run["lost"] + run["restarts"]
    expect(math.isclose(total, 1, rel_tol=1e-9), f"shares of a long run: {run}")
    expect(math.isclose(run["failures_per_day"], 24 / (100 / 8)), f"failures: {run}")
    for bad in ("mtbf=-1h", "checkpoint=30s", "mtbf=nanh", "often"):
        simulate(program, "--failures", bad, code=2)


def check_links(program):
    for mode in ("tape", "timed"):
        document = simulate(program, "--links", "--mode", mode).document()
        rows = document["links"]["used"]
        shares = [row["utilisation"] for row in rows]
        expect(rows and shares == sorted(shares, reverse=True), f"links: {rows}")
        expect(sum(row["links"] for row in rows) + document["links"]["idle"] == 16,
               f"8 devices have 16 ports: {document['links']}")
        for row in rows:
            expect(math.isclose(row["utilisation"] * row["capacity_bytes_per_s"] *
                                document["step_time_s"], row["bytes"], rel_tol=1e-9),
                   f"utilisation of {row}")
            expect(0 < row["busy_s"] <= document["step_time_s"], f"busy time of {row}")
    expect("links" not in simulate(program).document(), "links that nobody asked for")
    alone = program.run("simulate", TINY, "-c", "dgx-h100:nodes=1", "--strategy", "micro_batch=1",
                        "--global-batch", "2", "--links").expect_code(0)
    expect("links: no communication" in alone.out, f"one rank uses links: {alone.out}")


def check_operators(program):
    for mode in ("tape", "timed"):
        document = simulate(program, "--operators", "--mode", mode).document()
        rows = document["operators"]
        times = [row["time_s"] for row in rows]
        expect(times == sorted(times, reverse=True), f"operators are not sorted: {times}")
        kernels = sum(row["time_s"] for row in rows if row["queue"] == "compute")
        parts = document["parts_s"]
        expect(math.isclose(kernels, parts["compute"]["mean"] + parts["optimizer"]["mean"],
                            rel_tol=1e-9), f"kernels take {kernels} s, parts say {parts}")
    expect(any(row["kind"] == "matmul" and row["flops"] > 0 for row in rows), "no products")
    expect("operators" not in simulate(program).document(), "operators that nobody asked for")


def check_routing(program):
    moe = ["gpt:layers=2,hidden=512,heads=8,vocab=512,seq=100,experts=4,top_k=2,capacity_factor=1.2",
           "-c", "dgx-h100:nodes=1", "--strategy", "dp=4 ep=4 micro_batch=4", "--global-batch", "64"]

    def routed(*options):
        return program.run("simulate", *moe, *options, "--json").expect_code(0).document()

    full, even = routed(), routed("--routing", "uniform")
    expect("routing" not in full, "a routing that nobody gave")
    expect(even["step_time_s"] < full["step_time_s"], "empty places cost as much as full ones")
    tokens = program.folder / "tokens.txt"
    tokens.write_text("40\n30\n20\n10\n")
    uneven = routed("--routing", str(tokens), "--mode", "timed", "--what-if", "gpu.flops=2x")
    routing = uneven["routing"]
    expect(math.isclose(routing["dropped"], 0.1) and math.isclose(routing["filled"]["max"], 1) and
           math.isclose(routing["filled"]["min"], 1 / 3), f"routing by hand: {routing}")
    expect(routing["provenance"] == "measured" and even["routing"]["provenance"] == "assumed",
           "provenance of routings")
    expect(0 < routing["filled_places_bytes"] <= routing["places_bytes"], f"memory: {routing}")
    expect(uneven["step_time_s"] > even["step_time_s"], "uneven experts are as fast as even ones")
    expect(uneven["what_if"]["now"]["step_time_s"] == uneven["step_time_s"], "what-if forgot it")
    said = program.run("simulate", *moe).expect_code(0).out
    expect("routing: assumed to be uniform" in said, f"the assumption is not said: {said}")
    for bad in ("zipf=-1", "zipf=9", "often"):
        program.run("simulate", *moe, "--routing", bad).expect_code(2)
    program.run("simulate", *PLAN, "--routing", "uniform").expect_code(2).expect_error("no experts")


def check_notes(program):
    """Idle devices, groups across nodes, settings without effect, assumptions: said, in JSON too."""
    model = "gpt:layers=8,hidden=96,heads=24,vocab=96,seq=16"
    job = [model, "-c", "dgx-h100:nodes=4", "--global-batch", "8", "--strategy"]
    said = program.run("check", *job, "tp=24 zero=1").expect_code(0).out
    for line in ("note: 8 of 32 devices are idle: {24-31}",
                 "note: tp crosses nodes: 1 of 1 groups of 24, over 3 nodes at most",
                 "note: zero=1 has no effect: dp=1"):
        expect(line in said.splitlines(), f"check does not say '{line}': {said}")
    document = program.run("check", *job, "tp=24 zero=1", "--json").expect_code(0).document()
    expect(document["idle_devices"] == 8 and len(document["notes"]) == 3, f"notes: {document}")
    expect(document["axes"] == [{"axis": "tp", "members": 24, "groups": 1, "groups_across_nodes": 1,
                                 "most_nodes": 3}], f"axes: {document['axes']}")
    simulated = program.run("simulate", *job, "tp=24").expect_code(0).out
    expect("8 of 32 devices are idle" in simulated, f"simulate does not: {simulated}")
    # Stages of 3 and 5 blocks; dp inside the node, tp across: both are in every text.
    text = "dp=8 tp=2 pp=2 micro_batch=1 schedule=1f1b zero=0 layers=3,5 order=dp,pp,tp"
    other = program.run("simulate", *job, text, "--json").expect_code(0).document()
    usual = program.run("simulate", *job, text.split(" order")[0], "--json").expect_code(0).document()
    expect("layers=3,5 order=" in other["strategy"], f"strategy: {other['strategy']}")
    expect(other["idle_devices"] == 0 and other["step_time_s"] > usual["step_time_s"],
           "tp across nodes is no slower than inside of one")
    explained = program.run("explain", *job, text).expect_code(0).out
    expect("layers=3,5" in explained and "order=ep,dp,pp,tp,cp" in explained, f"explain: {explained}")
    program.run("check", *job, "tp=2 pp=2 layers=3,6").expect_code(4).expect_error(
        "layers=3,6: 9 blocks, 1 too many, and the model has 8; balanced is layers=4,4")


def check_settings(program):
    """Every setting is listed with its default; of a given strategy what has no effect is said."""
    said = program.run("strategy", "show", "tp=2 zero=1").expect_code(0).out
    for line in ("  layers       balanced, or a number for each stage like 7,8,*,8 (balanced): blocks of every",
                 "dp=1 tp=2 pp=1 micro_batch=1 schedule=1f1b zero=1: 2 ranks",
                 "note: zero=1 has no effect: dp=1"):
        expect(line in said, f"strategy show does not say '{line}': {said}")
    expect(max(len(line) for line in said.splitlines()) <= 100, f"longer than 100 columns: {said}")
    settings = program.run("strategy", "show", "tp=2", "--json").expect_code(0).document()["settings"]
    tp = next(setting for setting in settings if setting["key"] == "tp")
    expect((tp["default"], tp["value"]) == ("1", "2"), f"tp: {tp}")


def check_mixtral(program):
    """F04: Mixtral on 64 H100 fits with places for balanced routing, and says that it assumes it."""
    job = ["mixtral-8x7b", "-c", "dgx-h100:nodes=8", "--global-batch", "256", "--strategy",
           "dp=8 ep=8 pp=8 micro_batch=1 zero=1 recompute=full"]
    document = program.run("simulate", *job, "--json").expect_code(0).document()
    expect("1.25 times the even share" in document["assumptions"][0], f"{document['assumptions']}")


def check_eight_bits(program):
    """Products of 8 bits have a rate of their own where a device has them, and are refused by name elsewhere."""
    model = "llama:layers=2,hidden=2048,heads=16,kv_heads=4,ffn=8192,vocab=512,seq=1024"
    steps = {}
    for precision in ("compute", "fp8"):
        job = ["simulate", model, "-c", "hgx-h200:nodes=1", "--global-batch", "8", "--strategy",
               f"micro_batch=8 precision={precision}"]
        steps[precision] = program.run(*job, "--json").expect_code(0).document()["step_time_s"]
    expect(1.1 < steps["compute"] / steps["fp8"] < 2, f"steps: {steps}")
    refused = program.run("simulate", model, "-c", "dgx-a100:nodes=1", "--global-batch", "8", "--strategy",
                          "micro_batch=8 precision=fp8")
    refused.expect_code(4).expect_error("A100", "no products of 8 bits")
    program.run("simulate", model, "-c", "hgx-h200:nodes=1", "--global-batch", "8", "--strategy",
                "precision=fp4").expect_code(2).expect_error("precision=fp4", "compute or fp8")
    program.run("run", "llama:layers=2,hidden=40,heads=4,kv_heads=2,ffn=88,vocab=64,seq=8", "-c", "cpu:ranks=1",
                "--global-batch", "2", "--strategy", "micro_batch=2 precision=fp8", "--data", "random", "--out",
                str(program.folder / "loose")).expect_code(4).expect_error("precision=fp8", "multiples of 16")


def check_pictures(program):
    trace, page = program.folder / "trace.json.gz", program.folder / "step.html"
    simulate(program, "--trace", str(trace), "--timeline", str(page))
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    expect({"M", "X", "C"} == {event["ph"] for event in events}, "kinds of events in the trace")
    expect(min(event["ts"] for event in events if event["ph"] == "X") == 0, "the first begin")
    native = program.folder / "trace.pftrace"
    simulate(program, "--trace", str(native))
    data = native.read_bytes()
    expect(data[0] == 0x0a and b"rank 0" in data and 2 * len(data) < len(json.dumps(events)),
           f"a native trace of {len(data)} bytes")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>',
                      page.read_text(), re.DOTALL)
    expect(len(json.loads(found.group(1))["rows"]) > 0, "a page without rows")


if __name__ == "__main__":
    sys.exit(run_checks(
        check_modes, check_critical_path, check_changes, check_sweep, check_refusals,
        check_variation, check_links, check_operators, check_routing, check_notes,
        check_settings, check_mixtral, check_eight_bits, check_pictures))
