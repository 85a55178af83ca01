#!/usr/bin/env python3
"""Rates of products of PyTorch on a GPU, in bf16 and in 8 bits through torch._scaled_mm.

usage: torch_scaled_mm.py [--sizes 8192x3072x8192,...] [--seconds 1.0] [--quantize]

A size is MxNxK: y[M, N] = a[M, K] b[N, K]^T, with both factors contiguous along K, the only order that Hopper takes
8 bits in. Every variant runs for --seconds in a row, long enough for the power limit of the card to show, and counts
from its second tenth on. Variants: bf16; e4m3 by e4m3 with fast sums (forward products) and without; e5m2 by e4m3 without
(gradients), into bf16, and e4m3 by e5m2 into f32 (gradients of weights). --quantize also times what makes the
operands of a [M, K] in bf16 as eager PyTorch writes it: largest magnitude, scale, e4m3 in both orders.
The last line is one JSON object: per size TFLOP/s of each variant, and seconds per call of the passes.
"""

import argparse
import json
import sys
import time

import torch

# Forward, input gradient and weight gradient of the layers of llama:hidden=3072,kv_heads=8,heads=24,ffn=8192 with 4
# samples of 2,048 tokens, behind four sizes that tell the power limit.
SIZES = ("16384x8192x2048,16384x1024x4096,8192x3072x8192,8192x8192x8192,"
         "8192x3072x3072,8192x1024x3072,8192x8192x3072,3072x3072x8192,3072x1024x8192,3072x8192x8192")
LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}


def parsed_sizes(text):
    sizes = []
    for size in text.split(","):
        extents = size.split("x")
        if len(extents) != 3 or not all(extent.isdigit() and int(extent) > 0 and int(extent) % 16 == 0 for extent in extents):
            sys.exit(f"torch_scaled_mm.py: '{size}' is no MxNxK of multiples of 16")
        sizes.append(tuple(map(int, extents)))
    return sizes


def quantized(x, dtype):
    """x in 8 bits and, in f32 on the device, what a stored 1 stands for: a power of two."""
    scale = torch.exp2(torch.ceil(torch.log2(x.abs().amax().float() / LARGEST[dtype])))
    return (x.float() / scale).clamp(-LARGEST[dtype], LARGEST[dtype]).to(dtype), scale


def seconds_per_call(call, seconds):
    """Mean over `seconds` of calls in a row, without the first tenth."""
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    call()
    torch.cuda.synchronize()
    calls = max(10, int(seconds / max(time.perf_counter() - begin, 1e-6)))
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for index in range(calls):
        if index == calls // 10:
            first.record()
        call()
    last.record()
    torch.cuda.synchronize()
    return first.elapsed_time(last) / 1e3 / (calls - calls // 10)


def variants(a, b):
    """Names of products and calls that make them."""
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    (a4, a4_scale), (b4, b4_scale), (a5, a5_scale) = quantized(a, e4m3), quantized(b, e4m3), quantized(a, e5m2)

    def scaled(x, x_scale, y, y_scale, out, fast):
        return lambda: torch._scaled_mm(x, y.t(), scale_a=x_scale, scale_b=y_scale, out_dtype=out, use_fast_accum=fast)

    b5, b5_scale = quantized(b, e5m2)
    return {
        "bf16": lambda: torch.mm(a, b.t()),
        "e4m3 e4m3 bf16 fast": scaled(a4, a4_scale, b4, b4_scale, torch.bfloat16, True),
        "e4m3 e4m3 bf16": scaled(a4, a4_scale, b4, b4_scale, torch.bfloat16, False),
        "e5m2 e4m3 bf16": scaled(a5, a5_scale, b4, b4_scale, torch.bfloat16, False),
        "e4m3 e5m2 f32": scaled(a4, a4_scale, b5, b5_scale, torch.float32, False),
    }


def both_orders(x):
    rows, scale = quantized(x, torch.float8_e4m3fn)
    return rows, rows.t().contiguous(), scale


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=SIZES, type=parsed_sizes)
    parser.add_argument("--seconds", default=1.0, type=float)
    parser.add_argument("--quantize", action="store_true")
    arguments = parser.parse_args()
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (8, 9):
        sys.exit("torch_scaled_mm.py: no GPU with products of 8 bits (compute capability 8.9 or more)")
    torch.manual_seed(1)
    rows = []
    for m, n, k in arguments.sizes:
        a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * 0.02
        row = {"size": f"{m}x{n}x{k}"}
        for name, call in variants(a, b).items():
            row[name] = round(2 * m * n * k / seconds_per_call(call, arguments.seconds) / 1e12, 1)
        if arguments.quantize:
            row["quantize_s"] = seconds_per_call(lambda: both_orders(a), arguments.seconds / 4)
            row["quantize_compiled_s"] = seconds_per_call(torch.compile(lambda: both_orders(a)), arguments.seconds / 4)
        rows.append(row)
        print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "tflops": rows}))


if __name__ == "__main__":
    main()
