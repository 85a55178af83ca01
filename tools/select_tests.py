"""Prints `ninja target <TAB> test name` for the compiled tests of a build folder.

usage: select_tests.py BUILD [PROGRAM...]   all programs when none is named; style tests never.
"""

import json
import os
import subprocess
import sys


def main():
    build, programs = sys.argv[1], set(sys.argv[2:])
    tests = json.loads(
        subprocess.run(
            ["meson", "introspect", build, "--tests"], check=True, capture_output=True, text=True
        ).stdout
    )
    root = os.path.realpath(build)
    found = set()
    for test in tests:
        target = os.path.relpath(os.path.realpath(test["cmd"][0]), root)
        if target.startswith(".."):
            continue  # an interpreter: the test is a script
        if not programs or os.path.basename(target) in programs:
            found.add(os.path.basename(target))
            print(f"{target}\t{test['name']}")
    if programs - found:
        sys.exit("select_tests.py: no such test program: " + ", ".join(sorted(programs - found)))


main()
