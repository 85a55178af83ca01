"""Real data: every format trains, every plan reads the same samples, and training goes on where it stopped.

usage: data_test.py --sextant PROGRAM
"""

import ctypes
import ctypes.util
import io
import json
import random
import struct
import sys
import tarfile

from habits_test import CPU, TINY, expect, run_checks

BATCH = ["--global-batch", "4"]


def ids_of(count):
    chooser = random.Random(5)
    return [chooser.randrange(64) for _ in range(count)]


def write_tokens(program):
    """The same ids in each format."""
    ids = ids_of(700)
    folder = program.folder
    (folder / "bare.bin").write_bytes(struct.pack("<700H", *ids))
    (folder / "wide.bin").write_bytes(struct.pack("<700I", *ids))
    (folder / "llmc.bin").write_bytes(struct.pack("<256i", 20240520, 1, 700, *[0] * 253) + struct.pack("<700H", *ids))
    (folder / "megatron.bin").write_bytes(struct.pack("<700i", *ids))
    index = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 2, 3) + struct.pack("<2i", 300, 400)
    (folder / "megatron.idx").write_bytes(index + struct.pack("<2q3q", 0, 1200, 0, 1, 2))
    (folder / "parts").mkdir()
    (folder / "parts" / "a.bin").write_bytes(struct.pack("<300H", *ids[:300]))
    (folder / "parts" / "b.bin").write_bytes(struct.pack("<400H", *ids[300:]))


def losses(program, folder, *arguments):
    program.run("run", *arguments, "--out", folder).expect_code(0)
    lines = (program.folder / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {entry["step"]: entry["loss"] for entry in map(json.loads, lines)}


def check_formats(program):
    """One list of ids gives the same losses from every format."""
    write_tokens(program)
    job = [TINY, *CPU, "--strategy", "dp=1", *BATCH, "--steps", "3"]
    found = {path: losses(program, f"out {path.replace('/', ' ')}", *job, "--data", path, *options)
             for path, options in {"bare.bin": [], "wide.bin": ["--data-format", "uint32"], "llmc.bin": [], "megatron.bin": [],
                                   "megatron.idx": [], "parts": []}.items()}
    expect(len({tuple(entry.values()) for entry in found.values()}) == 1, f"losses differ: {found}")
    other = losses(program, "other", *job, "--data", "bare.bin", "--data-order", "file")
    expect(other != found["bare.bin"], "the order of samples has no effect")


def check_plans(program):
    """Shuffled samples are the same under every plan: losses agree as those of other data do not."""
    write_tokens(program)
    data = ["--data", "llmc.bin", "--data-order", "shuffled window=16 last_batch=drop", "--steps", "3", "--optimizer", "sgd lr=0.001"]
    whole = losses(program, "one", TINY, *CPU, "--strategy", "dp=1", *BATCH, *data)
    for strategy in ["dp=4", "dp=2 micro_batch=1", "dp=2 tp=2", "pp=2 micro_batch=2"]:
        split = losses(program, strategy, TINY, *CPU, "--strategy", strategy, *BATCH, *data)
        expect(all(abs(split[step] - loss) < 1e-4 for step, loss in whole.items()), f"{strategy}: {split}, {whole}")
    again = losses(program, "seed", TINY, *CPU, "--strategy", "dp=1", *BATCH, *data, "--seed", "9")
    expect(abs(again[0] - whole[0]) > 1e-4, "the seed has no effect")


def check_goes_on(program):
    """30 steps are 13 + 17, over the end of an epoch of shuffled samples too."""
    write_tokens(program)
    job = [TINY, *CPU, "--strategy", "dp=2", *BATCH, "--seed", "3", "--data", "megatron.bin", "--data-order"]
    for order in ["shuffled", "shuffled window=8 last_batch=pad", "file last_batch=drop"]:
        name = order.replace(" ", "_")
        whole = losses(program, f"{name} whole", *job, order, "--steps", "30")
        program.run("run", *job, order, "--steps", "13", "--checkpoint", f"{name} c").expect_code(0)
        rest = losses(program, f"{name} rest", *job, order, "--steps", "30", "--resume", f"{name} c")
        expect(list(rest) == list(range(13, 30)), f"{order}: steps {list(rest)}")
        expect(all(whole[step] == loss for step, loss in rest.items()), f"{order}: {whole}, {rest}")
    program.run("run", *job[:6], "2", *job[7:], "file last_batch=drop", "--steps", "30", "--resume", "file_last_batch=drop c").expect_code(
        2).expect_error("--global-batch 2", "last_batch=wrap it may change")


CONV = "conv:blocks=1,channels=4,height=8,width=8,classes=3"


def jpegs(count):
    """JPEGs of different sizes, or None where the library is not there."""
    name = ctypes.util.find_library("turbojpeg")
    if not name:
        return None
    library = ctypes.CDLL(name)
    library.tjInitCompress.restype = ctypes.c_void_p
    images = []
    for i in range(count):
        width, height = 12 + i, 10 + 2 * i
        pixels = bytes((j * (i + 1)) % 251 for j in range(3 * width * height))
        buffer, size = ctypes.c_void_p(), ctypes.c_ulong()
        library.tjCompress2(ctypes.c_void_p(library.tjInitCompress()), pixels, width, 0, height, 0, ctypes.byref(buffer),
                            ctypes.byref(size), 0, 90, 0)
        images.append(ctypes.string_at(buffer.value, size.value))
    return images


def write_images(program):
    """The same images as a folder and as a shard."""
    images = jpegs(9)
    if images is None:
        print("SKIPPED: no libturbojpeg")
        return False
    with tarfile.open(program.folder / "images.tar", "w") as shard:
        for i, image in enumerate(images):
            path = program.folder / "images" / f"class{i // 3}" / f"{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(image)
            for suffix, contents in ((".jpg", image), (".cls", str(i // 3).encode())):
                entry = tarfile.TarInfo(f"{i}{suffix}")
                entry.size, entry.mtime = len(contents), 1.5  # a fraction takes an extended header
                shard.addfile(entry, io.BytesIO(contents))
    return True


def check_images(program):
    """Folders and shards, any registers and any plan: one training."""
    if not write_images(program):
        return
    job = [CONV, *CPU, "--strategy", "dp=1 micro_batch=4", *BATCH, "--steps", "6", "--optimizer", "sgd lr=0.001"]
    whole = losses(program, "whole", *job, "--data", "images")
    for name, options in {"shard": ["--data", "images.tar"], "one": ["--data", "images", "--registers", "1"],
                          "five": ["--data", "images", "--registers", "5"]}.items():
        expect(losses(program, name, *job, *options) == whole, f"{name}: other losses than {whole}")
    # Ranks of dp sum in another order.
    split = losses(program, "split", CONV, *CPU, "--strategy", "dp=2 micro_batch=2", *BATCH, *job[7:], "--data", "images")
    expect(all(abs(split[step] - loss) < 1e-4 for step, loss in whole.items()), f"dp=2: {split}, {whole}")
    program.run("run", *job[:7], "--steps", "2", *job[9:], "--data", "images", "--checkpoint", "c").expect_code(0)
    rest = losses(program, "rest", *job, "--data", "images", "--resume", "c")
    expect(rest == {step: whole[step] for step in range(2, 6)}, f"behind the checkpoint: {rest}, {whole}")
    compared = program.run("compare", "whole/plan.json", "whole", "--json").expect_code(0).document()
    expect(compared["message_order_equal"] is True, "data actors change the order of the plan")


def check_bytes(program):
    """Images as bytes, normalised by the model: nearly the losses of the others, one training under any plan and
    any registers; synthetic ones too."""
    if not write_images(program):
        return
    words, rest = f"{CONV},input=u8", ["--strategy", "dp=1 micro_batch=4", *BATCH, "--steps", "6", "--optimizer", "sgd lr=0.001"]
    floats = losses(program, "floats", CONV, *CPU, *rest, "--data", "images")
    whole = losses(program, "bytes", words, *CPU, *rest, "--data", "images")
    expect(whole != floats and all(abs(floats[step] - loss) < 0.02 for step, loss in whole.items()), f"{floats}, {whole}")
    one = losses(program, "one_register", words, *CPU, *rest, "--data", "images.tar", "--registers", "1")
    expect(one == whole, f"other losses than {whole}: {one}")
    for name, data in {"files": ["--data", "images"], "synthetic": []}.items():
        alone = losses(program, f"alone_{name}", words, *CPU, *rest, *data)
        split = losses(program, f"split_{name}", words, *CPU, "--strategy", "dp=2 micro_batch=2", *rest[2:], *data)
        expect(all(abs(split[step] - loss) < 1e-4 for step, loss in alone.items()), f"dp=2, {data}: {split}, {alone}")


def check_actors(program):
    """The run, its trace and the simulation show the actors, and say who limits."""
    if not write_images(program):
        return
    job = [CONV, *CPU, "--strategy", "dp=1", *BATCH]
    run = program.run("run", *job, "--data", "images", "--steps", "12", "--registers", "3", "--record", "r", "--out", "o", "--json")
    data = run.expect_code(0).document()["data"]
    names = ["images.read", "images.decode", "images.augment", "images"]
    expect([actor["name"] for actor in data["actors"]] == names and data["registers"] == 3, f"{data}")
    expect(all(0 <= actor["busy"] <= 1.01 for actor in data["actors"]), f"{data}")
    program.run("simulate", "o/plan.json", "--replay", "r", "--trace", "run.trace").expect_code(0)
    program.run("simulate", *job, "--data-times", "read=1us decode=3s augment=1us images=1us registers=1", "--trace",
                "plan.trace").expect_code(0)
    for trace in ("run.trace", "plan.trace"):
        events = json.loads((program.folder / trace).read_text(encoding="utf-8"))["traceEvents"]
        found = {event["args"]["name"] for event in events if event["ph"] == "M"}
        # Of a run one step is drawn, for which the decoder may have been done before it began.
        expect(("images.decode" if trace == "plan.trace" else "images") in found, f"{trace}: {sorted(found)}")
    slow = program.run("simulate", *job, "--data-times", "read=1us decode=3s augment=2s registers=2", "--json").expect_code(0)
    found = slow.document()["data"]
    expect(found["limiting"] == "images.decode" and abs(found["step_time_s"] - 3) < 1e-3, f"{found}")
    quick = program.run("simulate", *job, "--data-times", "decode=1ns", "--json").expect_code(0).document()
    expect(quick["data"]["limiting"] is None, f"{quick['data']}")
    for times in ("", "decode", "decode=3", "decode=1s registers=0", "registers=2"):
        if times:
            program.run("simulate", *job, "--data-times", times).expect_code(2)
    program.run("simulate", "wide-deep", *CPU, "--strategy", "dp=1", *BATCH, "--data-times", "read=1s").expect_code(2)


def check_refused_images(program):
    if not write_images(program):
        return
    job = ["run", CONV, *CPU, "--strategy", "dp=1", *BATCH, "--steps", "6", "--data"]
    program.run(*job, "images", "--registers", "0").expect_code(2).expect_error("wanted 1 to 64")
    program.run(*job, "images", "--data-order", "places").expect_code(2).expect_error("images have 'shuffled' and 'file'")
    program.run(job[0], TINY, *job[2:], "images").expect_code(2).expect_error("holds images, and this model reads no images but tokens")
    (program.folder / "images" / "class1" / "4.jpg").write_bytes(b"no image")
    bad = program.run(*job, "images", "--data-order", "file")
    expect(bad.code == 3 and "class1/4.jpg" in bad.err, f"{bad.code}: {bad.err}")
    with tarfile.open(program.folder / "up.tar", "w") as shard:
        shard.addfile(tarfile.TarInfo("../up.jpg"), io.BytesIO())
    program.run(*job, "up.tar").expect_code(3).expect_error("'../up.jpg': a name that leads outside")


def check_refusals(program):
    write_tokens(program)
    job = ["run", TINY, *CPU, "--strategy", "dp=1", *BATCH, "--data"]
    program.run(*job, "bare.bin", "--data-format", "uint33").expect_code(2).expect_error("did you mean 'uint32'")
    program.run(*job, "bare.bin", "--data-order", "sorted").expect_code(2).expect_error("places, shuffled, file")
    program.run(*job, "random", "--data-order", "file").expect_code(2).expect_error("there is none")
    program.run(*job, "bare.bin", "--data-format", "llm.c").expect_code(3).expect_error("does not begin with 20240520")
    program.run(*job[:6], "--global-batch", "400", "--data", "bare.bin", "--data-order", "file last_batch=drop").expect_code(
        3).expect_error("with last_batch=drop none is left")
    (program.folder / "a.tar").write_bytes(b"x" * 512)
    program.run(*job, "a.tar").expect_code(3).expect_error("no tar file, or damaged")


if __name__ == "__main__":
    sys.exit(run_checks(check_formats, check_plans, check_goes_on, check_images, check_bytes, check_actors, check_refused_images, check_refusals))
