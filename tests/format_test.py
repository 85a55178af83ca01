"""clang-format has nothing to change. Skipped where clang-format 14 is missing: others differ."""

import re
import shutil
import subprocess
import sys

from support.project_files import ROOT, SKIPPED, project_files

VERSION = "14"


def formatter():
    for name in (f"clang-format-{VERSION}", "clang-format"):
        if shutil.which(name):
            text = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(rf"version {VERSION}\.", text):
                return name
    return None


def main():
    name = formatter()
    if name is None:
        print(f"skipped: no clang-format {VERSION} here")
        return SKIPPED
    files = project_files(".h", ".cpp", ".cu", ".cuh")
    result = subprocess.run(
        [name, "--dry-run", "-Werror", "--ferror-limit=3", *files],
        cwd=ROOT, capture_output=True, text=True)
    if result.returncode != 0:
        print(result.stderr)
        print("tools/format.sh formats what you changed")
        return 1
    print(f"{len(files)} files are formatted")
    return 0


sys.exit(main())
