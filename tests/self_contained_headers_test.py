"""Every header compiles on its own, twice in one file, under the warnings of the build.

Two thirds of that were standard headers, parsed anew for each of ours: they are compiled once, in front of all. What
a header uses of them it must include itself, which its text shows (support/standard_names.py).

usage: self_contained_headers_test.py --scratch FOLDER [--skip FOLDER]... -- COMPILER [ARGUMENT...]
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

from support.project_files import ROOT, project_files
from support.standard_names import missing_includes

# What most headers include. More would take longer to load than it saves.
PRECOMPILED = ("array", "cstddef", "cstdint", "functional", "map", "memory", "optional", "set", "span", "string",
               "string_view", "utility", "vector", "fmt/core.h")


class Compiler:
    def __init__(self, command, scratch):
        self.command = command
        self.scratch = pathlib.Path(scratch)
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.standard = self.scratch / "standard.h"
        self.standard.write_text(
            "".join(f"#include <{name}>\n" for name in PRECOMPILED),
            encoding="utf-8")
        self.run("-x", "c++-header", self.standard, "-o", str(self.standard) + ".gch").check_returncode()

    def run(self, *arguments):
        return subprocess.run([*self.command, "-I.", "-O0", *arguments], cwd=ROOT, capture_output=True, text=True)

    def complaint(self, header):
        """What text and compiler say against `header`, or "" where both are content."""
        missing = missing_includes((ROOT / header).read_text(encoding="utf-8"))
        if missing:
            return "\n".join(
                f"{header} uses {name} and does not include " + " or ".join(f"<{wanted}>" for wanted in headers)
                if headers else f"{header} uses {name}, which support/standard_names.py does not know"
                for name, headers in missing)
        source = self.scratch / (str(header).strip("/").replace("/", "__") + ".cpp")
        source.write_text(f'#include "{header}"\n#include "{header}"\n', encoding="utf-8")
        result = self.run("-include", self.standard, "-Winvalid-pch", "-fsyntax-only", source)
        return "" if result.returncode == 0 else f"{header} alone:\n{result.stderr}"

    def accepted_of_planted(self):
        """Headers that lack what they need, and are accepted all the same."""
        for name, text in (("standard", "std::vector<int> f();"),
                           ("project", "namespace sextant { Shape f(); }"),
                           ("unknown", "std::made_up f();")):
            planted = self.scratch / f"planted_{name}.h"
            planted.write_text(f"#pragma once\n{text}\n", encoding="utf-8")
            if not self.complaint(planted):
                yield name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    compiler = Compiler(arguments.command, arguments.scratch)
    accepted = list(compiler.accepted_of_planted())
    if accepted:
        print("planted headers were accepted, this test cannot fail: " + ", ".join(accepted))
        return 1

    skipped = tuple(folder.rstrip("/") + "/" for folder in arguments.skip)
    headers = [path for path in project_files(".h") if not path.startswith(skipped)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = [text for text in pool.map(compiler.complaint, headers) if text]
    print("\n".join(failures) or f"{len(headers)} headers compile alone")
    if skipped:
        print("left out here: " + ", ".join(skipped))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
