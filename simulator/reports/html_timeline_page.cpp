// A canvas that draws only what is in view: rows of lanes of slices. Slices narrower than a pixel
// become one mark, so a step of a million launches stays smooth. No file but this one is loaded.

#include "simulator/reports/html_timeline_page.h"

namespace sextant {

const std::string_view kHtmlTimelinePage = R"PAGE(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Sextant timeline</title>
<style>
body { font: 13px sans-serif; margin: 12px; color: #222; background: #fff; }
h1 { font-size: 17px; margin: 0 0 4px; }
#notes div, #help { color: #555; }
.bar { display: flex; height: 22px; margin: 8px 0; border: 1px solid #999; max-width: 1100px; }
.legend { margin-bottom: 4px; }
.legend span { display: inline-block; margin-right: 14px; }
.legend i { display: inline-block; width: 11px; height: 11px; margin-right: 4px; }
#view { position: relative; border: 1px solid #999; height: 70vh; margin-top: 8px; }
canvas { display: block; width: 100%; height: 100%; cursor: grab; }
#tip { position: fixed; display: none; background: #222; color: #fff; padding: 4px 8px;
  pointer-events: none; max-width: 60vw; white-space: pre-line; z-index: 2; }
</style></head><body>
<h1 id="title"></h1><div id="notes"></div><div class="bar" id="parts"></div>
<div class="legend" id="shares"></div><div class="legend" id="legend"></div>
<div id="help">Wheel: zoom in time; shift and wheel, or drag: move; double click: all. <label>
<input type="checkbox" id="fit"> all rows in view</label> <label>search <input id="search" size="24">
</label> <span id="found"></span></div>
<div id="view"><canvas id="canvas"></canvas></div><div id="tip"></div>
<script type="application/json" id="data">@DATA@</script>
<script>
"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const colours = ["#888888", "#4c78a8", "#9ecae9", "#f58518", "#ffbf79", "#54a24b", "#e45756", "#b279a2"];
const names = data.colours;
const partColours = ["#4c78a8", "#54a24b", "#e45756", "#888888", "#bbbbbb"];
const byId = id => document.getElementById(id);
const LABEL = 210, TOP = 24, FIELDS = 5;

function timeText(ns) {
  if (ns === 0) return "0";
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["us", 1e3]])
    if (Math.abs(ns) >= size) return (ns / size).toPrecision(4) + " " + unit;
  return ns.toPrecision(4) + " ns";
}
function bytesText(bytes) {
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (bytes >= size) return (bytes / size).toPrecision(3) + " " + unit;
  return bytes + " B";
}
function add(parent, tag, text, style) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (style) element.style.cssText = style;
  parent.appendChild(element);
  return element;
}

byId("title").textContent = data.title;
document.title = data.title;
for (const note of data.notes) add(byId("notes"), "div", note);
if (data.all_rows > data.rows.length)
  add(byId("notes"), "div", data.rows.length + " of " + data.all_rows + " different rows are shown");
function addLegend(parent, colour, text) {
  const item = add(parent, "span", "");
  add(item, "i", "", "background:" + colour);
  item.appendChild(document.createTextNode(text));
}
data.parts.forEach((part, i) => {
  const share = data.step_s > 0 ? part.mean / data.step_s : 0;
  const text = part.name + " " + (100 * share).toFixed(1) + " %";
  const piece = add(byId("parts"), "span", "", "background:" + partColours[i] + ";width:" + 100 * share + "%");
  piece.title = text + ": " + timeText(part.mean * 1e9) + ", ranks from " + timeText(part.min * 1e9) +
    " to " + timeText(part.max * 1e9);
  addLegend(byId("shares"), partColours[i], text);
});
names.forEach((name, i) => addLegend(byId("legend"), colours[i], name));

const laneHeight = queue => queue === "compute" ? 16 : 7;
function fullHeight(row) {
  return 6 + row.lanes.reduce((sum, lane) => sum + laneHeight(lane.queue), 0);
}
const memoryHeight = data.memory.length > 0 ? 46 : 0;
const rowsHeight = data.rows.reduce((sum, row) => sum + fullHeight(row), 0);

const canvas = byId("canvas"), context = canvas.getContext("2d");
const view = { from: 0, to: data.span_ns || 1, top: 0 };
let places = [];  // of lanes drawn: what the pointer may be over
let wanted = null;  // numbers of the texts that are searched for

function size() {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return [width, height];
}
function firstAfter(slices, time) {  // the first slice that ends after `time`
  let low = 0, high = slices.length / FIELDS;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (slices[middle * FIELDS] + slices[middle * FIELDS + 1] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
function drawLane(lane, y, height, width) {
  const scale = (width - LABEL) / (view.to - view.from), slices = lane.slices;
  const count = slices.length / FIELDS;
  let covered = -1;  // pixels up to here have a mark already
  for (let i = firstAfter(slices, view.from); i < count; ++i) {
    const begin = slices[i * FIELDS];
    if (begin > view.to) break;
    const x = Math.max(LABEL, LABEL + (begin - view.from) * scale);
    const right = Math.min(width, LABEL + (begin + slices[i * FIELDS + 1] - view.from) * scale);
    if (right - x < 1 && Math.floor(x) <= covered) continue;
    covered = Math.floor(Math.max(right, x));
    const text = slices[i * FIELDS + 2];
    context.globalAlpha = wanted && !wanted.has(text) ? 0.15 : 1;
    context.fillStyle = colours[slices[i * FIELDS + 3]];
    context.fillRect(x, y, Math.max(right - x - (right - x > 4 ? 0.5 : 0), 1), height);
    if (right - x > 48 && height >= 12) {
      context.fillStyle = "#fff";
      context.save();
      context.beginPath();
      context.rect(x, y, right - x, height);
      context.clip();
      context.fillText(data.texts[text], x + 3, y + height - 4);
      context.restore();
    }
  }
  context.globalAlpha = 1;
  places.push({ y, height, lane });
}
function drawAxis(width, height) {
  const span = view.to - view.from, rough = span / 8, power = Math.pow(10, Math.floor(Math.log10(rough)));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => s >= rough);
  context.fillStyle = "#555";
  context.strokeStyle = "#e4e4e4";
  for (let k = Math.ceil(view.from / step); k * step <= view.to; ++k) {
    const x = LABEL + (k * step - view.from) / span * (width - LABEL);
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, height);
    context.stroke();
    context.fillText(timeText(k * step), x + 2, 14);
  }
}
function drawMemory(track, y, width, most) {
  const windows = track.bytes.length, scale = (width - LABEL) / (view.to - view.from);
  context.fillStyle = "#dfe7ef";
  track.bytes.forEach((bytes, i) => {
    const x = LABEL + (i / windows * data.span_ns - view.from) * scale;
    const next = LABEL + ((i + 1) / windows * data.span_ns - view.from) * scale;
    const h = most > 0 ? bytes / most * (memoryHeight - 8) : 0;
    if (next > LABEL && x < width)
      context.fillRect(Math.max(x, LABEL), y + memoryHeight - 4 - h, Math.min(next, width) - Math.max(x, LABEL), h);
  });
  context.fillStyle = "#222";
  context.fillText("memory of " + track.name, 4, y + 18);
  context.fillText("at most " + bytesText(Math.max(...track.bytes)), 4, y + 31);
}
function draw() {
  const [width, height] = size();
  const fit = byId("fit").checked;
  const room = height - TOP, total = rowsHeight + memoryHeight * data.memory.length;
  const squeeze = fit ? Math.min(1, room / total) : 1;
  view.top = fit ? 0 : Math.max(0, Math.min(view.top, total - room));
  context.clearRect(0, 0, width, height);
  context.font = "11px sans-serif";
  drawAxis(width, height);
  places = [];
  let y = TOP - view.top;
  for (const row of data.rows) {
    const full = fullHeight(row) * squeeze;
    if (y + full > TOP - 1 && y < height) {
      if (full >= 11) {
        context.fillStyle = "#222";
        context.save();
        context.beginPath();
        context.rect(0, y, LABEL - 6, full);
        context.clip();
        context.fillText(row.label, 4, y + 14);
        context.restore();
      }
      let laneY = y + 3 * squeeze;
      for (const lane of row.lanes) {
        const laneFull = laneHeight(lane.queue) * squeeze;
        drawLane(lane, laneY, Math.max(laneFull - 1, 0.8 * squeeze), width);
        places[places.length - 1].row = row;
        laneY += laneFull;
      }
    }
    y += full;
  }
  const most = Math.max(1, ...data.memory.map(track => Math.max(...track.bytes)));
  for (const track of data.memory) {
    if (y > TOP - memoryHeight && y < height) drawMemory(track, y, width, most);
    y += memoryHeight * squeeze;
  }
  context.fillStyle = "#fff";
  context.fillRect(0, 0, LABEL - 4, TOP - 2);
}
let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; draw(); });
}
function timeAt(x) {
  return view.from + (x - LABEL) / (canvas.clientWidth - LABEL) * (view.to - view.from);
}
function look(from, to) {
  const span = Math.min(Math.max(to - from, 1), data.span_ns || 1);
  view.from = Math.max(0, Math.min(from, (data.span_ns || 1) - span));
  view.to = view.from + span;
  redraw();
}
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  if (event.shiftKey) {
    view.top += event.deltaY || event.deltaX;
    redraw();
    return;
  }
  const time = timeAt(event.offsetX), factor = Math.exp(event.deltaY * 0.0015);
  look(time - (time - view.from) * factor, time + (view.to - time) * factor);
}, { passive: false });
let drag = null;
canvas.addEventListener("mousedown", event => {
  drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, top: view.top };
});
window.addEventListener("mouseup", () => { drag = null; });
canvas.addEventListener("mousemove", event => {
  if (drag) {
    const shift = (event.clientX - drag.x) / (canvas.clientWidth - LABEL) * (drag.to - drag.from);
    view.top = drag.top - (event.clientY - drag.y);
    look(drag.from - shift, drag.to - shift);
    return;
  }
  const tip = byId("tip"), text = textAt(event.offsetX, event.offsetY);
  tip.style.display = text ? "block" : "none";
  tip.textContent = text;
  tip.style.left = event.clientX + 14 + "px";
  tip.style.top = event.clientY + 14 + "px";
});
canvas.addEventListener("mouseleave", () => { byId("tip").style.display = "none"; });
canvas.addEventListener("dblclick", () => look(0, data.span_ns || 1));
function textAt(x, y) {
  const place = places.find(p => y >= p.y && y < p.y + p.height + 1);
  if (!place) return "";
  const time = timeAt(x), slices = place.lane.slices;
  const pixel = (view.to - view.from) / (canvas.clientWidth - LABEL);
  const i = firstAfter(slices, time - pixel);
  if (x < LABEL || i * FIELDS >= slices.length || slices[i * FIELDS] > time + pixel)
    return place.row.label + "\n" + place.lane.queue;
  return data.texts[slices[i * FIELDS + 2]] + "\nact " + slices[i * FIELDS + 4] + ", " +
    timeText(slices[i * FIELDS + 1]) + " from " + timeText(slices[i * FIELDS]) + "\n" + place.row.label +
    "\n" + place.lane.queue;
}
byId("fit").addEventListener("change", redraw);
byId("search").addEventListener("input", event => {
  const part = event.target.value.toLowerCase();
  wanted = part ? new Set() : null;
  if (part) data.texts.forEach((text, i) => { if (text.toLowerCase().includes(part)) wanted.add(i); });
  byId("found").textContent = part ? wanted.size + " names" : "";
  redraw();
});
window.addEventListener("resize", redraw);
byId("fit").checked = data.rows.length > 24;
redraw();
</script></body></html>
)PAGE";

}  // namespace sextant
