"""Every header compiles on its own, twice in one file, under the warnings of the build.

Most of that time would go into what headers include, parsed anew for each. So a run begins behind a base that is
compiled once: the standard headers, and for headers that include them, directly or through others, some of the large
ones of the project. What a header uses of the standard library it must include itself, which its text shows
(support/standard_names.py); of the project, a base holds nothing that the header does not include.

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

# Each is a base for the headers that include it; of several the last counts.
BASES = ("core/graphs/logical_graph.h", "core/graphs/physical_graph.h", "actor/protocol/program_tables.h", "search/search/search.h")

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


def by_base(included):
    """{base, or None: the headers that are compiled behind it}: the last of BASES that a header includes."""
    groups = {base: [] for base in (None, *BASES)}
    for header, others in included.items():
        groups[next((base for base in reversed(BASES) if base in others), None)].append(header)
    return groups


def chains_of(headers, included):
    """Lists that hold every one of `headers` once, each behind one that it includes."""
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
        self.bases = {base: self.precompiled(base) for base in (None, *BASES)}

    def precompiled(self, base):
        """The file that stands for the standard headers and `base`."""
        path = self.scratch / ("standard.h" if base is None else base.replace("/", "__"))
        path.write_text("".join(f"#include <{name}>\n" for name in PRECOMPILED)
                        + ("" if base is None else f'#include "{base}"\n'), encoding="utf-8")
        self.run("-x", "c++-header", path, "-o", str(path) + ".gch").check_returncode()
        return path

    def run(self, *arguments):
        return subprocess.run([*self.command, "-I.", "-O0", *arguments], cwd=ROOT, capture_output=True, text=True)

    def complaint_alone(self, header):
        """What text and compiler say against `header`, or "" where both are content."""
        return complaint_about_text(header) or self.complaint_about_code([header], None)

    def complaint_about_code(self, chain, base):
        """What the compiler says behind `base` against headers of which each includes the one before it."""
        source = self.scratch / (str(chain[-1]).strip("/").replace("/", "__") + ".cpp")
        source.write_text("".join(f'#include "{header}"\n#include "{header}"\n' for header in chain), encoding="utf-8")
        result = self.run("-include", self.bases[base], "-Winvalid-pch", "-fsyntax-only", source)
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
    included = included_by(headers)
    runs = [(chain, base) for base, group in by_base(included).items() for chain in chains_of(group, included)]
    if sorted(header for chain, _ in runs for header in chain) != sorted(headers):
        print("the chains do not hold every header once")
        return 1
    failures = [text for text in map(complaint_about_text, headers) if text]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failures += [text for text in pool.map(lambda run: compiler.complaint_about_code(*run), runs) if text]
    print("\n".join(failures) or f"{len(headers)} headers compile alone, in {len(runs)} runs")
    if skipped:
        print("left out here: " + ", ".join(skipped))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
