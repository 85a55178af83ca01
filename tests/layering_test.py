"""The architecture as a table: which folder may include which, and what may appear where.

Prints `file:line: rule` for every violation. Changing MAY_INCLUDE is an architectural change.
The test first proves that each rule can fail, on planted violations.
"""

import pathlib
import re
import sys

from support.project_files import ROOT, project_files

MAY_INCLUDE = {
    "core": [],
    "models": ["core"],
    "io": ["core"],
    "sbp": ["core"],
    "actor": ["core"],
    "compiler": ["core", "sbp", "actor"],
    "backends/cpu": ["core", "actor"],
    "backends/cuda": ["core", "actor"],
    "backends/hosts": ["core", "actor"],
    "simulator": ["core", "actor"],
    "search": ["core", "sbp", "actor", "compiler", "simulator"],
    "experiments": [
        "core", "models", "io", "sbp", "actor", "compiler", "backends/cpu", "backends/cuda",
        "backends/hosts", "simulator", "search",
    ],
    "cli": [
        "core", "models", "io", "sbp", "actor", "compiler", "backends/cpu", "backends/cuda",
        "backends/hosts", "simulator", "search", "experiments",
    ],
    "tests": [
        "core", "models", "io", "sbp", "actor", "compiler", "backends/cpu", "backends/cuda",
        "backends/hosts", "simulator", "search", "experiments", "cli",
    ],
}

# Only a device knows how time passes; programs and tests may time themselves.
MAY_READ_A_CLOCK = ["backends/cpu", "backends/cuda", "backends/hosts", "cli", "experiments", "tests"]
CLOCK = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|utc_clock|clock_gettime|gettimeofday"
    r"|timespec_get|std::time\s*\(|std::clock\s*\(|cudaEvent\w+|__rdtsc|sleep_for|sleep_until)"
)

# Expensive to compile, so they stay behind plain headers.
NOT_IN_HEADERS = re.compile(r"^(boost/.*|nlohmann/json\.hpp|CLI/.*|mpi\.h)$")
# nvcc fails on them or takes 20 s.
NOT_UNDER_NVCC = re.compile(r"^(boost/.*|nlohmann/.*|fmt/.*|CLI/.*)$")

HEADERS = {".h", ".cuh"}
SOURCES = (".h", ".cuh", ".cpp", ".cu")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def folder_of(path):
    """The longest folder of the table that holds `path`, or None."""
    parts = path.split("/")
    for length in (2, 1):
        folder = "/".join(parts[:length])
        if len(parts) > length and folder in MAY_INCLUDE:
            return folder
    return None


def includes_of(text):
    """(line number, quote, target) of each include; those inside comments do not count."""
    without_blocks = re.sub(
        r"/\*.*?\*/", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(without_blocks.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(1), match.group(2)


def code_lines(text):
    """The lines without comments and string literals, so that prose may name what code may not."""
    blanked = COMMENT_OR_STRING.sub(lambda match: "\n" * match.group().count("\n"), text)
    return enumerate(blanked.splitlines(), 1)


def reached_from(path, files, seen=None):
    """Every third-party include that compiling `path` meets: (chain of files, target)."""
    seen = {path} if seen is None else seen
    for _, quote, target in includes_of(files[path]):
        if quote == "<":
            yield [path], target
        elif target in files and target not in seen:
            seen.add(target)
            for chain, found in reached_from(target, files, seen):
                yield [path] + chain, found


def violations(files):
    """All violations in `files`, a mapping from path to text: (path, line, rule)."""
    found = []
    for path, text in sorted(files.items()):
        folder = folder_of(path)
        suffix = pathlib.PurePosixPath(path).suffix
        if folder is None:
            found.append((path, 1, "source outside the folders of the architecture"))
            continue
        for line, quote, target in includes_of(text):
            if quote == '"':
                if target not in files:
                    found.append((path, line, f'"{target}" is no file of the project: include '
                                  "paths start at the root, third-party headers take <>"))
                    continue
                other = folder_of(target)
                if other != folder and other not in MAY_INCLUDE[folder]:
                    allowed = ", ".join(MAY_INCLUDE[folder]) or "nothing"
                    found.append((path, line, f"{folder} may not include {other} "
                                  f"(may include: {allowed})"))
            elif target in files:
                found.append((path, line, f"<{target}> is a file of the project: write quotes"))
            elif suffix in HEADERS and NOT_IN_HEADERS.match(target):
                found.append((path, line, f"<{target}> in a header: keep it in a .cpp "
                              "(nlohmann/json_fwd.hpp is cheap)"))
        if suffix == ".cu":
            first_lines = {target: line for line, _, target in includes_of(text)}
            for chain, target in reached_from(path, files):
                if NOT_UNDER_NVCC.match(target):
                    first = chain[1] if len(chain) > 1 else target
                    found.append((path, first_lines[first], f"<{target}> under nvcc, through "
                                  + " -> ".join(chain)))
        if folder not in MAY_READ_A_CLOCK:
            for line, code in code_lines(text):
                clock = CLOCK.search(code)
                if clock:
                    found.append((path, line, f"{clock.group().strip(' (')} in {folder}: only a "
                                  "device, a program or a test reads a clock or sleeps"))
    return found


PLANTED = [
    ("may not include", {"core/a.h": '#pragma once\n#include "sbp/b.h"\n', "sbp/b.h": ""}, 2),
    ("may not include", {"backends/cpu/a.h": '#include "backends/cuda/b.h"\n',
                         "backends/cuda/b.h": ""}, 1),
    ("may not include", {"experiments/x/a.cpp": '#include "cli/b.h"\n', "cli/b.h": ""}, 1),
    ("is no file of the project", {"core/a.h": '/*\n*/\n#include "b.h"\n', "core/b.h": ""}, 3),
    ("write quotes", {"core/a.h": "#include <core/b.h>\n", "core/b.h": ""}, 1),
    ("in a header", {"core/a.h": "#include <boost/graph/adjacency_list.hpp>\n"}, 1),
    ("in a header", {"tests/support/a.h": "\n#include <nlohmann/json.hpp>\n"}, 2),
    ("under nvcc", {"backends/cuda/k.cu": "#include <span>\n#include <fmt/core.h>\n"}, 2),
    ("under nvcc, through backends/cuda/k.cu -> core/check.h",
     {"backends/cuda/k.cu": '#include "core/check.h"\n',
      "core/check.h": "#include <fmt/core.h>\n"}, 1),
    ("reads a clock", {"actor/a.cpp": "// time\nauto t = std::chrono::steady_clock::now();\n"}, 2),
    ("reads a clock", {"search/a.cpp": "auto t = std::time (nullptr);\n"}, 1),
    ("outside the folders", {"misc/a.cpp": ""}, 1),
    (None, {"actor/a.cpp": "// no steady_clock here\nlog(\"steady_clock\");\n"}, 0),
    (None, {"cli/a.cpp": "steady_clock::now();\n"}, 0),
    (None, {"core/a.h": "#include <nlohmann/json_fwd.hpp>\n"}, 0),
    (None, {"core/a.cpp": "#include <nlohmann/json.hpp>\n"}, 0),
    (None, {"compiler/a.h": '#include "sbp/b.h"\n', "sbp/b.h": "// #include \"cli/c.h\"\n"}, 0),
]


def prove_rules():
    """The planted cases on which a rule stays silent, or speaks where it should not."""
    failures = []
    for rule, files, line in PLANTED:
        found = violations(files)
        expected = rule is not None
        if len(found) != expected or expected and (rule not in found[0][2] or line != found[0][1]):
            failures.append(f"planted {files}: wanted {rule} at line {line}, got {found}")
    return failures


def main():
    failures = prove_rules()
    files = {path: (ROOT / path).read_text(encoding="utf-8") for path in project_files(*SOURCES)}
    failures += [f"{path}:{line}: {rule}" for path, line, rule in violations(files)]
    print("\n".join(failures) or f"{len(files)} files, {len(PLANTED)} planted cases: in order")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
