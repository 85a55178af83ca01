#!/usr/bin/env python3
"""Milliseconds of a training step of PyTorch on this machine's processors in f32, or on its GPUs in bf16.

usage: torch_steps.py gpt2 [--batch 1] [--sequence 256] [--layers 12] [--steps 10] [--compile] [--device cpu|cuda]
       torch_steps.py bert [--batch 8] [--sequence 128] [--layers 12] [--steps 10] [--compile] [--device cpu|cuda]
       torch_steps.py resnet18|resnet50 [--batch 8] [--image 64] [--steps 10] [--compile] [--device cpu|cuda]
       torch_steps.py class_head [--batch 1024] [--classes 1000000] [--steps 10] [--compile] [--device cpu|cuda]
       torch_steps.py wide_deep [--batch 16384] [--rows 20000000] [--layers 7] [--steps 10] [--compile] [--device cpu|cuda]
       python3 -m torch.distributed.run --standalone --nproc-per-node 2 torch_steps.py resnet50 --strategy ddp ...
       python3 -m torch.distributed.run --standalone --nproc-per-node 2 torch_steps.py class_head|wide_deep --strategy tp ...

`taskset -c 0,1` in front gives it two cores, as it does for `sextant run`. gpt2 is GPT-2 small (vocabulary 50,257, tied
head) and bert BERT-base with the head of masked tokens (one token of seven is a label), both under AdamW; resnet18 and
resnet50 have 1,000 classes and SGD with momentum; these are models of transformers. class_head and wide_deep are ours
(`sextant model show`): a million classes behind one hidden layer of 512, and two tables (26 ids of a sample in one of
`--rows` rows of 16 numbers, 2 in one of 10,000) beside layers of 1,024, both under AdamW with gradients of whole tables,
as ours have. All are without dropout, on random samples that are made once. On a GPU products and activations are bf16
(autocast) over f32 masters. Of several ranks `ddp` has `--batch` samples for each; `tp` has them for all: classes, and
rows of the tables with the layers alternately by columns and rows, are shared, by functional collectives that are compiled
with the rest. The last line is one JSON object: median and quartiles of the steps (of several ranks the slowest's) behind
three that warm up, and the losses of the first and the last step.
"""

import argparse
import contextlib
import json
import statistics

import torch
import torch_ranks as ranks
from torch import nn
from torch.nn import functional

WARM_UP = 3


def gpt2(arguments):
    import transformers

    config = transformers.GPT2Config(n_layer=arguments.layers, n_positions=1024, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                     use_cache=False)
    model = transformers.GPT2LMHeadModel(config).train()
    tokens = torch.randint(0, config.vocab_size, (arguments.batch, arguments.sequence + 1), device=arguments.device)
    model, optimizer = with_adamw(model, arguments)

    def loss_of(compiled):
        logits = compiled(input_ids=tokens[:, :-1]).logits
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return model, optimizer, loss_of


def bert(arguments):
    import transformers

    config = transformers.BertConfig(num_hidden_layers=arguments.layers, hidden_dropout_prob=0,
                                     attention_probs_dropout_prob=0)
    model = transformers.BertForMaskedLM(config).train()
    shape = (arguments.batch, arguments.sequence)
    tokens = torch.randint(0, config.vocab_size, shape, device=arguments.device)
    labels = torch.where(torch.rand(shape, device=arguments.device) < 1 / 7, tokens, -100)
    model, optimizer = with_adamw(model, arguments)

    def loss_of(compiled):
        logits = compiled(input_ids=tokens).logits
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    return model, optimizer, loss_of


def with_adamw(model, arguments):
    model = model.to(arguments.device)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def resnet18(arguments):
    return resnet(arguments, layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512])


def resnet50(arguments):
    return resnet(arguments, layer_type="bottleneck", depths=[3, 4, 6, 3], hidden_sizes=[256, 512, 1024, 2048])


def resnet(arguments, **shape_of_layers):
    import transformers

    torch.backends.cudnn.benchmark = True
    config = transformers.ResNetConfig(num_labels=1000, **shape_of_layers)
    model = transformers.ResNetForImageClassification(config).train()
    # Convolutions of oneDNN take either order of dimensions; this is the one that PyTorch advises.
    model = model.to(arguments.device, memory_format=torch.channels_last)
    shape = (arguments.batch, 3, arguments.image, arguments.image)
    images = torch.randn(shape, device=arguments.device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (arguments.batch,), device=arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)

    def loss_of(compiled):
        return functional.cross_entropy(compiled(pixel_values=images).logits, labels)

    return model, optimizer, loss_of


class ClassHead(nn.Module):
    def __init__(self, classes, width=512):
        super().__init__()
        self.hidden = nn.Linear(width, width)
        self.head = ranks.SplitLinear(width, classes, False, "columns")

    def forward(self, features, labels):
        return ranks.split_cross_entropy(self.head(functional.relu(self.hidden(features))), labels)


def class_head(arguments):
    model = ClassHead(arguments.classes)
    features = torch.randn((arguments.batch, 512), device=arguments.device)
    labels = torch.randint(0, arguments.classes, (arguments.batch,), device=arguments.device)
    model, optimizer = with_adamw(model, arguments)
    return model, optimizer, lambda compiled: compiled(features, labels)


class WideDeep(nn.Module):
    def __init__(self, rows, layers, fields=26, width=16, dense=13, hidden=1024):
        super().__init__()
        self.deep, self.wide = ranks.SplitEmbedding(rows, width), ranks.SplitEmbedding(10_000, 1)
        widths = [fields * width + dense] + layers * [hidden]
        # Columns, rows, columns ...: between a pair of layers nothing moves.
        self.layers = nn.ModuleList(
            ranks.SplitLinear(widths[i], widths[i + 1], True, ("columns", "rows")[i % 2]) for i in range(layers))
        self.answer = ranks.SplitLinear(hidden, 1, True, "rows") if layers % 2 else nn.Linear(hidden, 1)

    def forward(self, deep_ids, wide_ids, dense, labels):
        x = torch.cat((self.deep(deep_ids).flatten(1), dense), dim=1)
        for layer in self.layers:
            x = functional.relu(layer(x))
        logit = (self.answer(x) + self.wide(wide_ids).sum(dim=1)).squeeze(1)
        return functional.binary_cross_entropy_with_logits(logit.float(), labels)


def wide_deep(arguments):
    model = WideDeep(arguments.rows, arguments.layers)
    deep_ids = torch.randint(0, arguments.rows, (arguments.batch, 26), device=arguments.device)
    wide_ids = torch.randint(0, 10_000, (arguments.batch, 2), device=arguments.device)
    dense = torch.randn((arguments.batch, 13), device=arguments.device)
    labels = torch.randint(0, 2, (arguments.batch,), device=arguments.device).float()
    model, optimizer = with_adamw(model, arguments)
    return model, optimizer, lambda compiled: compiled(deep_ids, wide_ids, dense, labels)


def shared(model, strategy, device):
    """The model as the strategy runs it on this rank."""
    return ranks.replicated(model, device) if strategy == "ddp" else model


def step_times(model, optimizer, loss_of, steps, device):
    """Seconds of each step behind those that warm up, and the losses of all, as tensors."""
    on_gpu = device.type == "cuda"
    losses = []

    def step():
        with torch.autocast("cuda", torch.bfloat16) if on_gpu else contextlib.nullcontext():
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.detach())

    ranks.seconds_of(step, WARM_UP, device)
    return sorted(ranks.seconds_of(step, steps, device)), losses


# What each builds on the arguments, the samples of a step, and how ranks may share it.
MODELS = {"gpt2": (gpt2, 1, "ddp"), "bert": (bert, 8, "ddp"), "resnet18": (resnet18, 8, "ddp"),
          "resnet50": (resnet50, 8, "ddp"), "class_head": (class_head, 1024, "tp"), "wide_deep": (wide_deep, 16384, "tp")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--image", type=int, default=64)
    parser.add_argument("--classes", type=int, default=1_000_000)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--strategy", choices=["none", "ddp", "tp"], default="none")
    arguments = parser.parse_args()
    build, batch, several = MODELS[arguments.model]
    if arguments.strategy not in ("none", several) or (arguments.strategy == "none") != (ranks.RANKS == 1):
        raise SystemExit(f"{ranks.RANKS} ranks of {arguments.model} under --strategy {arguments.strategy}")
    arguments.batch = arguments.batch or batch
    arguments.layers = arguments.layers or {"wide_deep": 7}.get(arguments.model, 12)
    device = ranks.device_of(arguments.device)
    torch.manual_seed(ranks.RANK if arguments.strategy == "ddp" else 0)  # samples of a rank's own
    model, optimizer, loss_of = build(arguments)
    model = shared(model, arguments.strategy, device)
    if arguments.compile:
        model = torch.compile(model)
    seconds, losses = step_times(model, optimizer, loss_of, arguments.steps, device)
    losses = ranks.reduced(losses, "mean")
    quantile = [round(1e3 * value, 2) for value in statistics.quantiles(seconds, n=4, method="inclusive")]
    ranks.say("losses " + " ".join(f"{loss:.4f}" for loss in losses))
    ranks.say(json.dumps({"model": arguments.model, "batch": arguments.batch, "compile": arguments.compile,
                          "strategy": arguments.strategy, "ranks": ranks.RANKS, "threads": torch.get_num_threads(),
                          "torch": torch.__version__, "step_ms": quantile[1], "quartiles_ms": quantile,
                          "loss": [round(losses[0], 4), round(losses[-1], 4)]}))
    ranks.leave()


if __name__ == "__main__":
    main()
