"""The architecture as two tables: which folder may include which, which room of a folder which, and what may appear where.

Prints `file:line: rule`, or `folder: rule`, for every violation. Changing a table is an architectural change.
The test first proves that each rule can fail, on planted violations.
"""

import collections
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

# Rooms inside a folder, "" for the files that stand in the folder itself: which may include which of the same folder. Rooms are
# listed behind those that they may include. Each has a README with a line "May include: ...", which says the same.
ROOMS = {
    "actor": {
        "calls": [],
        "hosts": [],
        "protocol": [],
        "tapes": ["protocol"],
        "bus": ["hosts", "protocol"],
        "": ["bus", "calls", "hosts", "protocol", "tapes"],
        "bytes": ["", "calls", "protocol"],
        "proof": ["bytes", "protocol"],
    },
    "backends/cpu": {
        "kernels": [],
        "": ["kernels"],
    },
    "backends/cpu/kernels": {
        "shared": [],
        "": ["shared"],
        "fast": ["shared"],
    },
    "backends/cuda": {
        "ranks": [],
        "kernels": [""],
        "": ["kernels", "ranks"],
        "devices": ["", "ranks"],
        "machine": ["", "ranks"],
    },
    "backends/cuda/kernels": {
        "shared": [],
        "attention": ["shared"],
        "lookup": ["shared"],
        "movement": ["shared"],
        "norms": ["shared"],
        "pointwise": ["shared"],
        "products": ["shared"],
        "reductions": ["shared"],
        "training": ["shared"],
        "convolution": ["movement", "shared"],
    },
    "cli": {
        "": [],
        "runs": [""],
        "training": ["", "runs"],
        "sections": [""],
        "pages": ["", "runs", "sections"],
        "commands": ["", "pages", "runs", "sections", "training"],
    },
    "compiler": {
        "memory": [],
        "strategy": [],
        "training": ["strategy"],
        "words": ["strategy", "training"],
        "order": ["strategy", "words"],
        "expand": ["memory", "order", "strategy", "training", "words"],
    },
    "core": {
        "base": [],
        "tensors": ["base"],
        "text": ["base"],
        "graphs": ["base", "tensors", "text"],
        "costs": ["base", "graphs", "tensors", "text"],
        "operators": ["base", "graphs", "tensors"],
        "validator": ["base", "graphs", "tensors"],
        "collective_script": ["base", "costs", "graphs", "tensors"],
        "files": ["base", "graphs", "operators", "tensors", "text"],
    },
    "core/operators": {
        "": [],
        "movement": [""],
        "pointwise": [""],
        "reductions": [""],
        "training": [""],
        "layers": ["", "movement", "reductions"],
    },
    "experiments": {
        "": [],
        "accuracy": ["sweeps"],
        "schedules": [],
        "table4": [],
        "micro": [""],
        "jobs": [],
        "sweeps": [],
        "planned": ["jobs", "sweeps"],
        "ablations": ["planned", "sweeps"],
        "boxing_volumes": ["sweeps"],
        "class_split": ["planned", "sweeps"],
        "data_parallel": ["planned", "sweeps"],
        "data_pipeline": ["jobs", "sweeps"],
        "hybrid_gpt": ["planned", "sweeps"],
        "optimizer_sharding": ["planned", "sweeps"],
        "pytorch": ["sweeps"],
        "questions": ["jobs", "planned", "sweeps"],
        "signatures": ["sweeps"],
        "todays_models": ["jobs", "planned", "sweeps"],
        "wide_deep": ["planned", "sweeps"],
        "catalogue": [
            "ablations", "boxing_volumes", "class_split", "data_parallel", "data_pipeline", "hybrid_gpt", "optimizer_sharding", "questions",
            "signatures", "sweeps", "todays_models", "wide_deep",
        ],
    },
    "io": {
        "data": [],
        "images": ["data"],
        "pages": [],
        "": ["data", "images", "pages"],
        "checkpoints": [""],
        "weights": [""],
    },
    "search": {
        "min_sum": [],
        "problem": [],
        "space": [],
        "bounds": ["problem", "space"],
        "search": ["bounds", "problem", "space"],
        "words": ["bounds", "min_sum", "search"],
    },
    "simulator": {
        "steps": [],
        "clusters": [],
        "links": ["clusters", "steps"],
        "cluster_files": ["clusters"],
        "costs": ["cluster_files", "clusters"],
        "modes": ["costs", "links", "steps"],
        "recordings": ["modes", "steps"],
        "reports": ["cluster_files", "costs", "modes", "steps"],
    },
    "simulator/modes": {
        "recurring": [],
        "": ["recurring"],
    },
    "tests/conformance": {
        "operators": [],
        "protocol": [],
        "training": [],
        "law": ["training"],
        "signatures": ["operators"],
        "gradients": ["operators", "signatures"],
    },
    "tests/simulator": {
        "": [],
        "clusters": [],
        "reports": [],
        "steps": [""],
    },
}
# The context that CUDA kernels are given owns the choices of products, which are kernels' business.
LEAN_ON_EACH_OTHER = {"backends/cuda": ["", "kernels"]}
MOST_FILES = 40  # of one folder

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


def room_of(folder, path):
    """The room of `folder` that holds `path`, which is below it."""
    parts = path[len(folder) + 1:].split("/")
    return parts[0] if len(parts) > 1 else ""


def name_of(folder, room):
    return f"`{folder}/{room}`" if room else f"files of `{folder}` itself"


def may_include_line(folder, others):
    return ("May include: " + ", ".join(f"`{other}`" if other else name_of(folder, "") for other in others)
            if others else f"May include: no other room of `{folder}`") + "."


def room_violation(path, target):
    """Why `path` may not include `target` for the rooms that they are in, or None."""
    for folder, rooms in ROOMS.items():
        if path.startswith(folder + "/") and target.startswith(folder + "/"):
            room, other = room_of(folder, path), room_of(folder, target)
            if room != other and other not in rooms.get(room, []):
                return (f"{name_of(folder, room)} may not include {name_of(folder, other)}; "
                        + may_include_line(folder, rooms.get(room, [])).lower())
    return None


def rooms_without_order(rooms):
    """Rooms of a folder that lean on each other in circles."""
    left = {room: set(others) & rooms.keys() for room, others in rooms.items()}
    while True:
        leaned_on = set().union(*left.values())
        circle = {room for room, others in left.items() if others & left.keys() and room in leaned_on}
        if circle == left.keys():
            return sorted(circle)
        left = {room: others & circle for room, others in left.items() if room in circle}


def room_findings(rooms_of, paths, text_of):
    """What is wrong with the rooms themselves, given all `paths` of the project."""
    sources = [path for path in paths if path.endswith(SOURCES)]
    for folder, rooms in rooms_of.items():
        circle = rooms_without_order(rooms)
        if circle != LEAN_ON_EACH_OTHER.get(folder, []):
            yield f"{folder}: rooms lean on each other: " + ", ".join(circle)
        for room, others in rooms.items():
            readme, line = f"{folder}/{room}/README.md", may_include_line(folder, others)
            said = [text for text in (text_of(readme) if readme in paths else "").splitlines() if text.startswith("May include: ")]
            if room and said != [line]:
                yield f"{readme}: no line '{line}', or others like it"
        found = {room_of(folder, path) for path in sources if path.startswith(folder + "/")}
        for room in sorted(found ^ rooms.keys()):
            yield f"{folder}: no room '{room}' in the table" if room in found else f"{folder}: room '{room}' has no sources"
        for other in sorted(set().union(*rooms.values()) - rooms.keys()):
            yield f"{folder}: '{other}' is no room"
    known = MAY_INCLUDE.keys() | {f"{folder}/{room}".rstrip("/") for folder, rooms in rooms_of.items() for room in rooms}
    for parent in sorted({path.rpartition("/")[0] for path in sources if not path.startswith("tests/")} - known):
        yield f"{parent}: sources in a folder that is no room"
    sizes = collections.Counter(path.rpartition("/")[0] for path in paths)
    for folder, size in sorted(sizes.items()):
        if size > MOST_FILES:
            yield f"{folder}: {size} files, more than {MOST_FILES}: it wants rooms"


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
                elif rule := room_violation(path, target):
                    found.append((path, line, rule))
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
    ("`compiler/strategy` may not include `compiler/words`; may include: no other", {
        "compiler/strategy/a.h": '#include "compiler/words/b.h"\n', "compiler/words/b.h": ""}, 1),
    ("files of `core/operators` itself may not include", {
        "core/operators/a.h": '#include "core/operators/layers/b.h"\n', "core/operators/layers/b.h": ""}, 1),
    (None, {"compiler/words/a.h": '#include "compiler/strategy/b.h"\n', "compiler/strategy/b.h": ""}, 0),
    ("is no file of the project", {"core/a.h": '/*\n*/\n#include "b.h"\n', "core/b.h": ""}, 3),
    ("write quotes", {"core/a.h": "#include <core/b.h>\n", "core/b.h": ""}, 1),
    ("in a header", {"core/a.h": "#include <boost/graph/adjacency_list.hpp>\n"}, 1),
    ("in a header", {"tests/support/a.h": "\n#include <nlohmann/json.hpp>\n"}, 2),
    ("under nvcc", {"backends/cuda/k.cu": "#include <span>\n#include <fmt/core.h>\n"}, 2),
    ("under nvcc, through backends/cuda/k.cu -> core/base/check.h",
     {"backends/cuda/k.cu": '#include "core/base/check.h"\n',
      "core/base/check.h": "#include <fmt/core.h>\n"}, 1),
    ("reads a clock", {"actor/a.cpp": "// time\nauto t = std::chrono::steady_clock::now();\n"}, 2),
    ("reads a clock", {"search/a.cpp": "auto t = std::time (nullptr);\n"}, 1),
    ("outside the folders", {"misc/a.cpp": ""}, 1),
    (None, {"actor/a.cpp": "// no steady_clock here\nlog(\"steady_clock\");\n"}, 0),
    (None, {"cli/a.cpp": "steady_clock::now();\n"}, 0),
    (None, {"core/a.h": "#include <nlohmann/json_fwd.hpp>\n"}, 0),
    (None, {"core/a.cpp": "#include <nlohmann/json.hpp>\n"}, 0),
    (None, {"compiler/a.h": '#include "sbp/b.h"\n', "sbp/b.h": "// #include \"cli/c.h\"\n"}, 0),
]


# Rooms, files with their text, and the finding or None.
NO_OTHER = "May include: no other room of `core`."
ONE_ROOM = {"core/b/x.h": "", "core/b/README.md": NO_OTHER}
PLANTED_ROOMS = [
    ("lean on each other: b, c", {"core": {"b": ["c"], "c": ["b"], "d": ["b"]}},
     {"core/b/x.h": "", "core/c/x.h": "", "core/d/x.h": "", "core/b/README.md": "May include: `c`.",
      "core/c/README.md": "May include: `b`.", "core/d/README.md": "May include: `b`."}),
    ("core/b/README.md: no line", {"core": {"b": []}}, {"core/b/x.h": ""}),
    ("core/b/README.md: no line", {"core": {"b": [], "": []}},
     {"core/x.h": "", "core/b/x.h": "", "core/b/README.md": "May include: `c`."}),
    ("core/b/README.md: no line", {"core": {"b": []}}, {**ONE_ROOM, "core/b/README.md": NO_OTHER + "\nMay include: `c`."}),
    ("no room 'c'", {"core": {"b": []}}, {**ONE_ROOM, "core/c/x.h": ""}),
    ("room 'c' has no sources", {"core": {"b": [], "c": []}}, {**ONE_ROOM, "core/c/README.md": NO_OTHER}),
    ("'c' is no room", {"core": {"b": ["c"]}}, {**ONE_ROOM, "core/b/README.md": "May include: `c`."}),
    ("core/b/c: sources in a folder that is no room", {"core": {"b": []}}, {**ONE_ROOM, "core/b/c/x.h": ""}),
    ("41 files", {}, {f"sbp/{i}.h": "" for i in range(MOST_FILES + 1)}),
    (None, {"core": {"": [], "b": [""]}},
     {"core/x.h": "", "core/b/x.h": "", "core/b/README.md": "x\n\nMay include: files of `core` itself.\n"}),
]


def prove_room_rules():
    for rule, rooms, files in PLANTED_ROOMS:
        found = list(room_findings(rooms, files.keys(), files.get))
        if (rule is None) != (not found) or rule is not None and not any(rule in text for text in found):
            yield f"planted rooms {rooms}: wanted {rule}, got {found}"


def prove_rules():
    """The planted cases on which a rule stays silent, or speaks where it should not."""
    failures = list(prove_room_rules())
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
    paths = set(project_files(""))
    failures += room_findings(ROOMS, paths, lambda path: (ROOT / path).read_text(encoding="utf-8"))
    cases = len(PLANTED) + len(PLANTED_ROOMS)
    print("\n".join(failures) or f"{len(files)} files, {cases} planted cases: in order")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
