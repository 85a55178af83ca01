"""Every header compiles on its own, twice in one file, under the warnings of the build.

Two thirds of that were standard headers, parsed anew for each of ours: they are compiled once, in front of all. What
a header uses of them it must include itself, which its text shows (support/standard_names.py).

A header that another one includes is compiled in front of that one, in the same run: it stands alone there, and
the other one sees nothing that it does not include. Such chains take two thirds of the runs that headers would.

usage: self_contained_headers_test.py --scratch FOLDER [--skip FOLDER]... -- COMPILER [ARGUMENT...]
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from support.project_files import ROOT, project_files
from support.standard_names import missing_includes

# What most headers include. More would take longer to load than it saves.
PRECOMPILED = ("array", "cstddef", "cstdint", "functional", "map", "memory", "optional", "set", "span", "string",
               "string_view", "utility", "vector", "fmt/core.h")


PROJECT_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)


def complaint_about_text(header):
    """Names of the standard library that `header` uses and includes nothing for."""
    return "\n".join(
        f"{header} uses {name} and does not include " + " or ".join(f"<{wanted}>" for wanted in headers)
        if headers else f"{header} uses {name}, which support/standard_names.py does not know"
        for name, headers in missing_includes((ROOT / header).read_text(encoding="utf-8")))


def included_by(headers):
    """{header: all of `headers` that it includes, directly or through others}."""
    known = set(headers)
    direct = {header: known.intersection(PROJECT_INCLUDE.findall((ROOT / header).read_text(encoding="utf-8")))
              for header in headers}
    closures = {}

    def closure(header):
        if header not in closures:
            closures[header] = set()  # Headers that include each other end here.
            for other in direct[header]:
                closures[header] |= {other} | closure(other)
        return closures[header]

    return {header: closure(header) - {header} for header in headers}


def chains_of(headers):
    """Lists that hold every header once, each header behind one that it includes."""
    included = included_by(headers)
    by_size = sorted(headers, key=lambda header: (-len(included[header]), header))
    left = set(headers)
    for top in by_size:
        if top not in left:
            continue
        chain = [top]
        left.remove(top)
        # What a header includes comes behind it here, so one pass finds all links.
        for header in by_size:
            if header in left and header in included[chain[-1]]:
                chain.append(header)
                left.remove(header)
        yield chain[::-1]


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

    def complaint_alone(self, header):
        """What text and compiler say against `header`, or "" where both are content."""
        return complaint_about_text(header) or self.complaint_about_code([header])

    def complaint_about_code(self, chain):
        """What the compiler says against headers of which each includes the one before it."""
        source = self.scratch / (str(chain[-1]).strip("/").replace("/", "__") + ".cpp")
        source.write_text("".join(f'#include "{header}"\n#include "{header}"\n' for header in chain), encoding="utf-8")
        result = self.run("-include", self.standard, "-Winvalid-pch", "-fsyntax-only", source)
        return "" if result.returncode == 0 else f"{', '.join(map(str, chain))}:\n{result.stderr}"

    def accepted_of_planted(self):
        """Headers that lack what they need, and are accepted all the same."""
        for name, text in (("standard", "std::vector<int> f();"),
                           ("project", "namespace sextant { Shape f(); }"),
                           ("unknown", "std::made_up f();")):
            planted = self.scratch / f"planted_{name}.h"
            planted.write_text(f"#pragma once\n{text}\n", encoding="utf-8")
            if not self.complaint_alone(planted):
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
    chains = list(chains_of(headers))
    if sorted(header for chain in chains for header in chain) != sorted(headers):
        print("the chains do not hold every header once")
        return 1
    failures = [text for text in map(complaint_about_text, headers) if text]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures += [text for text in pool.map(compiler.complaint_about_code, chains) if text]
    print("\n".join(failures) or f"{len(headers)} headers compile alone, in {len(chains)} runs")
    if skipped:
        print("left out here: " + ", ".join(skipped))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
