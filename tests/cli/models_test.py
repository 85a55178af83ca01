"""MODEL of every architecture: shown, simulated and trained, and a graph that the user wrote down.

usage: models_test.py --sextant PROGRAM
"""

import copy
import json
import pathlib
import sys
import tempfile

from habits_test import expect, run_checks

CPU = ["-c", "cpu:ranks=4,memory=2GiB", "--global-batch", "8", "--strategy"]


def operator(name, kind, layer, inputs=(), words=None, **attributes):
    result = {"name": name, "kind": kind, "layer": layer, "inputs": list(inputs), "attributes": attributes}
    if words:
        result["words"] = words
    return result


def parameter(name, layer, shape, dim):
    result = operator(name, "parameter", layer, shape=shape, dtype="f32", init="normal", init_std=0.3)
    result["parameter"] = {"tensor_parallel_dim": dim}
    return result


# Two products and a loss; a micro-batch of four samples.
GRAPH = {
    "schema": "sextant.graph/1",
    "name": "mine",
    "operators": [
        operator("x", "input", 0, shape=[4, 5], dtype="f32"),
        parameter("first", 0, [5, 6], 1),
        operator("hidden", "matmul", 0, ["x", "first"]),
        operator("bent", "relu", 1, ["hidden"]),
        parameter("last", 2, [6, 8], 1),
        operator("logits", "matmul", 2, ["bent", "last"]),
        operator("labels", "input", 2, shape=[4], dtype="i32", limit=8),
        operator("max", "row_max", 2, ["logits"]),
        operator("sum", "row_sum_exp", 2, ["logits", "max"]),
        operator("pick", "pick", 2, ["logits", "labels"]),
        operator("loss", "cross_entropy", 2, ["logits", "max", "sum", "pick", "labels"]),
    ],
    "loss": {"sum": "loss", "count": "loss:1"},
}


def losses(folder):
    lines = (pathlib.Path(folder) / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["loss"] for line in lines]


def train(program, model, strategy):
    """Losses of four steps."""
    with tempfile.TemporaryDirectory() as folder:
        outcome = program.run("run", model, *CPU, strategy, "--steps", "4", "--out", folder)
        outcome.expect_code(0)
        expect("synthetic data for" in outcome.out, f"{model}: run does not say where its data is from")
        return losses(folder)


def check_same_losses(program, model, strategies):
    expected = train(program, model, strategies[0])
    expect(len(set(expected)) == 4, f"{model}: losses {expected} do not move")
    for strategy in strategies[1:]:
        found = train(program, model, strategy)
        expect(all(abs(a - b) <= 1e-4 * abs(a) for a, b in zip(expected, found)),
               f"{model}: {strategy} has losses {found}, {strategies[0]} {expected}")


def check_architectures(program):
    conv = "conv:blocks=1x1,channels=4x8,height=9,width=7,classes=5,stem_channels=4,stem_pool=0"
    check_same_losses(program, conv, ["micro_batch=8", "dp=2 tp=2 micro_batch=4"])
    # Ids of equal fields and vocabularies are two inputs, in one stage as in two.
    wide = ("wide_deep:hidden=16x8,deep_vocab=50,wide_vocab=50,deep_fields=3,wide_fields=3,"
            "initializer_range=0.2")
    check_same_losses(program, wide, ["pp=2 micro_batch=4", "micro_batch=8", "dp=2 tp=2 micro_batch=2"])
    head = "class_head:features=6,hidden=8,classes=50,initializer_range=0.3"
    check_same_losses(program, head, ["micro_batch=8", "dp=4 micro_batch=2 pin=head.weight:(S(1),B)"])


def check_units(program):
    """Rates are of what the model reads; only models that read tokens have tokens per second."""
    conv = "conv:blocks=1x1,channels=4x8,height=9,width=7,classes=5,stem_channels=4,stem_pool=0"
    head = "class_head:features=6,hidden=8,classes=50"
    for model, unit in ((conv, "images/s"), (head, "samples/s")):
        folder = unit[:-2]
        outcome = program.run("run", model, *CPU, "micro_batch=8", "--steps", "4", "--out", folder)
        outcome.expect_code(0)
        expect(f" {unit}" in outcome.out and "tokens/s" not in outcome.out,
               f"run of {model} does not say {unit}: {outcome.out}")
        lines = (program.folder / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        for line in map(json.loads, lines):
            expect("tokens_per_s" not in line, f"{model} reads no tokens, but has tokens_per_s")
            expect(abs(line["samples_per_s"] * line["step_time_s"] - 8) < 1e-6, f"{line} is no rate")
        simulated = program.run("simulate", model, *CPU, "dp=4 micro_batch=2").expect_code(0)
        expect(f" {unit}," in simulated.out, f"simulate does not say {unit}: {simulated.out}")
        document = program.run("simulate", model, *CPU, "dp=4 micro_batch=2", "--json").document()
        expect("tokens_per_s" not in document and "samples_per_s" in document,
               f"simulate {model}: {sorted(document)}")
        found = program.run("search", model, "-c", "cpu:ranks=2", "--global-batch", "8")
        expect(f" {unit} " in found.expect_code(0).out, f"search does not say {unit}: {found.out}")


def check_show(program):
    document = program.run("model", "show", "resnet50", "--json").expect_code(0).document()
    expect(document["parameters"] == 25557032, f"resnet50 has {document['parameters']} parameters")
    layers = sum(layer["parameters"] for layer in document["layers"])
    expect(layers == 25557032, f"the layers of resnet50 have {layers} parameters")
    document = program.run("model", "show", "mixtral-8x7b", "--json").expect_code(0).document()
    expect(document["active_parameters"] == 12879925248, "mixtral-8x7b: parameters per token")
    program.run("model", "show", "resnet50", "--seq", "4").expect_code(2)


def check_graph(program):
    path = program.folder / "mine.json"
    path.write_text(json.dumps(GRAPH), encoding="utf-8")
    document = program.run("model", "show", str(path), "--json").expect_code(0).document()
    expect(document["name"] == "mine" and document["parameters"] == 78, f"show says {document}")
    check_same_losses(program, str(path), ["micro_batch=4", "dp=2 micro_batch=2", "tp=4 micro_batch=4"])
    program.run("simulate", str(path), *CPU, "dp=4 micro_batch=1").expect_code(0)
    outcome = program.run("run", str(path), *CPU, "dp=4 micro_batch=2", "--steps", "1")
    outcome.expect_code(4).expect_error("batch of 4 samples")


def check_words(program):
    """Words in the file are pins; those of the strategy come after them."""
    graph = copy.deepcopy(GRAPH)
    graph["operators"][5]["words"] = {"input 0": "(B, B)", "output 0": "(B, S(1))"}
    path = program.folder / "words.json"
    path.write_text(json.dumps(graph), encoding="utf-8")
    said = program.run("simulate", str(path), *CPU, "dp=2 tp=2 micro_batch=2").expect_code(0).out
    expect("pin=logits[0]:(B,B) pin=logits:(B,S(1))" in said, f"no pins in {said}")
    # A search holds to them: no plan of it is without.
    found = program.run("search", str(path), *CPU[:4], "--fix", "dp=2", "--fix",
                        "tp=2", "--json").expect_code(0).document()
    expect(found["plans"] and all("pin=logits[0]:(B,B) pin=logits:(B,S(1))" in plan["strategy"]
                                  for plan in found["plans"]), f"a search drops words: {found}")
    graph["operators"][5]["words"] = {"input 0": "(B, B, B)"}
    path.write_text(json.dumps(graph), encoding="utf-8")
    program.run("simulate", str(path), *CPU, "dp=2 tp=2 micro_batch=2").expect_code(2)


def check_refusals(program):
    path = program.folder / "bad.json"
    graph = copy.deepcopy(GRAPH)
    graph["operators"][2]["kind"] = "matmal"
    path.write_text(json.dumps(graph), encoding="utf-8")
    program.run("model", "show", str(path)).expect_code(3).expect_error(
        "operators[2]", "did you mean 'matmul'")
    del graph["loss"]
    graph["operators"][2]["kind"] = "matmul"
    path.write_text(json.dumps(graph), encoding="utf-8")
    program.run("simulate", str(path), *CPU, "dp=1 micro_batch=4").expect_code(3).expect_error(
        "no loss")
    program.run("run", "resnet18", *CPU, "dp=1", "--data", __file__).expect_code(2).expect_error(
        "reads no tokens")


def check_labels_of_a_graph(program):
    """What failed stands first, with the place where it failed, and not where somebody noticed."""
    graph = copy.deepcopy(GRAPH)
    graph["operators"].insert(7, operator("shifted", "add_scalar", 2, ["labels"], value=100.0))
    for name in ("pick", "loss"):
        reader = next(one for one in graph["operators"] if one["name"] == name)
        reader["inputs"] = ["shifted" if one == "labels" else one for one in reader["inputs"]]
    path = program.folder / "shifted.json"
    path.write_text(json.dumps(graph), encoding="utf-8")
    program.run("run", str(path), *CPU, "micro_batch=4", "--steps", "2").expect_code(6).expect_said(
        "error (rank_failed): rank 0: operator 'loss' (cross_entropy), act 0 of step 0: the label 10")


def check_smoothing_in_a_graph(program):
    """The loss is smoothed where its gradient is; both as the built-in classifier has them."""
    graph = copy.deepcopy(GRAPH)
    graph["operators"][10]["attributes"] = {"smoothing": 0.25, "classes": 8}
    path = program.folder / "smooth.json"
    path.write_text(json.dumps(graph), encoding="utf-8")
    program.run("check", str(path), *CPU, "micro_batch=4").expect_code(3).expect_error(
        "operator 'loss' has smoothing", "x[label] alone")
    graph["operators"][10:10] = [
        operator("share", "scale", 2, ["pick"], factor=0.75),
        operator("all", "reduce_sum", 2, ["logits"], dims=[1]),
        operator("spread", "scale", 2, ["all"], factor=0.25 / 8),
        operator("mixture", "add", 2, ["share", "spread"])]
    graph["operators"][14]["inputs"][3] = "mixture"
    path.write_text(json.dumps(graph), encoding="utf-8")
    check_same_losses(program, str(path), ["micro_batch=4", "tp=2 micro_batch=4"])


def check_training_in_a_graph(program):
    """A model is forward work; what belongs to training is refused by its name, not by what breaks."""
    path = program.folder / "trained.json"
    for phase in ("recompute", "input_grad", "weight_grad", "optimizer", "communication"):
        graph = copy.deepcopy(GRAPH)
        graph["operators"][3]["phase"] = phase
        path.write_text(json.dumps(graph), encoding="utf-8")
        program.run("check", str(path), *CPU, "micro_batch=4").expect_code(3).expect_error(
            f"operator 'bent' has the phase {phase}")
    control = operator("control", "constant", 2, shape=[2], dtype="f64", value=1.0)
    update = operator("added", "sgd", 2, ["last", "last", "control"], learning_rate=0.1, weight_decay=0.0,
                      parameter="last", init="ones", init_std=0.0)
    for added in ([operator("added", "metrics", 2, ["loss"], names="mine")], [control, update]):
        graph = copy.deepcopy(GRAPH)
        graph["operators"] += added
        path.write_text(json.dumps(graph), encoding="utf-8")
        program.run("run", str(path), *CPU, "micro_batch=4").expect_code(3).expect_error(
            f"operator 'added' is of the kind {added[-1]['kind']}")


if __name__ == "__main__":
    sys.exit(run_checks(
        check_show, check_architectures, check_units, check_graph, check_words, check_refusals,
        check_labels_of_a_graph, check_smoothing_in_a_graph, check_training_in_a_graph))
