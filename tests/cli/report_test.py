"""`sextant report`, `plan diff` and `plan convert`: what stands on the page, and what is refused.

usage: report_test.py --sextant PROGRAM
"""

import html.parser
import json
import re
import sys

from habits_test import TINY, expect, run_checks

HOSTILE = '</script><script>alert(1)</script><img src=x onerror=alert(1)>"\' \x00 \u0001'
JOB = ["-c", "dgx-h100:nodes=1", "--global-batch", "8"]
VOID = {"meta", "img"}


class Page(html.parser.HTMLParser):
    """The elements of a page: whether they are closed in order, and what they are."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.wrong, self.handlers, self.links, self.ids = [], [], [], [], [], []
        self.figures = self.captions = 0
        self.text = ""
        self.feed(text)
        self.close()
        self.wrong += self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        names = dict(attributes)
        self.handlers += [name for name in names if name.startswith("on")]
        self.links += [names[key] for key in ("href", "src") if key in names]
        if "id" in names:
            self.ids.append(names["id"])
        self.captions += "origin" in (names.get("class") or "").split()
        self.figures += tag == "figure"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        self.text += data


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first, second):
    """Of WCAG 2: 4.5 is what text needs, 3 what shapes need."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def check_contrast(program):
    """Text can be read on what lies below it, in light and in dark."""
    page_of(program, TINY, *JOB, "--strategy", "dp=2")
    style = re.search(r"<style>(.*?)</style>", (program.folder / "page.html").read_text(), re.DOTALL).group(1)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in re.findall(r":root \{(.*?)\}", style, re.DOTALL))
    expect(light.keys() == dark.keys() and len(light) > 15, "light and dark have other colours")
    for colours in (light, dark):
        for text in ("ink", "soft", "accent", "good", "bad", "warn"):
            for ground in ("paper", "card"):
                expect(contrast(colours[text], colours[ground]) >= 4.5, f"{text} {colours[text]} on {ground}")
        for fill in ["grey"] + [f"c{i}" for i in range(8)]:
            expect(contrast(colours["on-fill"], colours[fill]) >= 4.5, f"text on {fill} {colours[fill]}")
            expect(contrast(colours["paper"], colours[fill]) >= 3, f"{fill} {colours[fill]} on paper")


def page_of(program, *what, code=0):
    program.run("report", *what, "-o", "page.html").expect_code(code)
    return checked((program.folder / "page.html").read_text(encoding="utf-8"))


def checked(text):
    """What holds of every page."""
    page = Page(text)
    expect(not page.wrong, f"elements are not closed in order: {page.wrong[:5]}")
    expect("script" not in page.tags and not page.handlers, f"a page has scripts: {page.handlers}")
    expect(all(link.startswith(("#", "data:")) for link in page.links), f"a page loads {page.links}")
    expect(all(link[1:] in page.ids for link in page.links if link.startswith("#")),
           "a link of the page leads nowhere")
    expect(len(set(page.ids)) == len(page.ids), "two elements have one id")
    expect(page.figures >= 1 and page.captions >= page.figures,
           f"{page.figures} figures have {page.captions} origins")
    expect(len(text) < 5_000_000, f"a page of {len(text)} bytes")
    return page


def search_plan(program, folder, *options):
    program.run("search", TINY, *JOB, "--out", folder, *options).expect_code(0)
    return f"{folder}/plan.json"


def check_plan_page(program):
    plan = search_plan(program, "plans")
    page = page_of(program, plan)
    for part in ("Model and plan", "Mesh and stages", "Words per layer", "Where the step goes", "Timeline",
                 "Memory over time", "What moves between devices", "Links", "Search and certificate",
                 "Where the numbers come from"):
        expect(part in page.text, f"the page of a plan has no part '{part}'")
    shown = program.run("simulate", plan).out
    step = re.search(r"step ([0-9.]+ [mun]?s),", shown).group(1)
    expect(step in page.text, f"the page does not have the step of simulate, {step}")
    first = (program.folder / "page.html").read_bytes()
    page_of(program, plan)
    expect((program.folder / "page.html").read_bytes() == first, "two pages of one plan differ")
    document = program.run("report", plan, "-o", "page.html", "--json").expect_code(0).document()
    expect(document["subjects"] == [{"kind": "plan", "name": plan}] and document["bytes"] == len(first),
           f"the document says {document}")
    folder = page_of(program, "plans")
    expect("Timeline" in folder.text, "a folder of search is no plan")
    front = page_of(program, plan, "--pareto", "--time-limit", "1s")
    expect("no other one beats these in both" in front.text, "--pareto draws no front")


def check_ranks(program):
    """What grows with ranks is said of classes."""
    sizes = []
    for nodes, dp in ((1, 4), (512, 2048)):
        job = ["-c", f"dgx-h100:nodes={nodes}", "--strategy", f"dp={dp} pp=2", "--global-batch", str(4 * dp)]
        page_of(program, TINY, *job)
        sizes.append((program.folder / "page.html").stat().st_size)
    expect(sizes[1] < 2 * sizes[0], f"pages of 8 and 4096 ranks take {sizes} bytes")


def train(program, folder):
    plan = search_plan(program, "plans", "--fix", "dp=2", "--overwrite")
    (program.folder / "text.txt").write_text("to be or not to be " * 50, encoding="utf-8")
    program.run("run", plan, "--data", "text.txt", "--steps", "6", "--profile", "1", "--out",
                folder).expect_code(0)
    return program.folder / folder


def check_run_page(program):
    run = train(program, "run")
    page = page_of(program, "run")
    for part in ("Loss and step time", "Predicted against measured", "The plan that ran", "6 of 6"):
        expect(part in page.text, f"the page of a run has no '{part}'")
    expect("measured" in page.text and "simulated" in page.text, "a run's page has one origin only")
    both = page_of(program, "plans/plan.json", "run")
    expect("2 subjects side by side" in both.text, "two subjects are not on one page")

    def refused(*parts):
        outcome = program.run("report", "run", "-o", "no.html").expect_code(3).expect_error(*parts)
        expect(not (program.folder / "no.html").exists(), f"a page was written: {outcome.command}")

    record, metrics = (run / "run.json").read_text(), (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(metrics[:-20])
    expect("has no end and is left out" in page_of(program, "run").text, "a cut line is not said")
    (run / "metrics.jsonl").write_text(metrics.replace('"loss"', '"los', 1))
    refused("run/metrics.jsonl:1")
    (run / "metrics.jsonl").write_text("")
    refused("run/metrics.jsonl: no step in it")
    (run / "metrics.jsonl").write_text(metrics)
    (run / "run.json").write_text(record.replace("run_record.v1", "run_record.v9"))
    refused("run/run.json: schema", "run_record.v9")
    (run / "run.json").write_text(record.replace('"complete"', '"failed"').replace('"asked_steps": 6', '"asked_steps": 9'))
    expect("This run was failed after 6 of 9 steps" in page_of(program, "run").text,
           "how a run ended is not said")
    (run / "run.json").unlink()
    refused("run/run.json: no such file", "was killed")


def row(point, **more):
    return {"schema": "sextant.result/1", "experiment": "toy", "point": point, "way": "simulated", "key": "0x1",
            "parameters": {"dp": 2}, "values": {"samples_per_s": 30.5, "step_s": 0.5}, "reference": {"samples_per_s": 29.65},
            "error": None, "seconds": 0.8, "machine": "host, 2 cores", "build": "0x2", "commit": "abc", "seed": "0",
            "spread": None, **more}


def write_experiment(program, rows, summary=None, tail=""):
    folder = program.folder / "toy"
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows) + tail, encoding="utf-8")
    (folder / "step.svg").write_text('<svg/>')
    (folder / "summary.json").write_text(json.dumps({
        "schema": "sextant.experiment/1", "experiment": "toy", "question": "why?", "expectation": "so",
        "baseline": "the other", "points": 4, "failed": 1, "columns": [
            {"key": "samples_per_s", "title": "samples", "unit": "1/s", "reference": "samples_per_s"},
            {"key": "step_s", "title": "step", "unit": "s", "reference": ""}],
        "shapes": [{"statement": "it scales", "holds": True, "detail": "2x"},
                   {"statement": "it is fast", "holds": False, "detail": ""},
                   {"statement": "it fits", "holds": None, "detail": "rows are missing"}],
        "figures": ["step.svg"], **(summary or {})}), encoding="utf-8")


def check_experiment_page(program):
    rows = [row("a", values={"samples_per_s": 1.625, "step_s": 9.0}), row("a"), row("b", reference={"samples_per_s": 60}),
            row("c", values={}, error={"code": "infeasible", "text": "too large " + HOSTILE}),
            row("a", way="measured", values={"samples_per_s": 7.25, "step_s": 3.0}, spread=0.02),
            row("x", experiment="other")]
    write_experiment(program, rows, tail='{"schema": "sextant.res')
    page = page_of(program, "toy")
    for part in ("why?", "it scales", "does not hold", "cannot be said", "Rows, simulated", "Rows, measured", "7.25",
                 "infeasible", "1.03", "has no end and is left out", "1 row of other experiments"):
        expect(part in page.text, f"the page of an experiment has no '{part}'")
    expect("1.625" not in page.text, "a row that a later one replaces is shown")
    columns = [{"key": "y", "title": "Y", "unit": "", "reference": "y"}]
    write_experiment(program, [row("a", values={"y": "S(0)"}, reference={"y": "S(0)"}), row("b", values={"y": "B"}, reference={"y": HOSTILE})],
                     {"columns": columns})
    words = page_of(program, "toy").text
    expect("equal" in words and "differs" in words and "S(0)" in words, "published words are not compared")
    write_experiment(program, rows, tail='{"schema": "sextant.res')
    expect("img" in page.tags, "a figure of the experiment is not shown")

    def refused(*parts, what="toy"):
        program.run("report", what, "-o", "no.html").expect_code(3).expect_error(*parts)

    write_experiment(program, [])
    refused("toy/results.jsonl: no row of toy", "sextant experiment toy")
    write_experiment(program, [row("a"), row("b", schema="sextant.result/2")])
    refused("toy/results.jsonl:2: schema", "sextant.result/2")
    write_experiment(program, [row("a"), row("b", way="guessed")])
    refused("toy/results.jsonl:2: way", "'guessed'")
    write_experiment(program, [row("a")], {"schema": "sextant.experiment/7"})
    refused("toy/summary.json: schema", "sextant.experiment/7")
    write_experiment(program, [row("a")], {"figures": ["../../etc/passwd"]})
    refused("toy/summary.json: figures[0]")
    (program.folder / "toy/summary.json").unlink()
    refused("toy/summary.json: no such file")
    (program.folder / "empty").mkdir()
    refused("empty: neither plan, run nor experiment", what="empty")


def check_hostile_names(program):
    """Names of files, of the model, of the cluster and in rows stay text."""
    cluster = program.run("cluster", "show", "dgx-h100:nodes=1", "--json").document()["cluster"]
    cluster["name"] = "<img src=x onerror=alert(1)>"
    (program.folder / "lab.json").write_text(json.dumps(cluster), encoding="utf-8")
    job = ["-c", "lab.json", "--strategy", "dp=2", "--global-batch", "4"]
    page = page_of(program, TINY, *job)
    expect("<img src=x onerror=alert(1)>" in page.text, "the cluster's name is not on the page")
    rows = [row("p" + HOSTILE, machine=HOSTILE, commit=HOSTILE, parameters={HOSTILE: HOSTILE})]
    write_experiment(program, rows, {"question": HOSTILE, "expectation": HOSTILE, "shapes": [
        {"statement": HOSTILE, "holds": None, "detail": HOSTILE}],
        "columns": [{"key": "step_s", "title": HOSTILE, "unit": HOSTILE, "reference": ""}]})
    page = page_of(program, "toy")
    expect("</script><script>alert(1)</script>" in page.text, "a hostile text is not on the page as text")
    (program.folder / "toy").rename(program.folder / "<b onclick=x>&amp;")
    page_of(program, "<b onclick=x>&amp;")


def check_arguments(program):
    plan = search_plan(program, "plans")
    program.run("report", plan).expect_code(2).expect_error("--output")
    program.run("report", plan, "-o", plan).expect_code(2).expect_error("same file")
    program.run("report", plan, "-o", "none/such/page.html").expect_code(0)
    program.run("report", "none.json", "-o", "p.html").expect_code(3).expect_error("none.json: no such file")
    program.run("report", "gpt2-124m", "-o", "p.html").expect_code(2).expect_error("a model needs a strategy")
    program.run("report", plan, TINY, "-c", "dgx-h100:nodes=1", "-o", "p.html").expect_code(2).expect_error("one MODEL")
    program.run("report", plan, "-o", "dry.html", "--dry-run").expect_code(0)
    expect(not (program.folder / "dry.html").exists(), "a dry run wrote a page")


def check_diff(program):
    first = search_plan(program, "a", "--fix", "dp=4", "--fix", "tp=1", "--fix", "pp=1")
    second = search_plan(program, "b", "--fix", "dp=2", "--fix", "tp=2", "--fix", "pp=1")
    said = program.run("plan", "diff", first, second).expect_code(0).out
    expect("dp" in said and "exposed communication" in said and "fullest device" in said, f"plan diff says {said}")
    document = program.run("plan", "diff", first, second, "--json").expect_code(0).document()
    stated = {one["key"]: (one["first"], one["second"]) for one in document["stated"]}
    expect(stated["dp"] == ("4", "2") and stated["tp"] == ("1", "2"), f"stated: {stated}")
    expect(any("tp S(" in one["second"] for one in document["words"]), "no words are different")
    for side in ("first", "second"):
        shown = program.run("simulate", {"first": first, "second": second}[side], "--json").document()
        expect(document[side]["step_time_s"] == shown["step_time_s"], f"{side}: another step than simulate's")
        parts = sum(term[side] for term in document["time"])
        expect(abs(parts / shown["step_time_s"] - 1) < 1e-9, f"the parts of {side} are not its step")
        expect(sum(term[side] for term in document["memory"]) == document[side]["needed_memory_bytes"],
               f"the memory of {side} does not add up")
    same = program.run("plan", "diff", first, first, "--json").expect_code(0).document()
    expect(same["stated"] == [] and same["words"] == [] and
           all(term["difference"] == 0 for key in ("time", "memory", "boxing") for term in same[key]),
           "a plan differs from itself")
    program.run("plan", "diff", first, "none.json").expect_code(3).expect_error("none.json")


def check_convert(program):
    plan = program.folder / search_plan(program, "plans")
    text = plan.read_text(encoding="utf-8")
    (program.folder / "edited.json").write_text(json.dumps(json.loads(text)), encoding="utf-8")
    document = program.run("plan", "convert", "edited.json", "-o", "new.json", "--json").expect_code(0).document()
    expect(document["version"] == 1 and document["was_canonical"] is False, f"convert says {document}")
    expect((program.folder / "new.json").read_text(encoding="utf-8") == text, "another plan came out")
    said = program.run("plan", "convert", "new.json", "-o", "again.json").expect_code(0).out
    expect("the only one there is" in said and "the same bytes" in said, f"convert says {said}")
    for version, what in ((2, "newer"), (0, "older")):
        (program.folder / "other.json").write_text(text.replace('"version": 1', f'"version": {version}', 1))
        program.run("plan", "convert", "other.json", "-o", "x.json").expect_code(3).expect_error(
            "other.json: version", f"plan version {version} is {what} than version 1")
    expect(not (program.folder / "x.json").exists(), "a refused plan was written")
    program.run("plan", "convert", "new.json", "-o", "new.json").expect_code(2).expect_error("same file")


if __name__ == "__main__":
    sys.exit(run_checks(check_plan_page, check_contrast, check_ranks, check_run_page, check_experiment_page, check_hostile_names,
                        check_arguments, check_diff, check_convert))
