#!/usr/bin/env python3
"""Trains a transformer of ours in PyTorch from exported weights and samples; writes one loss per line."""

import argparse
import json

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


class Transformer:
    """GPT-2, Llama and BERT as sextant.model/1 describes them; weights of products are [in, out], those of the
    embedding and the head [vocabulary, hidden]."""

    def __init__(self, model, weights):
        encoder = {"causal": True, "post_norm": False, "embedding_norm": False, "head_transform": False, "head_bias": False,
                   "token_types": 0}
        self.m, self.w = {**encoder, **model}, weights

    def linear(self, x, name, bias):
        weight = self.w[f"{name}.weight"]
        y = x @ weight.to(x.dtype)
        return y + self.w[f"{name}.bias"].to(x.dtype) if bias else y

    def norm(self, x, name):
        """Statistics in f32, or in f64 where all is f64."""
        wide = x.double() if x.dtype == torch.float64 else x.float()
        weight = self.w[f"{name}.weight"].to(wide.dtype)
        if self.m["norm"] == "rms_norm":
            y = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.m["norm_epsilon"]) * weight
        else:
            y = F.layer_norm(wide, wide.shape[-1:], weight, self.w[f"{name}.bias"].to(wide.dtype),
                             self.m["norm_epsilon"])
        return y.to(x.dtype)

    def scaled(self, frequency):
        """Radians a position, of models that slow them down."""
        scaling = self.m.get("rope_scaling")
        if not scaling:
            return frequency
        kept = torch.zeros_like(frequency)
        if "original_length" in scaling:
            turns = scaling["original_length"] * frequency / (2 * torch.pi)
            kept = ((turns - scaling["low_turns"]) / (scaling["high_turns"] - scaling["low_turns"])).clamp(0, 1)
        return kept * frequency + (1 - kept) * frequency / scaling["factor"]

    def rope(self, x):
        """x: [batch, sequence, heads, size]; pairs are (i, i + size / 2)."""
        size = x.shape[-1]
        exponent = torch.arange(size // 2, device=x.device, dtype=torch.float64) * (-2.0 / size)
        angle = torch.arange(x.shape[1], device=x.device, dtype=torch.float64)[:, None] * \
            self.scaled(self.m["rope_theta"] ** exponent)[None]
        cosine, sine = (f(angle)[None, :, None].to(torch.float32) for f in (torch.cos, torch.sin))
        low, high = x.float().chunk(2, -1)
        return torch.cat([low * cosine - high * sine, high * cosine + low * sine], -1).to(x.dtype)

    def attention(self, x, name):
        batch, sequence, _ = x.shape
        size = self.m["head_size"]
        q, k, v = (self.linear(x, f"{name}.{part}", self.m["attention_bias"])
                   .view(batch, sequence, -1, size) for part in "qkv")
        if self.m["positions"] == "rotary":
            q, k = self.rope(q), self.rope(k)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        groups = q.shape[1] // k.shape[1]
        k, v = (t.repeat_interleave(groups, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.m["causal"])
        y = y.transpose(1, 2).reshape(batch, sequence, -1)
        return self.linear(y, f"{name}.o", self.m["output_bias"])

    def gelu(self, x):
        return F.gelu(x, approximate="none" if self.m["exact_gelu"] else "tanh")

    def mlp(self, x, name):
        bias = self.m["mlp_bias"]
        if self.m["mlp"] == "gelu":
            return self.linear(self.gelu(self.linear(x, f"{name}.up", bias)), f"{name}.down", bias)
        gate = F.silu(self.linear(x, f"{name}.gate", bias))
        return self.linear(gate * self.linear(x, f"{name}.up", bias), f"{name}.down", bias)

    def embed(self, tokens, dtype):
        x = self.w["embedding.weight"][tokens].to(dtype)
        if self.m["positions"] == "learned":
            x = x + self.w["positions.weight"][:tokens.shape[1]].to(dtype)
        if self.m["token_types"] > 0:
            x = x + self.w["token_types.weight"][0].to(dtype)
        return self.norm(x, "embedding.norm") if self.m["embedding_norm"] else x

    def block(self, x, name):
        for part, act in (("attention", self.attention), ("mlp", self.mlp)):
            if self.m["post_norm"]:
                x = self.norm(x + act(x, f"{name}.{part}"), f"{name}.{part}.norm")
            else:
                x = x + act(self.norm(x, f"{name}.{part}.norm"), f"{name}.{part}")
        return x

    def logits(self, x):
        if not self.m["post_norm"]:
            x = self.norm(x, "final.norm")
        if self.m["head_transform"]:
            x = self.norm(self.gelu(self.linear(x, "transform", True)), "transform.norm")
        head = self.w["embedding.weight" if self.m["tied_embeddings"] else "head.weight"]
        logits = x @ head.t().to(x.dtype)
        return logits + self.w["head.bias"].to(x.dtype) if self.m["head_bias"] else logits

    def loss(self, tokens, labels, dtype):
        x = self.embed(tokens, dtype)
        for layer in range(1, self.m["layers"] + 1):
            x = self.block(x, f"layer{layer}")
        logits = self.logits(x)
        wide = logits if dtype == torch.float64 else logits.float()
        return F.cross_entropy(wide.flatten(0, 1), labels.flatten())


def decays(name):
    """As the models say: matrices do, norms and biases do not."""
    return not (name.endswith(".bias") or ".norm." in name)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("exchange")
    parser.add_argument("--dtype", choices=["f64", "f32", "bf16", "f16"], default="f32")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--learning-rate", type=float, default=3e-4)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    dtype = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16,
             "f16": torch.float16}[arguments.dtype]
    with open(arguments.model, encoding="utf-8") as file:
        model = json.load(file)
    weights = load_file(f"{arguments.exchange}/weights.safetensors", device=arguments.device)
    if dtype == torch.float64:
        weights = {name: value.double() for name, value in weights.items()}
    for value in weights.values():
        value.requires_grad_(True)
    samples = load_file(f"{arguments.exchange}/samples.safetensors", device=arguments.device)
    tokens, labels = samples["tokens"].long(), samples["labels"].long()
    optimizer = torch.optim.AdamW(
        [{"params": [v for n, v in weights.items() if decays(n)], "weight_decay": 0.1},
         {"params": [v for n, v in weights.items() if not decays(n)], "weight_decay": 0.0}],
        lr=arguments.learning_rate, betas=(0.9, 0.95), eps=1e-8)
    transformer = Transformer(model, weights)
    with open(arguments.out, "w", encoding="utf-8") as file:
        for step in range(tokens.shape[0]):
            optimizer.zero_grad(set_to_none=True)
            loss = transformer.loss(tokens[step], labels[step], dtype)
            loss.backward()
            optimizer.step()
            file.write(json.dumps({"step": step, "loss": loss.item()}) + "\n")


if __name__ == "__main__":
    main()
