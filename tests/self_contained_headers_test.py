"""Every header compiles on its own, twice in one file, under the warnings of the build.

usage: self_contained_headers_test.py --scratch FOLDER [--skip FOLDER]... -- COMPILER [ARGUMENT...]
"""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

from support.project_files import ROOT, project_files


class Compiler:
    def __init__(self, command, scratch):
        # Without its cache this is the slowest of the style tests.
        self.command = ["ccache", *command] if shutil.which("ccache") else command
        self.scratch = pathlib.Path(scratch)
        self.scratch.mkdir(parents=True, exist_ok=True)
        self.environment = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", **os.environ}

    def complaint(self, header):
        """What the compiler says about `header`, or "" where it is content."""
        stem = str(header).strip("/").replace("/", "__")
        source = self.scratch / (stem + ".cpp")
        source.write_text(f'#include "{header}"\n#include "{header}"\n', encoding="utf-8")
        result = subprocess.run(
            [*self.command, "-I.", "-O0", "-c", source, "-o", source.with_suffix(".o")],
            cwd=ROOT, env=self.environment, capture_output=True, text=True)
        return "" if result.returncode == 0 else f"{header} alone:\n{result.stderr}"

    def accepts_a_header_that_lacks_an_include(self):
        planted = self.scratch / "planted.h"
        planted.write_text("#pragma once\nstd::vector<int> f();\n", encoding="utf-8")
        return not self.complaint(planted)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--scratch", required=True)
    parser.add_argument("--skip", action="append", default=[])
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()

    compiler = Compiler(arguments.command, arguments.scratch)
    if compiler.accepts_a_header_that_lacks_an_include():
        print("a header that lacks an include was accepted: this test cannot fail")
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
