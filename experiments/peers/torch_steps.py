#!/usr/bin/env python3
"""Seconds of a training step of PyTorch on this machine's processors in f32, or on its GPU in bf16, with models of transformers.

usage: torch_steps.py gpt2 [--batch 1] [--sequence 256] [--layers 12] [--steps 10] [--compile] [--device cpu|cuda]
       torch_steps.py resnet18 [--batch 8] [--image 64] [--steps 10] [--compile] [--device cpu|cuda]
       torch_steps.py bert [--batch 8] [--sequence 128] [--layers 12] [--steps 10] [--compile] [--device cpu|cuda]

`taskset -c 0,1` in front gives it two cores, as it does for `sextant run`. gpt2 is GPT-2 small (vocabulary 50,257, tied
head) and bert BERT-base with the head of masked tokens (one token of seven is a label), both under AdamW; resnet18 is
ResNet-18 of 1,000 classes under SGD with momentum. All are without dropout, on random samples that are made once. On a
GPU products and activations are bf16 (autocast) over f32 masters. The last line is one JSON object: median and
quartiles of the steps behind three that warm up.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
import transformers

WARM_UP = 3


def gpt2(arguments):
    config = transformers.GPT2Config(n_layer=arguments.layers, n_positions=1024, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                     use_cache=False)
    model = transformers.GPT2LMHeadModel(config).train()
    tokens = torch.randint(0, config.vocab_size, (arguments.batch, arguments.sequence + 1), device=arguments.device)
    model, optimizer = with_adamw(model, arguments)

    def loss_of(compiled):
        logits = compiled(input_ids=tokens[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return model, optimizer, loss_of


def bert(arguments):
    config = transformers.BertConfig(num_hidden_layers=arguments.layers, hidden_dropout_prob=0,
                                     attention_probs_dropout_prob=0)
    model = transformers.BertForMaskedLM(config).train()
    shape = (arguments.batch, arguments.sequence)
    tokens = torch.randint(0, config.vocab_size, shape, device=arguments.device)
    labels = torch.where(torch.rand(shape, device=arguments.device) < 1 / 7, tokens, -100)
    model, optimizer = with_adamw(model, arguments)

    def loss_of(compiled):
        logits = compiled(input_ids=tokens).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())

    return model, optimizer, loss_of


def with_adamw(model, arguments):
    model = model.to(arguments.device)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def resnet18(arguments):
    config = transformers.ResNetConfig(layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512],
                                       num_labels=1000)
    model = transformers.ResNetForImageClassification(config).train()
    # Convolutions of oneDNN take either order of dimensions; this is the one that PyTorch advises.
    model = model.to(arguments.device, memory_format=torch.channels_last)
    shape = (arguments.batch, 3, arguments.image, arguments.image)
    images = torch.randn(shape, device=arguments.device).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (arguments.batch,), device=arguments.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)

    def loss_of(compiled):
        return torch.nn.functional.cross_entropy(compiled(pixel_values=images).logits, labels)

    return model, optimizer, loss_of


def step_seconds(model, optimizer, loss_of, steps, device):
    on_gpu = device == "cuda"
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    seconds = []
    for step in range(WARM_UP + steps):
        wait()
        begin = time.perf_counter()
        with torch.autocast("cuda", torch.bfloat16) if on_gpu else contextlib.nullcontext():
            loss = loss_of(model)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        wait()
        if step >= WARM_UP:
            seconds.append(time.perf_counter() - begin)
    return sorted(seconds)


MODELS = {"gpt2": gpt2, "bert": bert, "resnet18": resnet18}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--image", type=int, default=64)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    arguments = parser.parse_args()
    if arguments.batch is None:
        arguments.batch = {"gpt2": 1, "resnet18": 8, "bert": 8}[arguments.model]
    torch.manual_seed(0)
    model, optimizer, loss_of = MODELS[arguments.model](arguments)
    if arguments.compile:
        model = torch.compile(model)
    seconds = step_seconds(model, optimizer, loss_of, arguments.steps, arguments.device)
    quantile = [round(1e3 * value, 2) for value in statistics.quantiles(seconds, n=4, method="inclusive")]
    print(json.dumps({"model": arguments.model, "batch": arguments.batch, "compile": arguments.compile,
                      "threads": torch.get_num_threads(), "torch": torch.__version__, "step_ms": quantile[1],
                      "quartiles_ms": quantile}))


if __name__ == "__main__":
    main()
