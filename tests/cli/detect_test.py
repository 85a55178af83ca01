"""`sextant cluster detect` on what nvidia-smi said of real and of planted machines.

A program named nvidia-smi stands first in PATH and prints a machine's answers. On a machine with GPUs
and a build with NCCL the library is asked instead, so there the planted ones are left out.

usage: detect_test.py --sextant PROGRAM
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# Two H200 of a host, driver 580.159.04, as printed to a pipe.
QUERY = "NVIDIA H200, 143771, 580.159.04, 00000000:00:06.0\nNVIDIA H200, 143771, 580.159.04, 00000000:00:07.0\n"
MATRIX = (
    "\t\x1b[4mGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\t0-31\t0\t\tN/A\n"
    "GPU1\tNV18\t X \t0-31\t0\t\tN/A\n\nLegend:\n\n  X    = Self\n")
PEERS = " \t\x1b[4mGPU0\tGPU1\t\x1b[0m\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n\nLegend:\n\n  X    = Self\n"

failures = []


def expect(holds, what):
    if not holds:
        failures.append(what)
        print(f"FAILED: {what}", flush=True)


def detect(sextant, folder, query=QUERY, matrix=MATRIX, peers=PEERS, code=0, options=()):
    """Standard output, standard error and exit code on a machine that answers so."""
    for name, text in (("query", query), ("matrix", matrix), ("peers", peers)):
        (folder / name).write_text(text)
    program = folder / "nvidia-smi"
    program.write_text("#!/bin/sh\n"
                       f"cd '{folder}'\n"
                       f"[ {code} = 0 ] || exit {code}\n"
                       'case "$*" in *query-gpu*) cat query ;; *p2p*) cat peers ;; *) cat matrix ;; esac\n')
    program.chmod(0o755)
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
    return subprocess.run([sextant, "cluster", "detect", *options], env=environment, text=True,
                          capture_output=True, timeout=60, check=False)


def check_two_cards(sextant, folder):
    result = detect(sextant, folder)
    expect(result.returncode == 0, f"two H200 are detected: {result.stderr}")
    cluster = json.loads(result.stdout)
    expect((cluster["nodes"], cluster["devices_per_node"]) == (1, 2), "one node of two GPUs")
    expect("H200" in cluster["device"]["name"], f"devices are {cluster['device']['name']}")
    expect(cluster["device"]["memory"] == 143771 << 20 or "140.4 GiB" in str(cluster["device"]["memory"]),
           f"memory as the driver says it, not {cluster['device']['memory']}")
    bandwidth = cluster["intra_node"]["bandwidth"]
    expect(bandwidth["value"] == 450e9, f"18 NVLinks of 25 GB/s, not {bandwidth}")
    expect(bandwidth["provenance"] == "assumed", "the table says no speed")
    expect("580.159.04" in result.stderr and "nothing is measured" in result.stderr, result.stderr)
    expect("cannot read" not in result.stderr, "both cards reach each other")


def check_file_plans(sextant, folder):
    path = folder / "here.json"
    detect(sextant, folder, options=["-o", str(path)])
    simulated = subprocess.run(
        [sextant, "simulate", "gpt2-medium", "-c", str(path), "--strategy", "dp=2 micro_batch=16",
         "--global-batch", "32", "--json"], text=True, capture_output=True, timeout=120, check=False)
    expect(simulated.returncode == 0, f"the file is a cluster to plan on: {simulated.stderr[-300:]}")
    expect(json.loads(simulated.stdout)["step_time_s"] > 0.01, "a step takes time")


def check_search_ranks_in_time(sextant, folder):
    """Where kernels and communications slow each other, near plans are ranked with that."""
    path, out = folder / "slow.json", folder / "found"
    detect(sextant, folder, options=["-o", str(path)])
    search = [sextant, "search", "gpt2-124m", "-c", str(path), "--global-batch", "16", "--json",
              "--out", str(out), "--overwrite"]

    def found():
        result = subprocess.run(search, text=True, capture_output=True, timeout=120, check=False)
        expect(result.returncode == 0, f"the search ends: {result.stderr[-300:]}")
        return json.loads(result.stdout)

    expect("timed" not in found(), "nobody slows anybody in a detected cluster")
    cluster = json.loads(path.read_text())
    for key, share in (("compute_beside_communication", 0.6), ("communication_beside_compute", 0.5)):
        cluster["device"][key] = {"value": share, "provenance": "measured", "source": "planted"}
    path.write_text(json.dumps(cluster))
    document = found()
    timed = document["timed"]
    seconds = [one["timed_step_time_s"] for one in timed]
    expect(len(timed) > 1 and seconds == sorted(seconds), f"near plans by timed mode: {timed}")
    expect(all(one["timed_step_time_s"] >= one["step_time_s"] for one in timed), f"slower: {timed}")
    plan = json.loads((out / "plan.json").read_text())
    expect(timed[0]["strategy"] == plan["strategy"], f"{plan['strategy']} is not {timed[0]}")
    simulated = subprocess.run([sextant, "simulate", str(out / "plan.json"), "--mode", "timed", "--json"],
                               text=True, capture_output=True, timeout=120, check=False)
    expect(abs(json.loads(simulated.stdout)["step_time_s"] - seconds[0]) < 1e-9,
           "the same time as `simulate --mode timed` says of the plan")


def check_refusals(sextant, folder):
    nothing = detect(sextant, folder, code=9)
    expect(nothing.returncode == 5 and "no GPU" in nothing.stderr, f"no driver: {nothing.stderr}")
    expect("--backend cpu" in nothing.stderr, "what measures a machine without a GPU is named")
    mixed = detect(sextant, folder, query=QUERY.replace("H200", "H100", 1))
    expect(mixed.returncode == 5 and "two kinds" in mixed.stderr, f"two kinds: {mixed.stderr}")
    garbage = detect(sextant, folder, query="no devices were found\n")
    expect(garbage.returncode == 5 and "no devices were found" in garbage.stderr, garbage.stderr)
    fewer = detect(sextant, folder, query=QUERY.split("\n")[0] + "\n")
    expect(fewer.returncode == 5 and "1 GPU" in fewer.stderr, f"one of two: {fewer.stderr}")
    apart = detect(sextant, folder, peers=PEERS.replace("OK", "CNS"))
    expect("GPU0 and GPU1 (CNS) cannot read" in apart.stderr, f"no peer access: {apart.stderr}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sextant", required=True)
    sextant = parser.parse_args().sextant
    if pathlib.Path("/dev/nvidia0").exists():
        result = subprocess.run([sextant, "cluster", "detect"], text=True, capture_output=True,
                                timeout=120, check=False)
        expect(result.returncode == 0, f"this machine is detected: {result.stderr}")
    else:
        with tempfile.TemporaryDirectory() as folder:
            for check in (check_two_cards, check_file_plans, check_search_ranks_in_time,
                          check_refusals):
                check(sextant, pathlib.Path(folder))
    print("FAILED" if failures else "ok")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
