"""The style sheet of the page: light, dark, paper, telephone."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --panel: #f5f7f9; --ink: #1a1f26; --muted: #57616c; --line: #d5dbe1;
  --gain: #1764b0; --loss: #b4470b; --accent: #6a4bb5;
  --gain-soft: #e4eff9; --loss-soft: #fbeade;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #14181d; --panel: #1d2329; --ink: #e7ebef; --muted: #a3aeb9; --line: #3a434d;
    --gain: #74b7f5; --loss: #f79c5f; --accent: #b9a3f3;
    --gain-soft: #1b3044; --loss-soft: #43291a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; max-width: 72rem; padding: 1.5rem 1rem 4rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere;
}
h1, h2, h3 { line-height: 1.25; text-wrap: balance; }
h1 { font-size: 1.7rem; margin: 0 0 .25rem; }
h2 { font-size: 1.3rem; margin: 2.75rem 0 .5rem; padding-top: .75rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.75rem 0 .5rem; }
h4 { font-size: .95rem; margin: 1.25rem 0 .5rem; }
p { margin: .4rem 0; max-width: 50rem; }
a { color: var(--gain); }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; list-style: none; padding: 0;
  margin: .75rem 0; font-size: .9rem; }
.told, figcaption, .of { color: var(--muted); font-size: .9rem; }
.verdict { border-left: 4px solid var(--accent); background: var(--panel); padding: .9rem 1.1rem;
  margin: 1.25rem 0; border-radius: 0 .4rem .4rem 0; }
.verdict p { max-width: 60rem; }
.verdict .answer { font-size: 1.25rem; font-weight: 650; margin: 0 0 .3rem; }
.verdict.pays { border-color: var(--gain); }
.verdict.not { border-color: var(--loss); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1.25rem 0; padding: 0; }
.tiles div { border: 1px solid var(--line); border-radius: .4rem; padding: .6rem .8rem; }
.tiles dt { color: var(--muted); font-size: .82rem; }
.tiles dd { margin: 0; font-size: 1.4rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.tiles dd small { display: block; font-size: .8rem; font-weight: 400; color: var(--muted); }
.scroll { overflow-x: auto; margin: .75rem 0; max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; min-width: min(100%, 26rem); }
th, td { padding: .35rem .75rem; border-bottom: 1px solid var(--line); vertical-align: baseline;
  text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
thead th { color: var(--muted); font-weight: 600; border-bottom-width: 2px; }
tbody th { font-weight: 550; }
th:first-child { padding-left: 0; }
.word { text-align: left; white-space: normal; }
th.word { overflow-wrap: break-word; min-width: 7rem; }
td.word { min-width: 7.5rem; max-width: 40rem; }
thead th.word { white-space: nowrap; }
.gain { color: var(--gain); } .loss { color: var(--loss); }
.charts { display: grid; gap: 1.25rem 1.5rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19.5rem), 1fr)); }
.charts.large { grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 26rem; break-inside: avoid; }
.large figure { max-width: 36rem; }
.chart { display: block; width: 100%; height: auto; stroke-linejoin: round; overflow: visible; }
.chart text { font-family: inherit !important; }
.chart g[id*="label-"] text { paint-order: stroke; stroke: var(--paper); stroke-width: 2.5px; }
.chart g[id*="hover-"]:hover { opacity: .6; }
figcaption { margin-top: .35rem; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .75rem; }
summary b { display: block; font-size: .9rem; font-variant-numeric: tabular-nums; }
details > :not(summary) { margin-left: .75rem; margin-right: .75rem; }
.lists { display: grid; gap: .25rem 1.5rem; padding-bottom: .75rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
.lists ol { margin: 0; padding-left: 1.6rem; }
.lists li { margin: .5rem 0; font-size: .9rem; }
.lists p { margin: 0; }
.badge { border-radius: .25rem; padding: 0 .35rem; font-size: .8rem; background: var(--panel);
  color: var(--muted); border: 1px solid var(--line); white-space: nowrap; }
.badge.relevant { background: var(--gain-soft); color: var(--gain); border-color: currentColor;
  font-weight: 600; }
code, pre { font: .85em/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { white-space: pre-wrap; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
@media print {
  body { max-width: none; font-size: 10pt; padding: 0; }
  nav { display: none; }
  .scroll { overflow: visible; }
  h2, h3, summary { break-after: avoid; }
  tr, li { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .verdict, .badge, .tiles div { print-color-adjust: exact; }
}
"""
