"""The commands of README.md, of the tutorial and of the how-to pages are commands that continuous integration executes; tables of
settings, exit codes and error texts are the program's.

Reads the fenced shell blocks. `./test.sh` must be what .ci/run calls; every other command is executed
here, in order and in one shell folder per page, with the freshly built `sextant` on the path.

usage: docs_test.py --build BUILD_ROOT
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from support.project_files import ROOT, SKIPPED

BLOCK = re.compile(r"^```(?:sh|bash|shell|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)

# Pages whose commands are executed beside those of README.md.
PAGES = ("docs/tutorial.md", "docs/how-to.md")

# What a reader does once, before there is anything to test.
BEFORE = re.compile(r"^(git clone .*|cd sextant)$")


def commands_of(markdown):
    """The commands of all shell blocks: comments, prompts and printed lines taken away."""
    commands = []
    for block in BLOCK.findall(markdown):
        lines = block.replace("\\\n", " ").splitlines()
        prompted = any(line.startswith("$ ") for line in lines)
        for line in lines:
            if prompted and not line.startswith("$ "):
                continue  # what the command printed
            line = re.sub(r"(^|\s)#.*$", "", line.removeprefix("$ ")).strip()
            if line:
                commands.append(re.sub(r"\s+", " ", line))
    return commands


def prove_parser():
    text = "```sh\n./demo.sh   # installs\n```\nprose\n```console\n$ a \\\n  b\nprinted\n```\n```json\n{}\n```\n"
    return commands_of(text) == ["./demo.sh", "a b"]


def missing_settings(readme, build):
    """Rows that either `sextant strategy show` or the table of the README has alone."""
    shown = json.loads(subprocess.run([build / "cli/sextant", "strategy", "show", "--json"], check=True,
                                      stdout=subprocess.PIPE, text=True).stdout)
    rows = []
    for setting in shown["settings"]:
        default = f" ({setting['default']})" if setting["default"] else ""
        rows.append(f"| `{setting['key']}` | {setting['values']}{default} | {setting['meaning']} |")
    begin = readme.index("| key | values (default) | meaning |")
    shown_rows = readme[begin:readme.index("\n\n", begin)].splitlines()[2:]
    return sorted(set(rows) ^ set(shown_rows))


def other_exit_codes(reference):
    """Codes and names in the table of the reference that core/base/error.h does not have, or the other way round."""
    header = (ROOT / "core/base/error.h").read_text(encoding="utf-8")
    names = (ROOT / "core/base/error.cpp").read_text(encoding="utf-8")
    there = {(code, re.search(rf"case ErrorCode::{name}:\s+return \"(\w+)\"", names).group(1))
             for name, code in re.findall(r"^  (k\w+) = (\d+),", header, re.MULTILINE)}
    shown = set(re.findall(r"^\| (\d+) \| `(\w+)` \|", reference, re.MULTILINE))
    return [f"docs/reference.md: exit code {code} `{name}`" for code, name in sorted(there ^ shown)]


def unknown_error_texts(page):
    """Texts in quotes that begin a row of the table and stand in no source."""
    # Literals that the compiler joins are one text.
    sources = "\n".join(
        re.sub(r'"\s*\n\s*"', "", path.read_text(encoding="utf-8"))
        for folder in ("actor", "backends", "cli", "compiler", "core", "experiments", "io", "models", "sbp", "search", "simulator")
        for path in (ROOT / folder).rglob("*.cpp"))
    texts = re.findall(r'^\| "([^"]+)" \|', page, re.MULTILINE)
    return [f'docs/troubleshooting.md: "{text}" is in no source' for text in texts if text not in sources] or (
        [] if texts else ["docs/troubleshooting.md has no error texts"])


def execute(command, folder, build):
    environment = {
        **os.environ,
        "PATH": f"{build / 'cli'}{os.pathsep}{os.environ['PATH']}",
        "SEXTANT_BUILD": str(build),
        "SEXTANT_DEMO_OUT": str(folder / "out" / "demo"),
    }
    print(f"$ {command}", flush=True)
    result = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(result.stdout, flush=True)
    return result.returncode


def failed_commands(page, commands, build, ci):
    """Executes the commands of one page in a folder of their own."""
    failures = []
    with tempfile.TemporaryDirectory() as scratch:
        # Relative paths mean what they mean to the reader, and nothing lands in the sources.
        folder = pathlib.Path(scratch)
        for entry in ROOT.iterdir():
            if entry.name not in ("out", "build", ".git"):
                (folder / entry.name).symlink_to(entry)
        (folder / "build").symlink_to(build)
        for command in commands:
            if BEFORE.match(command):
                continue
            if command.startswith("./test.sh"):
                if not re.search(rf"^exec {re.escape(command)}$", ci, re.MULTILINE):
                    failures.append(f"{page}: {command}: .ci/run does not execute it")
            elif execute(command, folder, build) != 0:
                failures.append(f"{page}: {command}: failed")
    return failures


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    build = parser.parse_args().build.resolve()

    if not prove_parser():
        print("the parser of shell blocks is broken")
        return 1
    readme = ROOT / "README.md"
    if not readme.exists():
        print("skipped: no README.md yet")
        return SKIPPED
    text = readme.read_text(encoding="utf-8")
    commands = commands_of(text)
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")

    failures = [f"README.md lacks {name}" for name in ("./demo.sh", "./test.sh")
                if name not in commands]
    failures += [f"README.md and the program differ in the setting: {row}" for row in missing_settings(text, build)]
    failures += other_exit_codes((ROOT / "docs/reference.md").read_text(encoding="utf-8"))
    failures += unknown_error_texts((ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8"))
    pages = {"README.md": commands}
    for page in PAGES:
        pages[page] = commands_of((ROOT / page).read_text(encoding="utf-8"))
        if not pages[page]:
            failures.append(f"{page} has no commands")
    for page, page_commands in pages.items():
        failures += failed_commands(page, page_commands, build, ci)
    print("\n".join(failures) or ", ".join(f"{len(found)} commands of {page}" for page, found in pages.items()) + " are executed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
