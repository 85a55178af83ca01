"""`sextant run` says on which device it runs, how far it is, what it skipped and how it ended; results
are not replaced by accident; `compare` reads all of that.

usage: run_test.py --sextant PROGRAM
"""

import json
import signal
import subprocess
import sys
import threading
import time

from habits_test import CPU, TINY, expect, run_checks

JOB = ["--strategy", "dp=2", "--global-batch", "4", "--data", "random"]
# Two bf16 products of a step take the reference kernels many seconds.
SLOW = "gpt:layers=2,hidden=768,heads=8,vocab=16384,seq=512"
GPUS = ["-c", "dgx-a100:nodes=1"]


def record_of(program, folder):
    return json.loads((program.folder / folder / "run.json").read_text(encoding="utf-8"))


def metrics_of(program, folder):
    lines = (program.folder / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def check_other_device(program):
    """Times of CPU ranks are no times of the GPUs that a plan is for."""
    ran = program.run("run", TINY, *GPUS, *JOB, "--steps", "4", "--out", "gpu").expect_code(0)
    expect(ran.err.startswith("note: the plan is for A100-SXM4-80GB, --backend cpu runs it on 2 CPU"),
           f"a plan of GPUs on the CPU is not said first: {ran.err}")
    expect("MFU" not in ran.out, f"an MFU of a device that did not run: {ran.out}")
    expect(all(line["mfu"] is None for line in metrics_of(program, "gpu")), "metrics have an MFU")
    record = record_of(program, "gpu")
    expect(record["planned_device"] == "A100-SXM4-80GB" and not record["is_planned_device"],
           f"run.json does not say for which device the plan is: {record}")
    compared = program.run("compare", "gpu/plan.json", "gpu").expect_code(0)
    expect("other device" in compared.out and "-100 %" not in compared.out,
           f"times of another device are called an error: {compared.out}")
    document = program.run("compare", "gpu/plan.json", "gpu", "--json").expect_code(0).document()
    expect(document["step_error"] is None and document["is_planned_device"] is False,
           "compare --json has an error of another device")
    expect(document["message_order_equal"] is True, "the order is that of the plan all the same")

    ran = program.run("run", TINY, *CPU, *JOB, "--steps", "4", "--out", "cpu").expect_code(0)
    expect("note:" not in ran.err and "MFU" in ran.out, f"a plan for CPU ranks: {ran.err}")
    document = program.run("compare", "cpu/plan.json", "cpu", "--json").expect_code(0).document()
    expect(document["step_error"] is not None, "compare of the planned device has no error")
    expect(document["slowdown"] is None, "nobody measured the figures of a built-in cluster")


def is_use(use):
    """What is told of communication, of either side, fits together; times are per step and rank."""
    rows = use["rows"]
    expect(rows and all(0 <= row["exposed_s"] <= row["in_progress_s"] for row in [use, *rows]), f"{use}")
    # What two rows have in common counts once in the sum; what one computes beside hides what the other adds.
    for key in ("in_progress_s", "exposed_s"):
        expect(max(row[key] for row in rows) <= use[key] + 1e-9 and use[key] <= sum(row[key] for row in rows) + 1e-9,
               f"{key}: {use}")
    expect(use["compared_s"] <= use["computation_beside_s"] + 1e-9, f"{use}")
    expect(use["slowdown"] is None or use["slowdown"] > 0, f"{use}")
    return {(row["queue"], row["kind"]): row["launches"] for row in rows}


def check_communication(program):
    """compare puts exposed communication and the slow-down beside it next to what was measured, per queue and kind."""
    kinds = {"dp=2": {("collective", "all_reduce")}, "tp=2": {("collective", "all_reduce")},
             "dp=2 zero=3": {("collective", kind) for kind in ("all_reduce", "all_gather", "reduce_scatter")},
             "pp=2 micro_batch=2": {("transfer_out_forward", "transfer"), ("transfer_out_backward", "transfer"),
                                    ("transfer_in_forward", "transfer"), ("transfer_in_backward", "transfer")}}
    for strategy, wanted in kinds.items():
        program.run("run", TINY, *CPU, "--strategy", strategy, "--global-batch", "4", "--data", "random", "--steps", "4",
                    "--profile", "2", "--out", "beside", "--overwrite").expect_code(0)
        document = program.run("compare", "beside/plan.json", "beside", "--json").expect_code(0).document()
        both = document["communication"]
        expect(both["mode"] == "step", f"no cluster of CPU ranks says what slows what: {both['mode']}")
        predicted, measured = is_use(both["predicted"]), is_use(both["measured"])
        expect(predicted == measured and wanted <= set(measured), f"{strategy}: {predicted} and {measured}")
        expect(both["measured"] == record_of(program, "beside")["communication"], "what the run kept is what is compared")
        text = program.run("compare", "beside/plan.json", "beside").expect_code(0).out
        expect("exposed, predicted" in text and "computation beside communication:" in text, text)
    # A cluster that says what communication does to kernels: timed mode has it, and it is found again in its step.
    shown = program.run("cluster", "show", *CPU[1:], "--json").expect_code(0).document()["cluster"]
    shown["device"]["compute_beside_communication"] = 0.5
    (program.folder / "beside.json").write_text(json.dumps(shown), encoding="utf-8")
    program.run("run", TINY, "-c", "beside.json", "--strategy", "dp=2", "--global-batch", "4", "--data", "random", "--steps", "4",
                "--profile", "1", "--out", "timed").expect_code(0)
    timed = program.run("compare", "timed/plan.json", "timed", "--json").expect_code(0).document()["communication"]
    expect(timed["mode"] == "timed" and abs(timed["predicted"]["slowdown"] - 2) < 1e-6, f"{timed['predicted']}")
    # One rank has none; a run without --profile measured none.
    program.run("run", TINY, "-c", "cpu:ranks=1,memory=1GiB", "--strategy", "dp=1", "--global-batch", "4", "--data", "random",
                "--steps", "4", "--profile", "1", "--out", "alone").expect_code(0)
    alone = program.run("compare", "alone/plan.json", "alone", "--json").expect_code(0).document()["communication"]
    expect(alone["measured"]["rows"] == [] and alone["measured"]["in_progress_s"] == 0, f"{alone}")
    expect("communication" not in program.run("compare", "alone/plan.json", "alone").expect_code(0).out, "a table of nothing")
    program.run("run", TINY, *CPU, *JOB, "--steps", "4", "--out", "plain").expect_code(0)
    plain = program.run("compare", "plain/plan.json", "plain", "--json").expect_code(0).document()
    expect(plain["communication"] is None, f"{plain['communication']}")


def check_changed_speed(program):
    """compare tells a machine that became slower from a prediction that is wrong."""
    shown = program.run("cluster", "show", *CPU[1:], "--json").expect_code(0).document()["cluster"]
    shown["device"]["yardstick"] = {"value": 0.001, "provenance": "measured", "source": "this test"}
    (program.folder / "slow.json").write_text(json.dumps(shown), encoding="utf-8")
    program.run("run", TINY, "-c", "slow.json", *JOB, "--steps", "4", "--out", "slow").expect_code(0)
    record = record_of(program, "slow")
    expect(record["yardstick_s"] > 0, f"nobody looked how fast the processors were: {record}")

    def compared(yardstick):
        text = json.dumps({**record, "yardstick_s": yardstick})
        (program.folder / "slow/run.json").write_text(text, encoding="utf-8")
        return (program.run("compare", "slow/plan.json", "slow").expect_code(0).out,
                program.run("compare", "slow/plan.json", "slow", "--json").expect_code(0).document())

    for yardstick, words in ((0.00125, "25 % slower"), (0.0008, "20 % faster")):
        text, document = compared(yardstick)
        expect(words in text, f"a changed speed is not said: {text}")
        expect(abs(document["slowdown"] - yardstick / 0.001) < 1e-9, f"slowdown: {document}")
        predicted = document["predicted_step_time_s"] / document["measured_step_time_s"] - 1
        expect(abs(document["step_error"] - predicted) < 1e-9, "the plain error is no longer plain")
    expect("processors were" not in compared(0.00101)[0], "one percent is no change of speed")


def check_overwrite(program):
    """Results are replaced only where that was asked for, by every verb that writes a folder."""
    run = ["run", TINY, *CPU, *JOB, "--steps", "2", "--out"]
    search = ["search", TINY, *CPU, "--global-batch", "4", "--out"]
    export = ["export", TINY, *CPU, "--strategy", "dp=2", "--global-batch", "4", "--out"]
    for verb, first in ((run, "metrics.jsonl"), (search, "plan.json"),
                        (export, "weights.safetensors")):
        folder = verb[0]
        program.run(*verb, folder).expect_code(0)
        before = (program.folder / folder / first).read_bytes()
        program.run(*verb, folder, "--seed", "7").expect_code(2).expect_error(
            f"{first} is there", "--overwrite")
        expect((program.folder / folder / first).read_bytes() == before,
               f"{folder} replaced {first} without being asked")
        program.run(*verb, folder, "--overwrite").expect_code(0)
    # The plan that runs may lie where the results go; another one may not be lost.
    program.run("run", "search/plan.json", "--data", "random", "--steps", "2", "--out",
                "search").expect_code(0)
    program.run(*search, "other", "--fix", "dp=1").expect_code(0)
    program.run(*run, "other").expect_code(2).expect_error("plan.json is there")


def check_skipped_steps(program):
    """A step that changes no weight is said; a run of such steps alone trained nothing."""
    # Described GPUs: the model of a CPU core has no rate for f16.
    run = ["run", TINY, "-c", "dgx-h100:nodes=1", *JOB, "--dtype", "f16"]
    # Scaled by 1e30 every gradient is infinite in f16, and the scale halves with each step.
    none = program.run(*run, "--optimizer", "adamw loss_scale=dynamic:1e30", "--steps", "3", "--out",
                       "none").expect_code(7)
    expect("all 3 steps were skipped" in none.err, f"nothing trained, nothing said: {none.err}")
    expect("skipped 3 of 3 steps" in none.out, f"the table does not say it: {none.out}")
    expect([line["skipped"] for line in metrics_of(program, "none")] == [True] * 3,
           "metrics.jsonl does not say which steps were skipped")
    expect(record_of(program, "none")["skipped_steps"] == 3, "run.json does not count skipped steps")
    # From 2^24 on a few steps overflow before the scale is small enough: the largest f16 is 2^16.
    some = program.run(*run, "--optimizer", "adamw loss_scale=dynamic:16777216", "--steps", "40",
                       "--out", "some").expect_code(0)
    skipped = [line["skipped"] for line in metrics_of(program, "some")]
    expect(0 < sum(skipped) < 40 and skipped == sorted(skipped, reverse=True),
           f"the first steps alone are skipped: {skipped}")
    expect(f"skipped {sum(skipped)} of 40 steps" in some.out, f"skipped steps are not said: {some.out}")
    expect(record_of(program, "some")["skipped_steps"] == sum(skipped), "run.json counts others")
    all_updated = program.run("run", TINY, *CPU, *JOB, "--steps", "3").expect_code(0)
    expect("skipped" not in all_updated.out, "a run without skipped steps speaks of them")


def check_dropped_choices(program):
    """What experts without places drop is counted per step, and said."""
    # Two of two experts: each of 8 tokens chooses both, which have ceil(0.5 * 8) = 4 places each.
    # So half of 8 * 2 choices is dropped, in 2 layers and 4 samples: 64 of 128.
    model = "gpt:layers=2,hidden=16,heads=2,vocab=32,seq=8,experts=2,top_k="
    ran = program.run("run", model + "2,capacity_factor=0.5", *CPU, *JOB, "--steps", "3", "--out", "dropped").expect_code(0)
    expect("64 (50.0 %)" in ran.out, f"the table does not say what a step drops: {ran.out}")
    expect("experts dropped 192 (50.0 %) of 384 choices" in ran.out, f"nor does the end: {ran.out}")
    for line in metrics_of(program, "dropped"):
        expect((line["dropped_choices"], line["choices"]) == (64, 128), f"metrics.jsonl: {line}")
    record = record_of(program, "dropped")
    expect((record["dropped_choices"], record["choices"]) == (192, 384), f"run.json: {record}")
    # Without a factor the model drops nothing, the plan does, and says so.
    assumed = program.run("run", model + "1", *CPU, *JOB, "--steps", "2", "--out",
                          "assumed").expect_code(0)
    expect("1.25 times the even share" in assumed.err, f"the assumption is not said: {assumed.err}")
    plan = json.loads((program.folder / "assumed" / "plan.json").read_text(encoding="utf-8"))
    expect("1.25" in plan["assumptions"][0], f"the plan does not say it: {plan['assumptions']}")
    plain = program.run("run", TINY, *CPU, *JOB, "--steps", "2").expect_code(0)
    expect("dropped" not in plain.out, "a model without experts speaks of choices")


def check_diverged(program):
    """A loss that is no number ends with its own exit code, and what was measured can be read."""
    run = ["run", TINY, *CPU, *JOB, "--learning-rate", "1e30", "--steps", "6", "--out", "nan"]
    program.run(*run).expect_code(7).expect_said("is not finite")
    losses = [line["loss"] for line in metrics_of(program, "nan")]
    expect(len(losses) == 6 and None in losses, f"losses of a diverged run: {losses}")
    program.run("compare", "nan/plan.json", "nan").expect_code(0)


class Watched:
    """A run in the background whose standard error is read line by line."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen(
            [str(program.path), *arguments], cwd=program.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.lines = []
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    def wait_for(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end and self.process.poll() is None:
            time.sleep(0.05)
        return condition()

    def end_by(self, number):
        """Sends the signal; the exit code and the seconds it took."""
        self.process.send_signal(number)
        begin = time.monotonic()
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.reader.join(timeout=5)
        return code, time.monotonic() - begin


def check_signal_within_a_step(program):
    """A signal in the middle of a long kernel ends the run within a second or so, exit 128 + number."""
    for number, code, strategy in ((signal.SIGTERM, 143, "dp=1"), (signal.SIGINT, 130, "dp=2")):
        folder = f"cut{code}"
        run = Watched(program, "run", SLOW, *GPUS, "--strategy", strategy, "--global-batch", "2",
                      "--data", "random", "--steps", "50", "--out", folder)
        is_seen = run.wait_for(lambda: any("launches" in line for line in run.lines), 90)
        expect(is_seen, f"no progress within a step: {run.lines}")
        expect("step 0 of 50: " in run.lines[-1], f"the step is not named: {run.lines}")
        ended, took = run.end_by(number)
        expect(ended == code, f"an interrupted step exits with {ended}, wanted {code}")
        expect(took < 2.0, f"an interrupted step takes {took:.1f} s to end")
        record = record_of(program, folder)
        expect(record["end"] == "interrupted" and record["asked_steps"] == 50 and
               record["steps"] == len(metrics_of(program, folder)),
               f"run.json does not say that it was interrupted: {record}")


def check_interrupted_run_is_read(program):
    """compare says how a run ended, and calls no order different that nobody recorded."""
    run = Watched(program, "run", TINY, *CPU, *JOB, "--steps", "1000000", "--out", "cut")
    run.wait_for(lambda: any(": loss" in line for line in run.lines), 60)
    code, took = run.end_by(signal.SIGINT)
    expect(code == 130 and took < 2.0, f"exit {code} after {took:.1f} s")
    record = record_of(program, "cut")
    expect(record["end"] == "interrupted" and 2 < record["steps"] < 1000000,
           f"run.json of an interrupted run: {record}")
    compared = program.run("compare", "cut/plan.json", "cut").expect_code(0)
    expect(f"interrupted after {record['steps']} of 1000000 steps" in compared.out and
           "DIFFERENT" not in compared.out, f"compare of an interrupted run: {compared.out}")


def check_interrupted_profile(program):
    """A signal while operators are timed keeps what was trained, and nobody says that it is complete."""
    run = Watched(program, "run", TINY, *CPU, "--strategy", "dp=1", "--global-batch", "4", "--data", "random",
                  "--steps", "3", "--profile", "1000000", "--queues", "stress", "--out", "profiled")
    expect(run.wait_for(lambda: any("profiling" in line for line in run.lines), 60),
           f"nobody says that operators are timed: {run.lines}")
    code, took = run.end_by(signal.SIGINT)
    expect(code == 130 and took < 2.0, f"exit {code} after {took:.1f} s")
    record = record_of(program, "profiled")
    expect((record["end"], record["steps"], record["asked_steps"]) == ("interrupted", 3, 3),
           f"run.json of an interrupted profile: {record}")
    expect(record["operator_time_s"] == {} and len(metrics_of(program, "profiled")) == 3,
           "half a profile is written down, or the steps are lost")
    compared = program.run("compare", "profiled/plan.json", "profiled").expect_code(0).out
    expect("interrupted after 3 of 3 steps, while operators were timed" in compared and
           "issue order of 1 rank over 3 steps: equal" in compared, f"the order was recorded: {compared}")


def check_interrupted_export(program):
    """A signal in the middle of a file leaves no part of it."""
    export = Watched(program, "export", "gpt2-xl", *CPU, "--strategy", "dp=1", "--global-batch", "1",
                     "--out", "weights")
    expect(export.wait_for(lambda: bool(program.files()), 30), "an export writes no file")
    code, took = export.end_by(signal.SIGINT)
    expect(code == 130 and took < 2.0, f"exit {code} after {took:.1f} s")
    expect(program.files() == [], f"an interrupted export leaves {program.files()}")


def check_interrupted_search(program):
    """A search that a signal ends is not a failed rank, and says what it found out."""
    search = Watched(program, "search", "llama3-70b", "-c", "dgx-h100:nodes=8", "--global-batch", "256",
                     "--memory", "20GiB")
    time.sleep(0.8)
    code, took = search.end_by(signal.SIGTERM)
    expect(code == 143 and took < 2.0, f"exit {code} after {took:.1f} s")
    expect(not any("rank_failed" in line for line in search.lines), f"an interrupted search: {search.lines}")


def check_one_step(program):
    """One of a thing is not many of it."""
    run = ["run", TINY, "-c", "dgx-h100:nodes=1", "--strategy", "dp=1", "--global-batch", "4", "--data", "random",
           "--steps", "1", "--dtype", "f16", "--optimizer", "adamw loss_scale=dynamic:1e30"]
    ran = program.run(*run).expect_code(7).expect_said("the one step was skipped")
    expect(" on 1 CPU rank: " in ran.out, f"one rank: {ran.out}")


def check_edited_figures(program):
    """A figure that names a source and is not the source's is assumed, whatever the file calls it."""
    shown = program.run("cluster", "show", "dgx-a100:nodes=1", "--json").expect_code(0).document()
    cluster = shown["cluster"]
    cluster["device"]["matmul_efficiency"]["value"] = 0.95
    (program.folder / "edited.json").write_text(json.dumps(cluster), encoding="utf-8")
    said = program.run("cluster", "show", "edited.json").expect_code(0).out
    expect("matmul efficiency: 95.0 % (assumed: edited: " in said, f"an edited figure: {said}")
    expect(said.count("edited:") == 1, "figures that were left alone are called edited")


if __name__ == "__main__":
    sys.exit(run_checks(
        check_other_device, check_communication, check_changed_speed, check_overwrite, check_skipped_steps, check_dropped_choices,
        check_diverged, check_signal_within_a_step, check_interrupted_run_is_read,
        check_interrupted_profile, check_interrupted_export, check_interrupted_search,
        check_one_step, check_edited_figures))
