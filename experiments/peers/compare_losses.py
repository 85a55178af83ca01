#!/usr/bin/env python3
"""Two loss curves (one JSON object with `loss` per line) side by side; exit code 1 where they part."""

import argparse
import json
import math
import sys


def losses(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file if line.strip()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first")
    parser.add_argument("second")
    parser.add_argument("--bound", type=float, required=True, help="largest relative difference of any step")
    arguments = parser.parse_args()
    first, second = losses(arguments.first), losses(arguments.second)
    if not first or len(first) != len(second):
        sys.exit(f"{arguments.first} has {len(first)} losses, {arguments.second} {len(second)}")
    apart = [abs(a - b) / abs(b) if math.isfinite(a) and b else math.inf for a, b in zip(first, second)]
    for step in sorted({0, 1, *range(0, len(first), max(1, len(first) // 10)), len(first) - 1}):
        print(f"step {step:4d}  {first[step]:.6f}  {second[step]:.6f}  {apart[step]:.2e}")
    worst = max(range(len(apart)), key=apart.__getitem__)
    print(f"worst of {len(apart)} steps: {apart[worst]:.2e} at step {worst}, mean {sum(apart) / len(apart):.2e}, "
          f"bound {arguments.bound:g}")
    sys.exit(1 if apart[worst] > arguments.bound else 0)


if __name__ == "__main__":
    main()
