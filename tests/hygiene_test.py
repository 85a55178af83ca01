"""What must not be committed: paths of one machine, registries in scripts, intentions without a condition,
and a feature of the build that setup.sh does not install.

Prints `file:line: rule`. The test first proves that each rule can fail, on planted violations.
"""

import re
import sys

from support.project_files import ROOT, project_files

CODE = (".h", ".cuh", ".cpp", ".cu", ".py", ".sh", ".build")
TEXT = CODE + (".md", ".json", ".txt", ".ini", ".yml", ".yaml", "run", ".clang-format", ".gitignore")
SCRIPTS = (".sh", ".py", ".build", ".ini", "run")

# Written in pieces, so that this file passes its own test.
MACHINE_PATH = re.compile(r"(?<![\w.\-/])/(?:wor" + r"k|roo" + r"t|home/\w+|Users/\w+)(?:/|\b(?![\w.-]))")
REGISTRY = re.compile(
    r"https?://|\b(?:pyp" + r"i\.org|deb\.debian" + r"\.org|archive\.ubuntu" + r"\.com|npm"
    + r"js\.org|githubusercontent" + r"\.com)\b")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")
CONDITION = re.compile(r"\bTO" + r"DO\b.*\b(?:when|once|if|until|unless)\b")

FIRST_LINE = re.compile(r"//|/\*")


def violations(path, text):
    found = []

    def report(line, rule):
        found.append((path, line, rule))

    if path.endswith((".h", ".cuh", ".cpp", ".cu")):
        if not FIRST_LINE.match(text):
            report(1, "a source starts with a comment: what it is and what it is not")
        if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", text, re.MULTILINE):
            report(1, "a header without #pragma once")
    if text and not text.endswith("\n"):
        report(text.count("\n") + 1, "the last line does not end")
    for number, line in enumerate(text.split("\n"), 1):
        if "\r" in line:
            report(number, "carriage return")
        if path.endswith(CODE) and line != line.rstrip():
            report(number, "blanks at the end of the line")
        if "\t" in line and path.endswith((".h", ".cuh", ".cpp", ".cu", ".py", ".build")):
            report(number, "tab")
        if re.match(r"(<{7}|>{7}) ", line):
            report(number, "conflict marker")
        if MACHINE_PATH.search(line):
            report(number, "path of one machine: " + MACHINE_PATH.search(line).group())
        if path.endswith(SCRIPTS) and REGISTRY.search(line):
            report(number, "address in a script: " + REGISTRY.search(line).group())
        if path.endswith(CODE) and UNFINISHED.search(line) and not CONDITION.search(line):
            report(number, "to do, but not said under which condition it is worth doing")
    return found


# A library of a GPU comes with its driver; all others must be there after setup.sh, because the program's help lists
# what it does with them.
PACKAGES = {"jpeg": "libturbojpeg0-dev", "mpi": "libopenmpi-dev", "blas": "libopenblas-dev", "onednn": "libdnnl-dev",
            "allocator": "libmimalloc-dev", "zlib": "zlib1g-dev", "yaml": "libyaml-cpp-dev"}
OF_GPUS = ("cuda",)
FEATURE = re.compile(r"option\('(\w+)', type: 'feature'")


def uninstalled_features(options, setup):
    installed = re.findall(r"[\w.+-]+", setup)
    return [f"meson_options.txt: setup.sh installs nothing for the feature '{feature}'"
            for feature in FEATURE.findall(options)
            if feature not in OF_GPUS and PACKAGES.get(feature) not in installed]


HEAD = "// What it is.\n"
TO_DO = "TO" + "DO"
PLANTED = [
    ("starts with a comment", "core/a.cpp", "#include <span>\n"),
    ("#pragma once", "core/a.h", HEAD + "int a();\n"),
    ("does not end", "core/a.cpp", HEAD + "int a;"),
    ("carriage return", "a.md", "text\r\n"),
    ("blanks", "core/a.cpp", HEAD + "int a; \n"),
    ("tab", "core/a.cpp", HEAD + "\tint a;\n"),
    ("conflict", "README.md", "<" * 7 + " HEAD\n"),
    ("one machine", "README.md", "see /wor" + "k/main\n"),
    ("one machine", "tests/a.py", 'open("/home/' + 'me/x")\n'),
    ("address", "setup.sh", "curl https:" + "//example.com\n"),
    ("to do", "core/a.cpp", HEAD + "// " + TO_DO + ": nicer\n"),
    ("to do", "core/a.cpp", HEAD + "// FIX" + "ME when it rains\n"),
    (None, "core/a.cpp", HEAD + "// " + TO_DO + " when a second user comes: share it\n"),
    (None, "README.md", "https:" + "//arxiv.org/abs/2110.15032 and a/wor" + "k/b, /workflow\n"),
    (None, "core/a.h", HEAD + "#pragma once\n"),
]


def prove_rules():
    for rule, path, text in PLANTED:
        found = violations(path, text)
        if len(found) != (rule is not None) or found and rule not in found[0][2]:
            yield f"planted {path} {text!r}: wanted {rule}, got {found}"
    option = "option('yaml', type: 'feature', value: 'auto')"
    if uninstalled_features(option, "zlib1g-dev libyaml-cpp-dev") or not uninstalled_features(option, "zlib1g-dev"):
        yield "planted: a feature without a package goes unnoticed"


def main():
    failures = list(prove_rules())
    failures += uninstalled_features(*((ROOT / name).read_text(encoding="utf-8")
                                       for name in ("meson_options.txt", "setup.sh")))
    files = project_files(*TEXT)
    for path in files:
        if path == "LICENSE":
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        failures += [f"{name}:{line}: {rule}" for name, line, rule in violations(path, text)]
    print("\n".join(failures) or f"{len(files)} files, {len(PLANTED)} planted cases: in order")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
