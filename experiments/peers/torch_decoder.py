#!/usr/bin/env python3
"""Milliseconds of a training step of PyTorch on one GPU, of a decoder that a model file of ours describes.

usage: torch_decoder.py model.json [--samples 8] [--micro-batches 1] [--steps 30] [--dropout P] [--recompute]
                        [--attention cudnn|flash] [--profile FILE]

The model file has the schema `sextant.model/1` (`sextant model show MODEL --json`). Masters and moments are f32,
products and activations bf16 (autocast), the optimizer is the fused AdamW, every layer is compiled by itself, q, k and v
are one product, as are gate and up of a gated MLP; keys of fewer heads go through `enable_gqa`. Attention is the fastest
of PyTorch's fused ones, found by timing a step of each. Samples are random tokens that lie on the card. `--profile` writes
the time of each kernel in two more steps. The last line is one JSON object: median and quartiles of the steps.
"""

import argparse
import contextlib
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

WARM_UP = 5
ATTENTION = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


def rotated(heads, cosines, sines):
    """heads: [batch, heads, positions, size]; tables: [positions, size], a half for each half of a head."""
    first, second = heads.chunk(2, dim=-1)
    return (heads * cosines + torch.cat((-second, first), dim=-1) * sines).to(heads.dtype)


class Attention(nn.Module):
    def __init__(self, model, dropout):
        super().__init__()
        self.sizes = [model["heads"] * model["head_size"]] + 2 * [model["kv_heads"] * model["head_size"]]
        self.head_size, self.dropout = model["head_size"], dropout
        self.grouped = model["heads"] != model["kv_heads"]
        self.rotary = model["positions"] == "rotary"
        self.qkv = nn.Linear(model["hidden"], sum(self.sizes), bias=model["attention_bias"])
        self.out = nn.Linear(self.sizes[0], model["hidden"], bias=model["output_bias"])

    def forward(self, x, tables):
        batch, positions, _ = x.shape
        q, k, v = (part.view(batch, positions, -1, self.head_size).transpose(1, 2)
                   for part in self.qkv(x).split(self.sizes, dim=-1))
        if self.rotary:
            q, k = rotated(q, *tables), rotated(k, *tables)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.grouped)
        y = self.out(y.transpose(1, 2).reshape(batch, positions, -1))
        return functional.dropout(y, self.dropout) if self.dropout else y


class Mlp(nn.Module):
    def __init__(self, model, dropout):
        super().__init__()
        self.gated, self.width, self.dropout = model["mlp"] == "swiglu", model["ffn"], dropout
        self.form = "none" if model["exact_gelu"] else "tanh"
        self.up = nn.Linear(model["hidden"], self.width * (2 if self.gated else 1), bias=model["mlp_bias"])
        self.down = nn.Linear(self.width, model["hidden"], bias=model["mlp_bias"])

    def forward(self, x):
        hidden = self.up(x)
        if self.gated:
            gate, up = hidden.split(self.width, dim=-1)
            hidden = functional.silu(gate) * up
        else:
            hidden = functional.gelu(hidden, approximate=self.form)
        y = self.down(hidden)
        return functional.dropout(y, self.dropout) if self.dropout else y


class Layer(nn.Module):
    def __init__(self, model, dropout):
        super().__init__()
        self.first, self.second = norm_of(model), norm_of(model)
        self.attention, self.mlp = Attention(model, dropout), Mlp(model, dropout)

    def forward(self, x, tables):
        x = x + self.attention(self.first(x), tables)
        return x + self.mlp(self.second(x))


def norm_of(model):
    kind = nn.RMSNorm if model["norm"] == "rms_norm" else nn.LayerNorm
    return kind(model["hidden"], eps=model["norm_epsilon"])


class Decoder(nn.Module):
    def __init__(self, model, dropout, recompute):
        super().__init__()
        self.model, self.recompute, self.dropout = model, recompute, dropout
        self.tokens = nn.Embedding(model["vocab"], model["hidden"])
        self.positions = nn.Embedding(model["sequence"], model["hidden"]) if model["positions"] == "learned" else None
        self.layers = nn.ModuleList(Layer(model, dropout) for _ in range(model["layers"]))
        self.norm = norm_of(model)
        self.head = nn.Linear(model["hidden"], model["vocab"], bias=False)
        if model["tied_embeddings"]:
            self.head.weight = self.tokens.weight
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, 0, model["initializer_range"])

    def tables(self, positions):
        half = torch.arange(0, self.model["head_size"], 2, device="cuda") / self.model["head_size"]
        angles = torch.arange(positions, device="cuda")[:, None] * self.model["rope_theta"] ** -half
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        tables = None
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device="cuda"))
        else:
            tables = self.tables(tokens.shape[1])
        if self.dropout:
            x = functional.dropout(x, self.dropout)
        x = x.to(torch.bfloat16)
        for layer in self.layers:
            x = checkpoint(layer, x, tables, use_reentrant=False) if self.recompute else layer(x, tables)
        logits = self.head(self.norm(x))
        return functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


def step_of(decoder, samples, optimizer):
    def step():
        for tokens in samples:
            with torch.autocast("cuda", torch.bfloat16):
                loss = decoder(tokens[:, :-1], tokens[:, 1:])
            (loss / len(samples)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def milliseconds(step, count):
    taken = []
    for _ in range(count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        torch.cuda.synchronize()
        taken.append((time.perf_counter() - begin) * 1e3)
    return taken


def fastest_attention(step, head_size):
    """The name of the fused attention with the shortest step; what cannot take the shape is passed over."""
    times = {}
    for name, backend in ATTENTION.items():
        with contextlib.suppress(RuntimeError), sdpa_kernel(backend):
            milliseconds(step, 3)
            times[name] = statistics.median(milliseconds(step, 5))
        torch._dynamo.reset()
    if not times:
        raise SystemExit(f"no fused attention takes heads of {head_size}")
    return min(times, key=times.get), times


def write_profile(step, path):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        step()
        step()
        torch.cuda.synchronize()
    rows = [{"kernel": row.key, "count": row.count / 2, "ms": row.device_time_total / 2e3}
            for row in profile.key_averages() if row.device_time_total > 0]
    with open(path, "w") as file:
        json.dump(sorted(rows, key=lambda row: -row["ms"]), file, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--samples", type=int, default=8, help="of a micro-batch")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--recompute", action="store_true", help="every layer is computed again in the backward pass")
    parser.add_argument("--attention", choices=sorted(ATTENTION), help="without it the fastest is found")
    parser.add_argument("--profile", help="file for the times of kernels")
    arguments = parser.parse_args()
    with open(arguments.model) as file:
        model = json.load(file)
    if model.get("experts"):
        raise SystemExit("models with experts are not covered")

    torch.manual_seed(0)
    with torch.device("cuda"):
        decoder = Decoder(model, arguments.dropout, arguments.recompute)
    for layer in decoder.layers:
        layer.compile()
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    shape = (arguments.samples, model["sequence"] + 1)
    samples = [torch.randint(0, model["vocab"], shape, device="cuda") for _ in range(arguments.micro_batches)]
    step = step_of(decoder, samples, optimizer)
    name, attention = arguments.attention, {}
    if name is None:
        name, attention = fastest_attention(step, model["head_size"])
    with sdpa_kernel(ATTENTION[name]):
        milliseconds(step, WARM_UP)
        taken = milliseconds(step, arguments.steps)
        if arguments.profile:
            write_profile(step, arguments.profile)
    quartiles = statistics.quantiles(taken, n=4) if len(taken) > 1 else 3 * taken
    print(json.dumps({
        "model": model["name"], "samples": arguments.samples, "micro_batches": arguments.micro_batches,
        "step_ms": round(statistics.median(taken), 2), "quartiles_ms": [round(quartiles[0], 2), round(quartiles[2], 2)],
        "attention": name, "attention_ms": {key: round(value, 1) for key, value in attention.items()},
        "peak_gib": round(torch.cuda.max_memory_allocated() / 2**30, 2), "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
    }))


if __name__ == "__main__":
    main()
