#!/usr/bin/env python3
"""Milliseconds of a training step of PyTorch on GPUs, of a decoder that a model file of ours describes.

usage: torch_decoder.py model.json [--samples 8] [--micro-batches 1] [--steps 30] [--dropout P] [--recompute]
                        [--attention cudnn|flash] [--profile FILE]
       python3 -m torch.distributed.run --standalone --nproc-per-node 2 torch_decoder.py model.json --strategy ddp|fsdp|tp ...

The model file has the schema `sextant.model/1` (`sextant model show MODEL --json`). Masters and moments are f32,
products and activations bf16 (autocast), the optimizer is the fused AdamW, every layer is compiled by itself, q, k and v
are one product, as are gate and up of a gated MLP; keys of fewer heads go through `enable_gqa`. Attention is the fastest
of PyTorch's fused ones, found by timing a step of each. Samples are random tokens that lie on the card. `--profile` writes
the time of each kernel in two more steps. The last line is one JSON object: median and quartiles of the steps (of several
ranks the slowest's), losses from the first step, that of compilation, to the last.

Of several ranks: `ddp` has `--samples` for each and gradients as views of the buckets; `fsdp` is FSDP2 (`fully_shard`) of
every layer and of the rest, parameters gathered in bf16 and gradients reduced in f32; `tp` has `--samples` for all ranks,
heads, hidden features, vocabulary and the loss's classes shared, and sums by functional collectives inside the compiled
layers, so that the optimizer sees plain tensors (DTensor's own calls took longer). `--device cpu` is for a trial without GPUs.
"""

import argparse
import contextlib
import json
import statistics

import torch
import torch_ranks as ranks
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
        shares = model["shares"]
        width = model["heads"] * model["head_size"]
        self.sizes = [width // shares] + 2 * [model["kv_heads"] * model["head_size"] // shares]
        self.head_size, self.dropout = model["head_size"], dropout
        self.grouped = model["heads"] != model["kv_heads"]
        self.rotary = model["positions"] == "rotary"
        self.qkv = columns(model, model["hidden"], sum(self.sizes) * shares, model["attention_bias"])
        self.out = rows(model, width, model["hidden"], model["output_bias"])

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
        self.gated, self.width, self.dropout = model["mlp"] == "swiglu", model["ffn"] // model["shares"], dropout
        self.form = "none" if model["exact_gelu"] else "tanh"
        self.up = columns(model, model["hidden"], model["ffn"] * (2 if self.gated else 1), model["mlp_bias"])
        self.down = rows(model, model["ffn"], model["hidden"], model["mlp_bias"])

    def forward(self, x):
        hidden = self.up(x)
        if self.gated:
            gate, up = hidden.split(self.width, dim=-1)
            hidden = functional.silu(gate) * up
        else:
            hidden = functional.gelu(hidden, approximate=self.form)
        y = self.down(hidden)
        return functional.dropout(y, self.dropout) if self.dropout else y


class Experts(nn.Module):
    """Every token through its `top_k` experts, none dropped: tokens are sorted by expert, products are of groups of any size."""

    def __init__(self, model):
        super().__init__()
        if model["shares"] > 1 or model["mlp"] != "swiglu":
            raise SystemExit("experts are gated and of one rank here")
        self.count, self.top_k, self.normalized = model["experts"], model["top_k"], model["normalized_experts"]
        self.router = nn.Linear(model["hidden"], self.count, bias=False)
        self.up = nn.Parameter(torch.empty(self.count, model["hidden"], 2 * model["ffn"]))
        self.down = nn.Parameter(torch.empty(self.count, model["ffn"], model["hidden"]))

    def forward(self, x):
        tokens = x.flatten(0, 1)
        scores = self.router(tokens).float()
        if not self.normalized:
            scores = scores.softmax(-1)
        weights, chosen = scores.topk(self.top_k, dim=-1)
        weights = (weights.softmax(-1) if self.normalized else weights).flatten()
        order = chosen.flatten().argsort(stable=True)
        counts = (chosen.flatten()[:, None] == torch.arange(self.count, device=x.device)).sum(0)
        ends = counts.cumsum(0).to(torch.int32)
        source = order // self.top_k
        gate, up = grouped(tokens[source], self.up, ends).chunk(2, dim=-1)
        y = grouped(functional.silu(gate) * up, self.down, ends) * weights[order].to(x.dtype)[:, None]
        return torch.zeros_like(tokens).index_add(0, source, y.to(tokens.dtype)).view_as(x)


def grouped(rows_of_groups, weight, ends):
    """Rows up to ends[g] times the g-th matrix; a loop where there are no grouped products (on processors, for a trial)."""
    weight, rows_of_groups = weight.to(torch.bfloat16), rows_of_groups.to(torch.bfloat16)
    if rows_of_groups.is_cuda:
        return torch._grouped_mm(rows_of_groups, weight, offs=ends)
    parts = torch.tensor_split(rows_of_groups, ends[:-1].tolist())
    return torch.cat([part @ matrix for part, matrix in zip(parts, weight)])


class Layer(nn.Module):
    def __init__(self, model, dropout):
        super().__init__()
        self.first, self.second = norm_of(model), norm_of(model)
        self.attention = Attention(model, dropout)
        self.mlp = Experts(model) if model.get("experts") else Mlp(model, dropout)

    def forward(self, x, tables):
        x = x + self.attention(self.first(x), tables)
        return x + self.mlp(self.second(x))


def columns(model, inputs, outputs, bias):
    """The layer in front of what ranks share: `shares` parts of its outputs, or all."""
    if model["shares"] == 1:
        return nn.Linear(inputs, outputs, bias=bias)
    return ranks.SplitLinear(inputs, outputs, bias, "columns")


def rows(model, inputs, outputs, bias):
    """The layer behind what ranks share."""
    if model["shares"] == 1:
        return nn.Linear(inputs, outputs, bias=bias)
    return ranks.SplitLinear(inputs, outputs, bias, "rows")


def norm_of(model):
    kind = nn.RMSNorm if model["norm"] == "rms_norm" else nn.LayerNorm
    return kind(model["hidden"], eps=model["norm_epsilon"])


class Decoder(nn.Module):
    def __init__(self, model, dropout, recompute):
        super().__init__()
        self.model, self.recompute, self.dropout = model, recompute, dropout
        split = model["shares"] > 1
        self.tokens = (ranks.SplitEmbedding if split else nn.Embedding)(model["vocab"], model["hidden"])
        self.positions = nn.Embedding(model["sequence"], model["hidden"]) if model["positions"] == "learned" else None
        self.layers = nn.ModuleList(Layer(model, dropout) for _ in range(model["layers"]))
        self.norm = norm_of(model)
        self.head = columns(model, model["hidden"], model["vocab"], False)
        self.loss = torch.compile(ranks.split_cross_entropy) if split else functional.cross_entropy
        if model["tied_embeddings"]:
            self.head.weight = self.tokens.weight
        for weight in self.parameters():
            if weight.dim() > 1 and not hasattr(weight, "is_share"):
                nn.init.normal_(weight, 0, model["initializer_range"])

    def tables(self, positions, device):
        half = torch.arange(0, self.model["head_size"], 2, device=device) / self.model["head_size"]
        angles = torch.arange(positions, device=device)[:, None] * self.model["rope_theta"] ** -half
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)

    def forward(self, tokens, labels):
        x = self.tokens(tokens)
        tables = None
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=x.device))
        else:
            tables = self.tables(tokens.shape[1], x.device)
        if self.dropout:
            x = functional.dropout(x, self.dropout)
        x = x.to(torch.bfloat16)
        for layer in self.layers:
            x = checkpoint(layer, x, tables, use_reentrant=False) if self.recompute else layer(x, tables)
        logits = self.head(self.norm(x))
        return self.loss(logits.flatten(0, 1), labels.flatten())


def shared(decoder, strategy, device):
    """The decoder with compiled layers, as the strategy runs it on this rank."""
    if strategy == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        # Compiled modules of their own, so that the calls that gather parameters stay outside of the compiled code.
        for index, layer in enumerate(decoder.layers):
            decoder.layers[index] = torch.compile(layer)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for layer in decoder.layers:
            fully_shard(layer, mp_policy=policy)
        return fully_shard(decoder, mp_policy=policy)
    for layer in decoder.layers:
        layer.compile()
    return ranks.replicated(decoder, device) if strategy == "ddp" else decoder


class Step:
    def __init__(self, decoder, samples, optimizer, device):
        self.decoder, self.samples, self.optimizer, self.device = decoder, samples, optimizer, device
        self.losses = []

    def __call__(self):
        for index, tokens in enumerate(self.samples):
            accumulates = index + 1 < len(self.samples) and isinstance(self.decoder, nn.parallel.DistributedDataParallel)
            with self.decoder.no_sync() if accumulates else contextlib.nullcontext():
                with torch.autocast(self.device.type, torch.bfloat16):
                    loss = self.decoder(tokens[:, :-1], tokens[:, 1:])
                (loss / len(self.samples)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.losses.append(loss.detach())


def milliseconds(step, count):
    return [1e3 * seconds for seconds in ranks.seconds_of(step, count, step.device)]


def attention_of(name):
    return sdpa_kernel(ATTENTION[name]) if name in ATTENTION else contextlib.nullcontext()


def fastest_attention(step, head_size):
    """The name of the fused attention with the shortest step; what cannot take the shape is passed over."""
    times = {}
    for name in ATTENTION:
        with contextlib.suppress(RuntimeError), attention_of(name):
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
    parser.add_argument("--strategy", choices=["none", "ddp", "fsdp", "tp"], default="none")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    arguments = parser.parse_args()
    with open(arguments.model) as file:
        model = json.load(file)
    if (arguments.strategy == "none") != (ranks.RANKS == 1):
        raise SystemExit(f"{ranks.RANKS} ranks under --strategy {arguments.strategy}")
    model["shares"] = ranks.RANKS if arguments.strategy == "tp" else 1
    for name in ("heads", "kv_heads", "ffn", "vocab"):
        if model[name] % model["shares"]:
            raise SystemExit(f"{name} {model[name]} is no multiple of {model['shares']} ranks")

    device = ranks.device_of(arguments.device)
    torch.manual_seed(0)
    with device:
        decoder = Decoder(model, arguments.dropout, arguments.recompute)
    decoder = shared(decoder, arguments.strategy, device)
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    torch.manual_seed(1 if model["shares"] > 1 else 1 + ranks.RANK)  # the same tokens, or each rank's own
    shape = (arguments.samples, model["sequence"] + 1)
    samples = [torch.randint(0, model["vocab"], shape, device=device) for _ in range(arguments.micro_batches)]
    step = Step(decoder, samples, optimizer, device)
    name, attention = arguments.attention, {}
    if device.type == "cpu":
        name = "as it chooses"
    elif name is None:
        name, attention = fastest_attention(step, model["head_size"])
    with attention_of(name):
        milliseconds(step, WARM_UP)
        taken = milliseconds(step, arguments.steps)
        if arguments.profile and device.type == "cuda":
            write_profile(step, arguments.profile if ranks.RANK == 0 else "/dev/null")
    losses = ranks.reduced(step.losses, "mean")
    quartiles = statistics.quantiles(taken, n=4) if len(taken) > 1 else 3 * taken
    on_gpu = device.type == "cuda"
    peak = ranks.reduced([torch.cuda.max_memory_allocated() / 2**30 if on_gpu else 0.0], "max")[0]
    ranks.say("losses " + " ".join(f"{loss:.4f}" for loss in losses))
    ranks.say(json.dumps({
        "model": model["name"], "samples": arguments.samples, "micro_batches": arguments.micro_batches,
        "strategy": arguments.strategy, "ranks": ranks.RANKS, "step_ms": round(statistics.median(taken), 2),
        "quartiles_ms": [round(quartiles[0], 2), round(quartiles[2], 2)], "loss": [round(losses[0], 4), round(losses[-1], 4)],
        "attention": name, "attention_ms": {key: round(value, 1) for key, value in attention.items()},
        "peak_gib": round(peak, 2), "torch": torch.__version__,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
    }))
    ranks.leave()


if __name__ == "__main__":
    main()
