#!/usr/bin/env python3
"""Processor seconds of commands: a wrapper that notes them, and the table of what it noted.

usage: processor_time.py note LOG COMMAND...      runs COMMAND, appends a line to LOG, exits as it does
       processor_time.py table LOG [BEFORE]       sums by folder and the dearest rows, beside BEFORE

As the compiler (`CXX="tools/processor_time.py note LOG c++"`) it notes one line per object; as the wrapper of
`meson test --wrapper` one per test. Seconds are user and system time of COMMAND and all that it waited
for; memory is the largest process of them.
"""

import collections
import os
import resource
import subprocess
import sys

ROWS = 25


def name_of(command):
    """The object that a compiler writes, the program or script that a test runs."""
    if "-o" in command[:-1]:
        return command[command.index("-o") + 1]
    words = [os.path.basename(word) for word in command if not word.startswith("-")]
    return words[1] if words[0].startswith("python") and len(words) > 1 else words[0]


def note(log, command):
    status = subprocess.run(command, check=False).returncode
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    line = f"{use.ru_utime + use.ru_stime:.2f}\t{use.ru_maxrss // 1024}\t{name_of(command)}\n"
    # One write to the end of the file: commands that run side by side do not mix their lines.
    with open(log, "a", encoding="utf-8") as file:
        file.write(line)
    return status if status >= 0 else 128 - status


def read(log):
    """{name: seconds}, of rows of one name the sum: a file may be compiled for several programs."""
    rows = collections.Counter()
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            seconds, _, name = line.rstrip("\n").split("\t")
            rows[name] += float(seconds)
    return rows


def folder_of(name):
    """Where the target of an object or a program is defined; a test has no folder in its name."""
    if name.startswith("/") or name == "sanitycheckcpp.exe":
        return "meson's questions"
    folder = os.path.dirname(name)
    return (os.path.dirname(folder) if folder.endswith(".p") else folder) or "tests"


def by_folder(rows):
    sums = collections.Counter()
    for name, seconds in rows.items():
        sums[folder_of(name)] += seconds
    return sums


def show(title, now, before):
    print(f"{title:<64} {'seconds':>8}" + (f" {'before':>8}" if before else ""))
    names = sorted(set(now) | set(before or {}), key=lambda name: -max(now[name], (before or now)[name]))
    for name in names[:ROWS]:
        print(f"{name[-64:]:<64} {now[name]:8.1f}" + (f" {before[name]:8.1f}" if before else ""))
    print(f"{'sum of ' + str(len(now)):<64} {sum(now.values()):8.1f}"
          + (f" {sum(before.values()):8.1f}" if before else "") + "\n")


def table(log, before):
    now, earlier = read(log), read(before) if before else None
    show("folder", by_folder(now), by_folder(earlier) if earlier else None)
    show("unit or test", now, earlier)
    return 0


def main():
    arguments = sys.argv[1:]
    if len(arguments) >= 3 and arguments[0] == "note":
        return note(arguments[1], arguments[2:])
    if len(arguments) in (2, 3) and arguments[0] == "table":
        return table(arguments[1], arguments[2] if len(arguments) == 3 else None)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
