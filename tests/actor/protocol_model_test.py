"""Checks the model of the protocol (protocol.pml) with spin: no error as it is, and one with each of the bugs that it has
by name. Skipped (exit 77) where spin or a C compiler is missing. SEXTANT_LONG takes more registers and contents."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BUGS = ["LOST_REQ", "LOST_ACK", "DOUBLE_ACK", "EARLY_ACK", "WRONG_CREDIT", "CREDIT_OF_ONE_READER", "NO_INPUT", "EARLY_STOP", "LOST_STOP", "NO_DRAIN"]
MODEL = pathlib.Path(__file__).resolve().parent / "protocol.pml"


def check(definitions, compiler):
    """Whether spin finds an error, and how many states it saw."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"-D{name}" for name in definitions]
        subprocess.run(["spin", *names, "-a", str(MODEL)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        subprocess.run([compiler, "-w", "-O0", "-DSAFETY", "-DMEMLIM=2048", "-o", "pan", "pan.c"], cwd=folder, check=True)
        text = subprocess.run(["./pan", "-m100000"], cwd=folder, check=True, capture_output=True, text=True).stdout
    errors = re.search(r"errors: (\d+)", text)
    states = re.search(r"(\d+) states, stored", text)
    if errors is None or states is None or "max search depth too small" in text or "out of memory" in text:
        sys.exit(f"spin has not looked at all states with {definitions}:\n{text}")
    return int(errors[1]) > 0, int(states[1])


def main():
    compiler = shutil.which("cc") or shutil.which("gcc")
    if shutil.which("spin") is None or compiler is None:
        print("skipped: no spin, or no C compiler")
        return 77
    named = set(re.findall(r"#ifn?def ([A-Z_]+)", MODEL.read_text())) - {"REGISTERS", "ITEMS"}
    if named != set(BUGS):
        sys.exit(f"bugs of the model and of this test differ: {named ^ set(BUGS)}")
    sizes = [(1, 3), (2, 3), (3, 3)]
    if "SEXTANT_LONG" in os.environ:
        sizes += [(2, 8), (3, 6), (4, 6)]
    for registers, items in sizes:
        has_error, states = check([f"REGISTERS={registers}", f"ITEMS={items}"], compiler)
        print(f"{registers} registers, {items} contents: {states} states")
        if has_error:
            sys.exit("spin finds an error in the protocol")
    for bug in BUGS:
        has_error, states = check([bug], compiler)
        print(f"{bug}: {'found' if has_error else 'NOT FOUND'} in {states} states")
        if not has_error:
            sys.exit(f"spin does not find {bug}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
