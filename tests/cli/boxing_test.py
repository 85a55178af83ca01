"""`sextant boxing`: the text of the README's example, documents that add up, and what is refused.

usage: boxing_test.py --sextant PROGRAM
"""

import pathlib
import sys

from habits_test import expect, run_checks

FROM, TO = "(S(0),B)@[dp=2,tp=2]", "(B,S(1))@[dp=2,tp=2]"
SMALL = ["--shape", "5x7", "--dtype", "bf16"]
DGX = ["-c", "dgx-h100:nodes=2"]

# Rows of devices are 3 and 2 high, wanted are all 5 rows of 4 and of 3 columns. What is missing:
# 2x4 and 2x3 where 3 rows are, 3x4 and 3x3 where 2 are: 35 elements of 2 bytes.
GOLDEN = """\
(S(0), B)@[dp=2, tp=2] -> (B, S(1))@[dp=2, tp=2], 5x7 bf16
fewest bytes first: without a cluster (-c) there is no time to compare
step                                               groups    in  bytes
all_to_all over dp: (S(0), B) -> (B, S(1))  {0, 2} {1, 3}  bf16     70
total                                                               70
ratio  bytes  what lost
1.00x     70  local -> (S(0), S(1)), all_gather over dp -> (B, S(1))
1.49x    104  local -> (S(0), S(0)), all_to_all over dp, tp -> (B, S(1))
1.49x    104  local -> (S(0), S(0)), all_to_all over tp -> (S(0), S(1)), all_gather over dp -> (B, S(1))
1.49x    104  local -> (S(0), S(1)), all_to_all over dp -> (S(1)^2, S(1)^1), all_gather over dp -> (B, S(1))
1.97x    138  all_to_all over dp -> (S(1), B), all_to_all over dp -> (B, S(1))
"""


def check_golden(program):
    outcome = program.run("boxing", FROM, TO, *SMALL).expect_code(0)
    expect(outcome.out == GOLDEN, f"boxing prints\n{outcome.out}\nwanted\n{GOLDEN}")


def check_readme():
    """The README shows what the program prints."""
    readme = (pathlib.Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    expect(GOLDEN in readme, "README.md does not show the golden text of `sextant boxing`")


def check_document(program):
    document = program.run("boxing", FROM, TO, *SMALL, "--json").expect_code(0).document()
    expect(document.get("schema") == "sextant.boxing.v1", "no sextant.boxing.v1")
    expect(document["from"] == "(S(0), B)@[dp=2, tp=2]", f"from is {document['from']}")
    expect(document["to"] == "(B, S(1))@[dp=2, tp=2]", f"to is {document['to']}")
    expect(document["objective"] == "bytes" and document["cluster"] is None and
           document["time_s"] is None, "without a cluster there is a time")
    expect(document["total_bytes"] == 70, f"{document['total_bytes']} bytes, wanted 70")


# Pairs on one placement, permuted, disjoint and overlapping ones, and other meshes.
PAIRS = [
    (FROM, TO),
    ("P@[x=8]", "B@[x=8]"),
    ("(P,P)@[dp=2,tp=2]", "(S(0),S(0))@[dp=2,tp=2]"),
    ("(S(0)^2,S(0)^1)@[dp=2,tp=3]", "(S(0),S(0))@[dp=2,tp=3]"),
    ("(S(1),P(max))@[dp=2,tp=4]", "(B,S(0))@[dp=2,tp=4]{8-15}"),
    ("P@[x=4]", "B@[y=4]{4-7}"),
    ("S(0)@[x=4]", "S(0)@[x=4]{3,1,2,0}"),
    ("S(0)@[x=4]", "(S(0),S(0))@[a=2,b=2]"),
    ("S(0)@[x=4]", "S(1)@[x=4]{2-5}"),
    ("B@[x=2]", "P@[x=3]{1-3}"),
    ("()@[]", "B@[x=3]{5-7}"),
    ("B@[x=2]", "B@[x=2]"),
]


def add_up(document, name):
    steps = document["steps"]
    expect(sum(step["bytes"] for step in steps) == document["total_bytes"],
           f"{name}: the steps' bytes do not add up to {document['total_bytes']}")
    if document["time_s"] is not None:
        total = sum(step["time_s"] for step in steps)
        expect(abs(total - document["time_s"]) < 1e-12 + 1e-9 * total,
               f"{name}: the steps take {total} s, the plan {document['time_s']} s")
    for step in steps:
        pairs = step["pairs"]
        expect(sum(pair["bytes"] for pair in pairs) == step["bytes"],
               f"{name}: pairs of '{step['text']}' do not add up")
        members = [rank for group in step["groups"] for rank in group]
        expect(len(members) == len(set(members)), f"{name}: a rank of '{step['text']}' is in two groups")
        for pair in pairs:
            expect(any(pair["source"] in group and pair["destination"] in group
                       for group in step["groups"]),
                   f"{name}: '{step['text']}' sends from {pair['source']} to {pair['destination']}, "
                   "which are in no group together")
    cost = "time_s" if document["objective"] == "time" else "total_bytes"
    for way in document["alternatives"]:
        expect(way[cost] >= document[cost], f"{name}: an alternative is cheaper than the plan")
        if document[cost] > 0:
            expect(abs(way["ratio"] - way[cost] / document[cost]) < 1e-9, f"{name}: a ratio is wrong")


def check_sums(program):
    for source, target in PAIRS:
        for options in ([], DGX, [*DGX, "--objective", "bytes"]):
            name = f"{source} to {target} {' '.join(options)}"
            outcome = program.run("boxing", source, target, *SMALL, *options, "--json", "--top", "3")
            outcome.expect_code(0)
            if outcome.code != 0:
                continue
            document = outcome.document()
            add_up(document, name)
            wanted = "time" if options == DGX else "bytes"
            expect(document["objective"] == wanted, f"{name}: the objective is not {wanted}")
            expect(len(document["alternatives"]) <= 3, f"{name}: more alternatives than asked for")
            text = program.run("boxing", source, target, *SMALL, *options, "--pairs").expect_code(0).out
            expect(str(document["total_bytes"]) in text, f"{name}: the text has another total")


def check_element_types(program):
    """A reduction runs in the wider type, and what is moved counts in the type it has then."""
    def reduction(*options):
        return program.run("boxing", "P@[x=4]", "B@[x=4]", "--shape", "8", "--json",
                           *options).expect_code(0).document()
    expect(reduction("--dtype", "bf16")["reduction_dtype"] == "bf16", "bf16 is not reduced in bf16")
    up = reduction("--dtype", "bf16", "--to-dtype", "f32")
    expect(up["reduction_dtype"] == "f32" and up["to_dtype"] == "f32", "no cast up before the reduction")
    expect(up["total_bytes"] == 6 * 32, f"{up['total_bytes']} bytes: 2 (4-1) x 8 x 4 B are 192")
    down = reduction("--dtype", "f32", "--to-dtype", "bf16")
    expect(down["reduction_dtype"] == "f32", "a cast down comes before the reduction")
    wide = reduction("--dtype", "bf16", "--reduce-dtype", "f32")
    expect(wide["reduction_dtype"] == "f32" and wide["to_dtype"] == "bf16", "--reduce-dtype is not used")
    text = program.run("boxing", "P@[x=4]", "B@[x=4]", "--shape", "8", "--dtype", "bf16", "--to-dtype",
                       "f32").expect_code(0).out
    expect("reduces (sum) in f32" in text, f"no word about the type of the reduction: {text}")


def check_large_groups(program):
    """A thousand devices take a few lines, not a thousand."""
    text = program.run("boxing", "(P,S(0))@[dp=32,tp=32]", "(B,S(0))@[dp=32,tp=32]", "--shape",
                       "4096x4096").expect_code(0).out
    expect("{0, 32, ... 992}" in text and "... 32 groups" in text, f"groups are not short: {text}")
    expect(max(len(line) for line in text.splitlines()) < 200, f"lines are too long: {text}")


def check_refusals(program):
    def refuse(source, target, *options, code=2, say=()):
        outcome = program.run("boxing", source, target, *options)
        outcome.expect_code(code).expect_error(source, target, *say)
        document = program.run("boxing", source, target, *options, "--json").document()
        expect(document.get("ok") is False, f"{source} to {target}: no error document")

    refuse("(S(0),B)@[dp=2]", TO, *SMALL, say=["2 words for the 1 axis of [dp=2]"])
    refuse("(S(0),X)@[dp=2,tp=2]", TO, *SMALL, say=["S(dim), B or P(sum|max|min) at column 7"])
    refuse(FROM, "(B,S(2))@[dp=2,tp=2]", *SMALL,
           say=["splits dim 2 over tp", "legal are S(0), S(1), B or P(sum|max|min)"])
    refuse(FROM, "(B,P(mean))@[dp=2,tp=2]", *SMALL, say=["sum, max or min at column 6"])
    refuse(FROM, "(B,S(1))@[dp=2,dp=2]", *SMALL, say=["names the axis 'dp' twice"])
    refuse(FROM, "(B,S(1))@[dp=2,tp=2]{0,1,2,2}", *SMALL, say=["names the device 2 twice"])
    refuse(FROM, "(B,S(1))@[dp=2,tp=2]{0-4}", *SMALL, say=["lists 5 devices", "wants 4"])
    refuse(FROM, "(B,S(1))", *SMALL, say=["wanted '@' and a mesh at column 9"])
    refuse("S(0)@[x=2]", "B@[x=2]", "--shape", "()", say=["legal are B or P(sum|max|min)"])
    refuse(FROM, TO, "--shape", "5x", say=["'5x' is not a shape (column 3)"])
    refuse(FROM, TO, "--shape", "5x7", "--dtype", "bf17", code=3, say=["bf16"])
    refuse(FROM, TO, *SMALL, "--objective", "time", say=["-c dgx-h100"])
    refuse(FROM, TO, *SMALL, "--objective", "speed", say=["neither time nor bytes"])
    refuse(FROM, TO, *SMALL, "-c", "dgx-h10", say=["dgx-h100"])
    refuse("B@[x=2]{15,16}", "B@[x=2]", *SMALL, *DGX, say=["the device 16", "devices 0 to 15"])
    refuse("(P,P(max))@[a=2,b=2]", "(B,B)@[a=2,b=2]", *SMALL, code=4, say=["two different reductions"])
    program.run("boxing", FROM, TO).expect_code(2).expect_error("--shape")
    program.run("boxing", FROM).expect_code(2).expect_error("to is required")
    program.run("boxing", FROM, TO, *SMALL, "--top", "-1").expect_code(2).expect_error("--top")
    program.run("boxing", FROM, TO, *SMALL, "--cluter", "x").expect_code(2).expect_error("--cluster")


def check_hopeless_questions(program):
    """What would take minutes is refused in seconds; before, these ran for as long as one waited."""
    deep = ["(S(0),S(1),S(2),P,P)@[a=2,b=2,c=2,d=2,e=2]", "(S(3),S(2),P,S(0),B)@[a=2,b=2,c=2,d=2,e=2]"]
    program.run("boxing", *deep, "--shape", "5x7x3x2x2x2x2x2x2x2", "-c", "dgx-h100:nodes=4"
                ).expect_code(4).expect_error("too many ways to search through")
    program.run("boxing", "S(0)@[x=4096]", "S(1)@[x=4096]", "--shape", "5000x5000"
                ).expect_code(4).expect_error("too many to list")


if __name__ == "__main__":
    check_readme()
    sys.exit(run_checks(
        check_golden, check_document, check_sums, check_element_types, check_large_groups,
        check_refusals, check_hopeless_questions))
