"""Pages of `sextant report` in a real browser: no page wider than its window, no text over another, in time.

Runs where the distribution's chromium is installed; it is no dependency of anything else.

usage: report_browser_test.py --sextant PROGRAM
"""

import html
import json
import re
import shutil
import subprocess
import sys

from habits_test import expect, run_checks
from report_test import page_of, train, row, write_experiment

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser")
MOST_SECONDS = 2.0

# Added to a copy of the page, whose policy forbids scripts.
MEASURE = """<script>addEventListener("load", () => {
  const overlaps = [];
  for (const list of document.querySelectorAll(".x-labels, .y-labels")) {
    const boxes = [...list.querySelectorAll("span")].filter(one => getComputedStyle(one).display !== "none")
      .map(one => one.getBoundingClientRect());
    const key = list.className === "x-labels" ? ["left", "right"] : ["top", "bottom"];
    boxes.sort((a, b) => a[key[0]] - b[key[0]]);
    for (let i = 1; i < boxes.length; ++i)
      if (boxes[i][key[0]] < boxes[i - 1][key[1]] - 1) overlaps.push(list.textContent);
  }
  const root = document.documentElement, small = [];
  for (const one of document.querySelectorAll("body *"))
    if (one.firstChild && one.firstChild.nodeType === 3 && one.textContent.trim() && parseFloat(getComputedStyle(one).fontSize) < 11)
      small.push(one.className);
  parent.postMessage(JSON.stringify({ seconds: performance.now() / 1000, wide: root.scrollWidth - root.clientWidth,
    dark: getComputedStyle(document.body).backgroundColor, overlaps, small, plots: document.querySelectorAll(".plot, .lanes").length }), "*");
});</script></body>"""

FRAME = """<!DOCTYPE html><body style="margin:0"><iframe id="page" style="border:0;width:{width}px;height:900px"></iframe><script>
addEventListener("message", event => document.documentElement.setAttribute("data-measured", event.data));
document.getElementById("page").srcdoc = {page};
</script></body>"""


def measured(program, width, dark):
    """What the browser says of page.html in a window of that width."""
    page = (program.folder / "page.html").read_text(encoding="utf-8")
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace("</body>", MEASURE)
    frame = program.folder / "frame.html"
    frame.write_text(FRAME.format(width=width, page=json.dumps(page).replace("</", "<\\/")), encoding="utf-8")
    result = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={program.folder}/profile",
         f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--window-size=1300,1000",
         "--virtual-time-budget=20000", "--dump-dom", frame.as_uri()],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=120, check=True)
    found = re.search(r'data-measured="([^"]*)"', result.stdout)
    expect(found is not None, f"the browser measured nothing at {width}: {result.stdout[:200]}")
    return json.loads(html.unescape(found.group(1))) if found else {}


def look(program, what, *windows):
    for width, dark in windows:
        seen = measured(program, width, dark)
        where = f"{what} at {width} px"
        expect(seen["wide"] <= 0, f"{where} is {seen['wide']} px wider than its window")
        expect(not seen["overlaps"], f"{where} has texts over each other: {seen['overlaps'][:3]}")
        expect(not seen["small"], f"{where} has texts below 11 px: {seen['small'][:5]}")
        expect(seen["seconds"] < MOST_SECONDS, f"{where} opens in {seen['seconds']:.2f} s")
        is_dark = sum(map(int, re.findall(r"\d+", seen["dark"])[:3])) < 200
        expect(is_dark == dark, f"{where} has the background {seen['dark']}")
        print(f"{where}: {seen['seconds']:.2f} s, {seen['plots']} pictures")


def check_pages(program):
    page_of(program, "gpt:layers=16,hidden=64,heads=8,vocab=256,seq=8", "-c", "dgx-h100:nodes=2048", "--strategy",
            "dp=128 tp=8 pp=16 zero=1", "--global-batch", "2048")
    look(program, "a plan of 16384 ranks", (1280, False), (390, True))
    train(program, "run")
    page_of(program, "run")
    look(program, "a run", (390, False))
    write_experiment(program, [row(f"a-rather-long-name-of-a-point-{i}", reference={"samples_per_s": 20.0 + i})
                               for i in range(30)])
    page_of(program, "toy")
    look(program, "an experiment", (390, True))


if __name__ == "__main__":
    if BROWSER is None:
        print("skipped: no chromium here")
        sys.exit(77)
    sys.exit(run_checks(check_pages))
