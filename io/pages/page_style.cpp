// The style sheet: text of 15 pixels, one column of at most 70 rem, numbers in digits of one width.
//
// The palette is told apart by people who see no red or green, in order of use; in dark its
// members are lighter. Text on filled pieces is white in light and black in dark.
#include "io/pages/page.h"

namespace sextant {

const std::string_view kPageStyle = R"CSS(
:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f6f7f9; --ink: #1b1f24; --soft: #59636e; --line: #d5dae0;
  --accent: #0a5fb4; --on-fill: #ffffff; --good: #1a7f37; --bad: #b42318; --warn: #8a5a00;
  --c0: #2f6fb7; --c1: #b9540a; --c2: #1f7a4d; --c3: #b3305e; --c4: #6f4fb0; --c5: #00808a;
  --c6: #8a6d00; --c7: #5a6472; --grey: #6b7580;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --card: #1d2126; --ink: #e7eaee; --soft: #a3adb8; --line: #363d45;
    --accent: #79b8ff; --on-fill: #0d1014; --good: #57c278; --bad: #ff8a7d; --warn: #e3b341;
    --c0: #74aef2; --c1: #f0975a; --c2: #5fc48e; --c3: #ee82ab; --c4: #b39bf0; --c5: #4cc7d1;
    --c6: #d9bb4a; --c7: #a5afbc; --grey: #808b96;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1rem; }
body {
  margin: 0 auto; padding: 1.5rem clamp(.9rem, 3vw, 2rem) 3rem; max-width: 74rem;
  background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .2rem; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.6rem 0 .5rem; padding-top: 1rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 2rem 0 .4rem; }
h4 { font-size: .95rem; margin: 1.2rem 0 .2rem; }
p { margin: .4rem 0; max-width: 72ch; }
.subtitle, footer, .note { color: var(--soft); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: .87rem; }
a { color: var(--accent); }
nav ul { display: flex; flex-wrap: wrap; gap: .15rem 1rem; list-style: none; margin: .8rem 0 0; padding: 0; }
code, .code { font: .92em/1.45 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
section { min-width: 0; }

figure { margin: .6rem 0 1.4rem; min-width: 0; }
figcaption { display: grid; gap: .2rem; margin-top: .45rem; color: var(--soft); font-size: .87rem; }
figcaption div { display: flex; flex-wrap: wrap; gap: .1rem .6rem; align-items: baseline; }
.origin { border: 1px solid currentColor; border-radius: 1em; padding: 0 .6em; font-size: .8rem; line-height: 1.5; white-space: nowrap; color: var(--soft); }
.origin.simulated { color: var(--accent); }
.origin.measured { color: var(--good); }
.origin.assumed { color: var(--warn); }

.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .6rem; margin: .8rem 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .55rem .8rem; min-width: 0; }
.tile b { display: block; font-size: 1.3rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: .87rem; }
.warning { border-left: 4px solid var(--warn); background: var(--card); padding: .5rem .9rem; margin: .8rem 0; }
.good { color: var(--good); } .bad { color: var(--bad); } .open { color: var(--warn); }

.scroll { overflow-x: auto; margin: .5rem 0; border: 1px solid var(--line); border-radius: .5rem; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
table { border-collapse: collapse; width: 100%; font-size: .92rem; overflow-wrap: normal; }
th, td { text-align: left; padding: .32rem .7rem; vertical-align: top; border-top: 1px solid var(--line); }
thead th { border-top: 0; background: var(--card); font-weight: 600; white-space: nowrap; color: var(--soft); }
td { max-width: 32rem; min-width: 3.5rem; }
td:last-child:not(.number):not(:first-child) { min-width: 12rem; }
tbody:first-child tr:first-child td { border-top: 0; }
.tall { max-height: 36rem; overflow-y: auto; }
.tall thead th { position: sticky; top: 0; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
tbody tr:hover { background: var(--card); }
.cell-bar { display: inline-block; width: 5.5rem; height: .6em; margin-right: .6em; background: var(--line); border-radius: 2px; vertical-align: baseline; overflow: hidden; }
.cell-bar i { display: block; height: 100%; }

.share-bar { display: flex; height: 1.9rem; border-radius: .35rem; overflow: hidden; background: var(--line); margin: .5rem 0; }
.piece { display: block; color: var(--on-fill); font-size: .8rem; line-height: 1.9rem; text-align: center; overflow: hidden; white-space: nowrap; border-right: 1px solid var(--paper); }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; list-style: none; margin: .45rem 0; padding: 0; font-size: .87rem; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .45em; }

.dashes { height: 0; width: 1.6em; border-radius: 0; border-top: 2px dashed var(--ink); vertical-align: .25em; }

.c0 { background: var(--c0); fill: var(--c0); stroke: var(--c0); }
.c1 { background: var(--c1); fill: var(--c1); stroke: var(--c1); }
.c2 { background: var(--c2); fill: var(--c2); stroke: var(--c2); }
.c3 { background: var(--c3); fill: var(--c3); stroke: var(--c3); }
.c4 { background: var(--c4); fill: var(--c4); stroke: var(--c4); }
.c5 { background: var(--c5); fill: var(--c5); stroke: var(--c5); }
.c6 { background: var(--c6); fill: var(--c6); stroke: var(--c6); }
.c7 { background: var(--c7); fill: var(--c7); stroke: var(--c7); }
.grey { background: var(--grey); fill: var(--grey); stroke: var(--grey); }

svg { display: block; width: 100%; background: none; }
.plot { display: grid; grid-template-columns: auto auto minmax(0, 1fr); margin-top: .6rem; padding-right: 1.2rem; font-size: .8rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.plot-box { position: relative; height: clamp(13rem, 34vw, 20rem); grid-column: 3; border-left: 1px solid var(--soft); border-bottom: 1px solid var(--soft); }
.plot-box svg { position: absolute; inset: 0; height: 100%; overflow: visible; }
.plot-box path { vector-effect: non-scaling-stroke; }
.y-title { writing-mode: vertical-rl; transform: rotate(180deg); text-align: center; padding-left: .3rem; }
.y-labels { position: relative; padding-right: .5rem; }
.y-labels b { visibility: hidden; font-weight: inherit; }
.y-labels span { position: absolute; right: .5rem; transform: translateY(-50%); white-space: nowrap; }
.x-labels { position: relative; height: 1.5rem; grid-column: -2; }
.x-labels span { position: absolute; top: .25rem; transform: translateX(-50%); white-space: nowrap; }
.x-title { grid-column: -2; text-align: center; }
.grid { fill: none; stroke: var(--line); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.dot { fill: none; stroke-width: 9; stroke-linecap: round; }
.area { stroke: var(--paper); stroke-width: .5; }
.level { fill: none; stroke: var(--ink); stroke-width: 1.3; stroke-dasharray: 5 4; }

.lanes { display: grid; grid-template-columns: minmax(0, 13rem) minmax(0, 1fr); gap: 0 .8rem; align-items: center; margin-top: .6rem; padding-right: 1.2rem; font-size: .8rem; color: var(--soft); font-variant-numeric: tabular-nums; }
.lane-label { line-height: 1.25; color: var(--ink); }
.lane-box { border-bottom: 1px solid var(--line); padding: 3px 0; background: var(--card); }
.slice { stroke: none; }
.pale { opacity: .38; }

.stages { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: .6rem; margin: .6rem 0; }
.stage { border: 1px solid var(--line); border-radius: .5rem; overflow: hidden; background: var(--card); min-width: 0; }
.stage h4 { margin: 0; padding: .25rem .7rem; font-size: .92rem; color: var(--on-fill); }
.stage p { margin: .15rem .7rem; font-size: .87rem; }
.stage .cell-bar { display: block; width: 100%; margin: .3rem 0 .1rem; }
.nodes { display: flex; flex-wrap: wrap; gap: .6rem; margin: .6rem 0; }
.node { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem .5rem .5rem; }
.node > span { display: block; font-size: .8rem; color: var(--soft); margin-bottom: .25rem; }
.devices { display: grid; grid-template-columns: repeat(4, 2.6rem); gap: 3px; }
.device { color: var(--on-fill); border-radius: 3px; text-align: center; font-size: .75rem; line-height: 1.6rem; font-variant-numeric: tabular-nums; }
.device.idle { background: none; color: var(--soft); border: 1px dashed var(--line); }
.words { white-space: nowrap; }
.word { display: inline-block; border-radius: 3px; padding: 0 .35em; margin: 1px .2em 1px 0; border: 1px solid var(--line); white-space: nowrap; }
.word.split { border-color: var(--c0); color: var(--c0); }
.word.partial { border-color: var(--c3); color: var(--c3); }
.picture-file { display: block; max-width: 100%; height: auto; background: #fff; border-radius: .5rem; padding: .3rem; }
details { margin: .5rem 0; }
summary { cursor: pointer; color: var(--accent); }

@media (max-width: 40rem) {
  .lanes { grid-template-columns: minmax(0, 1fr); }
  .lane-label { margin-top: .4rem; }
  .lane-label:empty { display: none; }
  .x-labels span:nth-child(even) { display: none; }
  .plot-box { height: 15rem; }
  .stages { grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); }
}
@media print { body { max-width: none; } .scroll { overflow: visible; } }
)CSS";

}  // namespace sextant
