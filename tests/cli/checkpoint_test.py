"""Training that stops, by itself, by a signal, by a kill or by a full disk, goes on from its last checkpoint.

usage: checkpoint_test.py --sextant PROGRAM
"""

import json
import resource
import shutil
import signal
import subprocess
import sys
import time

from habits_test import CPU, TINY, expect, run_checks

TEXT = "It was the best of times, it was the worst of times. " * 20
JOB = [*CPU, "--strategy", "dp=2 tp=2 zero=1", "--global-batch", "4", "--data", "text.txt"]


def with_text(program):
    (program.folder / "text.txt").write_text(TEXT, encoding="utf-8")


def losses_of(program, folder):
    lines = (program.folder / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["step"]: entry["loss"] for entry in map(json.loads, lines)}


def bytes_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def steps_in(folder):
    return sorted(path.name for path in folder.iterdir())


def check_same_bits(program):
    """Stopped in the middle, training ends with the losses and the files of training that never stopped."""
    with_text(program)
    jobs = {
        "text": [TINY, *JOB],
        "zero 3": [TINY, *CPU, "--strategy", "dp=4 zero=3", "--global-batch", "8", "--data", "text.txt"],
        "statistics": ["conv:blocks=1x1,channels=4x8,height=8,width=8", *CPU, "--strategy", "dp=2", "--global-batch", "4"],
        "loss scale": [TINY, *CPU, "--strategy", "pp=2", "--global-batch", "4", "--data", "text.txt", "--optimizer",
                       "adamw clip=1 loss_scale=dynamic:1024 scale_interval=2"],
    }
    for name, job in jobs.items():
        whole, first, second = (f"{name} {part}" for part in ("whole", "first", "second"))
        saved = ["--seed", "3", "--checkpoint"]
        program.run("run", *job, *saved, whole, "--checkpoint-every", "3", "--steps", "6", "--out", f"{whole} out").expect_code(0)
        program.run("run", *job, *saved, first, "--steps", "3").expect_code(0)
        resumed = program.run("run", *job, *saved, second, "--resume", first, "--steps", "6", "--out", f"{second} out").expect_code(0)
        expect(f"goes on behind step 3 of {first}/step-000003" in resumed.out, f"not said from where: {resumed.out}")
        losses, rest = losses_of(program, f"{whole} out"), losses_of(program, f"{second} out")
        expect(list(rest) == [3, 4, 5], f"{name}: steps of the second half: {list(rest)}")
        expect(all(losses[step] == loss for step, loss in rest.items()), f"{name}: losses {losses}, {rest}")
        compared = program.run("compare", f"{second} out/plan.json", f"{second} out", "--json").expect_code(0).document()
        expect(compared["message_order_equal"] is True, f"{name}: the order of what went on is not the plan's")
        last = "step-000006"
        expect(steps_in(program.folder / whole) == ["step-000003", last], f"{name}: {steps_in(program.folder / whole)}")
        expect(bytes_below(program.folder / whole / last) == bytes_below(program.folder / second / last),
               f"{name}: files of 6 and of 3 + 3 steps differ")


def check_other_plans(program):
    """The plan may be another one; the folder's own plan file is one that goes on."""
    with_text(program)
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "2", "--steps", "6", "--out", "whole").expect_code(0)
    shutil.rmtree(program.folder / "c" / "step-000006")
    shutil.rmtree(program.folder / "c" / "step-000004")
    losses = losses_of(program, "whole")
    for number, strategy in enumerate(["dp=1", "pp=2 micro_batch=1", "dp=4 zero=3", "tp=4 sp=on"]):
        job = [TINY, *CPU, "--strategy", strategy, "--global-batch", "4", "--data", "text.txt"]
        document = program.run("run", *job, "--resume", "c", "--steps", "6", "--out", f"o{number}", "--json").expect_code(0).document()
        expect(document["first_step"] == 2 and document["steps"] == 4, f"{strategy}: {document}")
        for step, loss in losses_of(program, f"o{number}").items():
            # Sums in another order: the rounding of bf16 products.
            expect(abs(loss - losses[step]) < 0.02, f"{strategy}: loss {loss} of step {step}, not {losses[step]}")
    again = program.run("run", "c/step-000002/plan.json", "--data", "text.txt", "--resume", "c/step-000002", "--steps", "6", "--out", "again")
    again.expect_code(0)
    expect(all(losses[step] == loss for step, loss in losses_of(program, "again").items()), "the plan in the folder")
    # Half the global batch: noted, and the data go on where they were.
    half = program.run("run", TINY, *CPU, "--strategy", "dp=2", "--global-batch", "2", "--data", "text.txt", "--resume", "c", "--steps", "3",
                       "--checkpoint", "half").expect_code(0)
    expect("the global batch of the checkpoint was 4, now it is 2" in half.err, half.err)
    shown = program.run("checkpoint", "show", "half", "--json").expect_code(0).document()
    expect(shown["samples"] == 2 * 4 + 2 and shown["step"] == 3, f"position of the loader: {shown}")


def check_refusals(program):
    """What does not fit is refused before anything is trained, with the code that scripts rely on."""
    with_text(program)
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "1", "--keep", "2", "--steps", "4").expect_code(0)
    expect(steps_in(program.folder / "c") == ["step-000003", "step-000004"], f"--keep 2 left {steps_in(program.folder / 'c')}")
    resume = ["--resume", "c", "--steps", "6"]
    other = TINY.replace("hidden=16", "hidden=32")
    program.run("run", other, *JOB, *resume).expect_code(8).expect_error("c/step-000004/manifest.json", "another model")
    program.run("run", TINY, *JOB, *resume, "--optimizer", "sgd").expect_code(8).expect_error("manifest.json", "adamw", "not with sgd")
    program.run("run", TINY, *JOB, *resume, "--optimizer", "adamw loss_scale=dynamic").expect_code(8).expect_error(
        "has no state 'loss_scale'")
    program.run("run", TINY, *JOB, "--resume", "c", "--steps", "4").expect_code(2).expect_error("--steps 4", "whole training")
    program.run("run", TINY, *JOB, *resume, "--seed", "1").expect_code(2).expect_error("--seed 0")
    program.run("run", TINY, *JOB, "--resume", "nowhere").expect_code(3).expect_error("nowhere: there is no such folder")
    program.run("run", TINY, *JOB, "--resume", ".").expect_code(3).expect_error("holds no checkpoint")
    program.run("run", TINY, *JOB, "--steps", "2", "--checkpoint", "c").expect_code(2).expect_error("checkpoint of step 4", "--resume c")
    program.run("run", TINY, *JOB, "--keep", "2").expect_code(2).expect_error("--checkpoint FOLDER")
    program.run("run", TINY, *JOB, "--checkpoint", "d", "--keep", "0").expect_code(2).expect_error("--keep must be positive")
    program.run("run", TINY, *JOB, "--checkpoint", "d", "--checkpoint-every", "0").expect_code(2).expect_error("must be positive")
    program.run("run", TINY, *JOB, "--checkpoint", "text.txt/d").expect_code(3).expect_error("--checkpoint")
    expect(not (program.folder / "d").exists(), "a refused run left a folder")
    rate = program.run("run", TINY, *JOB, *resume, "--learning-rate", "0.01").expect_code(0)
    expect("the optimizer of the checkpoint was" in rate.err, f"another rate is not noted: {rate.err}")


def check_damage(program):
    """Damage is found by `check` and by `run`, which name the file, and the checkpoint before it."""
    with_text(program)
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "2", "--steps", "4").expect_code(0)
    program.run("checkpoint", "check", "c").expect_code(0)
    document = program.run("checkpoint", "check", "c", "--json").expect_code(0).document()
    expect([entry["step"] for entry in document["whole"]] == [2, 4], f"{document}")
    shown = program.run("checkpoint", "show", "c", "--json").expect_code(0).document()
    roles = {state["role"] for state in shown["states"]}
    expect(roles == {"parameter", "first_moment", "second_moment", "updates"}, f"roles {roles}")
    expect(shown["step"] == 4 and shown["samples"] == 16 and len(shown["checkpoints"]) == 2, f"{shown}")
    text = program.run("checkpoint", "show", "c/step-000004").expect_code(0).out
    expect("step 4 of" in text and "dp=2 tp=2" in text and "second_moment" in text, text)
    shard = program.folder / "c" / "step-000004" / "rank-00001.safetensors"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:])
    for command in (["checkpoint", "check", "c"], ["run", TINY, *JOB, "--resume", "c", "--steps", "6"]):
        program.run(*command).expect_code(8).expect_said("c/step-000004/rank-00001.safetensors: '", "is damaged: checksum")
    error = program.run("checkpoint", "check", "c", "--json").expect_code(8).document()
    expect(not error["ok"], f"{error}")
    shard.unlink()
    program.run("run", TINY, *JOB, "--resume", "c", "--steps", "6").expect_code(8).expect_said(
        "rank-00001.safetensors: is missing (needed by '", "--resume c/step-000002")
    shard.write_bytes(whole)
    manifest = program.folder / "c" / "step-000004" / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"version": 1', '"version": 9'), encoding="utf-8")
    refused = program.run("run", TINY, *JOB, "--resume", "c", "--steps", "6").expect_code(8)
    refused.expect_error("version 9 is newer than 1", "--resume c/step-000002")
    program.run("run", TINY, *JOB, "--resume", "c/step-000002", "--steps", "6").expect_code(0)


def check_weights(program):
    """Weights go to Hugging Face's names and back to the bit, and training begins with them under any plan."""
    with_text(program)
    for name, model in {"gpt": TINY, "bert": "bert:layers=1,hidden=16,heads=4,vocab=256,seq=8",
                        "mixtral": "llama:layers=1,hidden=16,heads=4,ffn=24,vocab=256,seq=8,experts=4"}.items():
        first, second = f"{name} c", f"{name} c2"
        program.run("run", model, *JOB, "--steps", "2", "--checkpoint", first).expect_code(0)
        program.run("checkpoint", "export", first, "--out", f"{name} hf").expect_code(0)
        shown = program.run("model", "show", f"{name} hf", "--json").expect_code(0).document()
        own = program.run("model", "show", model, "--json").expect_code(0).document()
        expect(shown["parameters"] == own["parameters"], f"{name}: {shown['parameters']} of {own['parameters']} parameters")
        losses = []
        for strategy in ("dp=2 tp=2 zero=1", "dp=4", "dp=2 tp=2 zero=3"):
            begun = program.run("run", model, *CPU, "--strategy", strategy, "--global-batch", "4", "--data", "text.txt",
                                "--steps", "1", "--learning-rate", "1e-30", "--weights", f"{name} hf", "--checkpoint", second,
                                "--out", f"{name} out", "--overwrite").expect_code(0)
            expect("begins with" in begun.out, f"not said where from: {begun.out}")
            losses.append(losses_of(program, f"{name} out")[0])
            program.run("checkpoint", "export", second, "--out", f"{name} hf2", "--overwrite").expect_code(0)
            expect(bytes_below(program.folder / f"{name} hf") == bytes_below(program.folder / f"{name} hf2"), f"{name}, {strategy}: other weights")
            shutil.rmtree(program.folder / second)
        expect(max(losses) - min(losses) < 1e-5, f"{name}: losses {losses}")
        fresh = program.run("run", model, *JOB, "--steps", "1", "--out", f"{name} fresh").expect_code(0)
        expect(abs(losses_of(program, f"{name} fresh")[0] - losses[0]) > 1e-4, f"{name}: as without weights: {fresh.out}")
    program.run("export", TINY, *JOB, "--steps", "1", "--out", "own").expect_code(0)
    for path in ("own", "own/weights.safetensors"):
        program.run("run", TINY, *JOB, "--steps", "1", "--weights", path).expect_code(0)
    program.run("run", TINY, *JOB, "--weights", "bert hf").expect_code(3).expect_error("bert hf: has no tensor 'transformer.wte.weight")
    program.run("run", TINY, *JOB, "--weights", "nowhere").expect_code(3).expect_error("nowhere: cannot be read")
    program.run("run", TINY, *JOB, "--weights", "gpt hf", "--resume", "gpt c").expect_code(2).expect_error("--weights gpt hf with --resume")
    program.run("checkpoint", "export", "gpt c", "--out", "d", "--dtype", "i32").expect_code(2).expect_error("--dtype i32")
    program.run("checkpoint", "export", "gpt c").expect_code(2).expect_error("--out FOLDER")
    program.run("checkpoint", "export", "gpt c", "--out", "gpt hf").expect_code(2)


def started(program, *arguments, **options):
    return subprocess.Popen([str(program.path), *arguments], cwd=program.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **options)


def check_kills(program):
    """A kill at any moment leaves checkpoints that are whole, and training goes on from the last."""
    with_text(program)
    step = 0
    for number in range(6):
        arguments = ["run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "1", "--keep", "3", "--steps", "1000000"]
        process = started(program, *arguments, *(["--resume", "c"] if step else []))
        folder, begin = program.folder / "c", time.monotonic()
        while time.monotonic() - begin < 60 and process.poll() is None:
            if folder.exists() and any(name > f"step-{step:06}" and name.endswith(tuple("0123456789")) for name in steps_in(folder)):
                break
            time.sleep(0.005)
        time.sleep(0.03 * number / 6)
        process.kill()
        process.communicate()
        shown = program.run("checkpoint", "show", "c", "--json").expect_code(0).document()
        expect(shown["step"] > step, f"kill {number}: step {shown['step']}, before it {step}")
        step = shown["step"]
        program.run("checkpoint", "check", "c").expect_code(0)


def check_signal(program):
    """An interrupted run ends as usual, and its checkpoints stay."""
    with_text(program)
    process = started(program, "run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "2", "--steps", "1000000", "--json")
    begin = time.monotonic()
    while time.monotonic() - begin < 60 and not (program.folder / "c" / "step-000004").exists():
        time.sleep(0.01)
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--resume", "c", "--steps", "1000000").expect_code(2).expect_error(
        "another run writes here")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    expect(process.returncode == 130 and json.loads(out)["end"] == "interrupted", f"{process.returncode} {out} {err}")
    saved = json.loads(out)["checkpoints"]
    expect(saved and saved[-1]["path"].startswith("c/step-"), f"what was saved is not said: {out}")
    program.run("checkpoint", "check", "c").expect_code(0)


def limit_files():
    """Files end at 4 KB, as on a full disk: writing more is an error."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def check_full_disk(program):
    """What cannot be written ends the run soon, says so, and leaves the last good checkpoint."""
    with_text(program)
    program.run("run", TINY, *JOB, "--checkpoint", "c", "--steps", "2").expect_code(0)
    before = bytes_below(program.folder / "c")
    process = started(program, "run", TINY, *JOB, "--checkpoint", "c", "--checkpoint-every", "1", "--resume", "c", "--steps", "1000000",
                      preexec_fn=limit_files)
    _, err = process.communicate(timeout=60)
    expect(process.returncode == 3 and "cannot be written: File too large" in err, f"{process.returncode}: {err}")
    expect(bytes_below(program.folder / "c") == before, f"left {steps_in(program.folder / 'c')}")


if __name__ == "__main__":
    sys.exit(run_checks(check_same_bits, check_other_plans, check_refusals, check_damage, check_weights, check_kills, check_signal,
                        check_full_disk))
