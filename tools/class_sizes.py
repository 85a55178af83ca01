#!/usr/bin/env python3
"""Lists the largest classes: lines of the body, with those of its member functions that are defined outside, and members.

Counted are the lines from the head of a class or struct to its closing brace, and of every definition of `Class::function`
in the same folder's sources from its head to its brace. Members are declarations of the class's own level whose name ends
with `_`. Text is matched, not parsed: comments and strings are blanked first.

Usage: tools/class_sizes.py [--least LINES] [FOLDER...]
"""

import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("core", "models", "io", "sbp", "actor", "compiler", "backends", "simulator", "search", "experiments", "cli", "tests")

BLANKED = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
CLASS = re.compile(r"^[ ]*(?:template\s*<[^{};]*>\s*)?(?:class|struct)\s+(\w+)(?:\s+final)?(?:\s*:[^{};]*)?\s*\{", re.MULTILINE)
MEMBER_FUNCTION = re.compile(r"^(?!\s)[^\n;{}=]*?\b(\w+)::~?\w+\s*\((?:[^{};]|\{\})*\{", re.MULTILINE)
MEMBER = re.compile(r"\b(\w+_)\s*(?:=[^;]*|\{[^;{}]*\})?(?=[;,])")


def blanked(text):
    return BLANKED.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def end_of_braces(text, begin):
    """Behind the brace that closes the one at `begin`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, begin):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.end()
    return len(text)


def own_level(body):
    """The body without what stands in braces inside it."""
    kept, depth = [], 0
    for c in body:
        depth -= c == "}"
        if depth == 0:
            kept.append(c)
        depth += c == "{"
    return "".join(kept)


def sizes_of(files):
    """{(folder, class): [lines, members, file]} of texts by path."""
    sizes = collections.defaultdict(lambda: [0, 0, ""])
    for path, text in files.items():
        text = blanked(text)
        for found in CLASS.finditer(text):
            end = end_of_braces(text, found.end() - 1)
            size = sizes[str(pathlib.PurePath(path).parent), found.group(1)]
            size[0] += text.count("\n", found.start(), end) + 1
            size[1] += len(MEMBER.findall(own_level(text[found.end():end - 1])))
            size[2] = path
    for path, text in files.items():
        text = blanked(text)
        for found in MEMBER_FUNCTION.finditer(text):
            key = str(pathlib.PurePath(path).parent), found.group(1)
            if key in sizes:
                end = end_of_braces(text, found.end() - 1)
                sizes[key][0] += text.count("\n", found.start(), end) + 1
    return sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--least", type=int, default=200, help="lines from which a class is listed")
    parser.add_argument("folders", nargs="*", default=FOLDERS)
    options = parser.parse_args()
    files = {}
    for folder in options.folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp", ".cu", ".cuh"):
                files[str(path.relative_to(ROOT))] = path.read_text(encoding="utf-8")
    rows = sorted(((*size, name) for (_, name), size in sizes_of(files).items()), reverse=True)
    for lines, members, path, name in rows:
        if lines >= options.least:
            print(f"{lines:5} lines {members:3} members  {name}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
