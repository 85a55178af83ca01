#!/usr/bin/env python3
"""Whether the plan that `search` ranks first is the fastest: its first plans and the last ones of its list are run on this machine, predicted
beside measured, on a cluster file that `cluster bench` writes here.

usage: tools/measured_plans.py --sextant build/cli/sextant --job MODEL:GLOBAL_BATCH [--job ...] [--backend cpu|cuda] [--gpus 0,1]
       [--cluster FILE] [--first 3] [--last 2] [--steps 25] [--out DIR]

Exit code 1 where a first plan is more than 2 % slower than the fastest of those that were run, or a plan is not predicted within
8 %; 2 where a command failed.
"""

import argparse
import json
import pathlib
import subprocess
import sys

SLOWER, OFF = 0.02, 0.08


def parsed_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sextant", required=True, type=pathlib.Path)
    parser.add_argument("--job", required=True, action="append", help="model and samples of a step over all devices, MODEL:BATCH")
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--gpus", default="0,1", help="of --backend cuda")
    parser.add_argument("--cluster", help="that was measured here (default: it is measured now)")
    parser.add_argument("--first", type=int, default=3)
    parser.add_argument("--last", type=int, default=2)
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/measured-plans"))
    return parser.parse_args()


class Machine:
    def __init__(self, arguments):
        self.program = str(arguments.sextant.resolve())
        self.on_cards = arguments.backend == "cuda"
        self.devices = ["--gpus", arguments.gpus] if self.on_cards else []
        self.backend = ["--backend", arguments.backend]
        self.steps = arguments.steps
        self.out = arguments.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.cluster = arguments.cluster or self.bench()

    def call(self, *words):
        """What the verb says with --json; the end of the script where it fails."""
        done = subprocess.run([self.program, *map(str, words), "--json"], capture_output=True, text=True, check=False)
        if done.returncode:
            print(" ".join(map(str, words)) + f": exit code {done.returncode}\n{done.stderr[-2000:]}", file=sys.stderr)
            sys.exit(2)
        return json.loads(done.stdout)

    def bench(self):
        file = self.out / "cluster.json"
        self.call("cluster", "bench", *self.backend, *self.devices, "-o", file, "--overwrite")
        return file

    def plans(self, model, batch):
        """Of the list that `search` shows, best first."""
        return self.call("search", model, "-c", self.cluster, "--global-batch", batch, "--top", 20)["plans"]

    def measured(self, model, batch, strategy, folder):
        """Median seconds of a step, and its quartiles."""
        run = self.call("run", model, "-c", self.cluster, "--global-batch", batch, "--strategy", strategy, *self.backend, *self.devices,
                        "--data", "random", "--steps", self.steps, "--out", folder, "--overwrite")
        return run["step_time_s"], run["step_time_quartiles_s"]


def judged(machine, job, first, last):
    """Prints a table; whether the first plan is the fastest and all are predicted."""
    model, _, batch = job.rpartition(":")
    plans = machine.plans(model, batch)
    chosen = plans[:first] + plans[max(first, len(plans) - last):]
    print(f"{job}: {len(chosen)} of {len(plans)} plans\n{'predicted':>10} {'measured':>10}  {'quartiles':>17} {'error':>7}  strategy")
    times, errors = [], []
    for number, plan in enumerate(chosen):
        folder = machine.out / f"{pathlib.Path(model).stem}-{batch}-{number}"
        seconds, (low, high) = machine.measured(model, batch, plan["strategy"], folder)
        times.append(seconds)
        errors.append(plan["step_time_s"] / seconds - 1)
        print(f"{1e3 * plan['step_time_s']:7.2f} ms {1e3 * seconds:7.2f} ms  {1e3 * low:8.2f}-{1e3 * high:8.2f} {100 * errors[-1]:+6.1f}%"
              f"  {plan['strategy']}", flush=True)
    slower = times[0] / min(times) - 1
    print(f"the first is {100 * slower:.1f} % slower than the fastest of these; largest error {100 * max(map(abs, errors)):.1f} %")
    return slower <= SLOWER and max(map(abs, errors)) <= OFF


def main():
    arguments = parsed_arguments()
    machine = Machine(arguments)
    good = [judged(machine, job, arguments.first, arguments.last) for job in arguments.job]
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
