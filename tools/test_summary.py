"""Counts the results of Meson test logs and prints `N passed, N failed` as its last line.

A doctest program counts as its test cases, any other test as one. Exits 1 if anything failed.

usage: test_summary.py [TESTLOG.json...] [--broken=STEP...]
"""

import json
import re
import sys

CASES = re.compile(r"\[doctest\] test cases: +(\d+) \| +(\d+) passed \| +(\d+) failed(?: \| +(\d+) skipped)?")
# A test of some files of a program; doctest counts the cases of the others as skipped.
OF_FILES = re.compile(r"^of the files named: (\d+) skipped$", re.MULTILINE)
TAIL_LINES = 40
# Lines of a long output that say what failed, shown even where they are not among its last.
FAILURE = re.compile(r"FAILED|.*\bERROR: ")
FAILURE_LINES = 10


def count(test):
    """(passed, failed, skipped, remark) of one entry of a test log."""
    result = test["result"]
    if result == "SKIP":
        return 0, 0, 1, "skipped"
    cases = CASES.findall(test.get("stdout") or "")
    if not cases:
        return (1, 0, 0, "") if result in ("OK", "EXPECTEDFAIL") else (0, 1, 0, result.lower())
    passed, failed, skipped = (int(number or 0) for number in cases[-1][1:])
    of_files = OF_FILES.findall(test.get("stdout") or "")
    if of_files:
        skipped = int(of_files[-1])
    if result == "OK" and passed + failed + skipped == 0:
        return 0, 1, 0, "ran no test case"
    if result != "OK" and failed == 0:
        return passed, 1, skipped, f"{result.lower()} beside its cases"
    return passed, failed, skipped, result.lower() if failed else ""


def tail(test):
    text = (test.get("stdout") or "") + (test.get("stderr") or "")
    lines = text.rstrip().splitlines()
    if len(lines) > TAIL_LINES:
        hidden = lines[:-TAIL_LINES]
        said = [line for line in hidden if FAILURE.match(line)][:FAILURE_LINES]
        lines = [f"... ({len(hidden)} lines before, {len(said)} of them shown)"] + said + lines[-TAIL_LINES:]
    return "\n".join("  | " + line for line in lines)


def main():
    logs = [argument for argument in sys.argv[1:] if argument and not argument.startswith("--")]
    broken = [argument.split("=", 1)[1] for argument in sys.argv[1:] if argument.startswith("--")]
    total = [0, 0, 0]
    slowest = []
    for log in logs:
        with open(log, encoding="utf-8") as lines:
            tests = [json.loads(line) for line in lines]
        build = log.split("/", 1)[0]
        for test in tests:
            passed, failed, skipped, remark = count(test)
            total = [total[0] + passed, total[1] + failed, total[2] + skipped]
            slowest.append((test["duration"], f"{build}: {test['name']}"))
            if failed:
                print(f"FAILED {build}: {test['name']} ({remark}, {test['duration']:.1f} s)")
                print(tail(test))
            elif skipped and passed:
                print(f"{build}: {test['name']}: {skipped} of its cases skipped")
            elif skipped:
                print(f"SKIPPED {build}: {test['name']}")
                print(tail(test))
    for step in broken:
        total[1] += 1
        print(f"FAILED {step} (see above)")
    if not any(total):
        print("no test was run")
        total[1] = 1
    slowest.sort(reverse=True)
    print("slowest: " + ", ".join(f"{name} {duration:.1f} s" for duration, name in slowest[:5]))
    passed, failed, skipped = total
    if skipped:
        print(f"{skipped} skipped")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
