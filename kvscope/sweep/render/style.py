"""How the page looks, light and dark, wide and narrow. Nothing is loaded from anywhere."""

from __future__ import annotations

from kvscope.analysis.render.palette import GLYPH, GROUND

COLOURS = {"push-early": "#4c78d8", "push-sequential": "#c9549a", "pull": "#789a2c", "target": "#7d7d7d"}
"""Of the modes: none is a class's colour, and all are legible on both grounds; each has a mark of its own, too."""

STYLE = (
    """
:root { --ground: #ffffff; --panel: #f5f6f8; --ink: #15181d; --dim: #5c6470; --line: #d5d9e0; --track: #e9ecf1; }
@media (prefers-color-scheme: dark) {
:root { --ground: #16191f; --panel: #1d2129; --ink: #d8dce3; --dim: #98a1af; --line: #343a45; --track: #2a303a; }
}
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0 auto; max-width: 1180px; padding: 28px 24px 60px; background: var(--ground); color: var(--ink);
font: 15px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 24px; margin: 0 0 2px; line-height: 1.25; }
h2 { font-size: 18px; margin: 38px 0 8px; padding-top: 14px; border-top: 1px solid var(--line); }
h3 { font-size: 15px; margin: 22px 0 6px; }
p { margin: 4px 0 10px; max-width: 78ch; }
.settings { max-width: 92ch; }
.dim { color: var(--dim); }
ul { margin: 8px 0; padding-left: 20px; max-width: 92ch; }
li { margin: 3px 0; }
.headlines { list-style: none; padding: 12px 16px; background: var(--panel); border-left: 3px solid #4c78d8;
max-width: none; }
.panels { display: flex; flex-wrap: wrap; gap: 18px; }
.panel { flex: 1 1 320px; max-width: 560px; background: var(--panel); padding: 12px 14px; margin: 0; }
.panel figcaption { font-weight: 600; margin-bottom: 4px; }
svg { display: block; width: 100%; overflow: visible; }
svg text { font: 11px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: var(--ink); }
svg text.dim { fill: var(--dim); }
svg text.on { fill: """
    + GLYPH
    + """; }
.axis { stroke: var(--line); stroke-width: 1; }
.zero { stroke: var(--dim); stroke-width: 1; }
.track { fill: var(--track); }
.hollow { fill: var(--panel); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 6px 0 12px; padding: 0; list-style: none; }
.legend svg { display: inline-block; width: 26px; height: 14px; vertical-align: -2px; }
.rows { display: grid; grid-template-columns: 210px 1fr 270px; gap: 6px 14px; align-items: center; }
.rows .wide { grid-column: 1 / -1; }
.rows .number, td { font-variant-numeric: tabular-nums; }
.rows .number { font-size: 13px; }
.scroll { overflow-x: auto; margin: 8px 0 14px; }
table { border-collapse: collapse; font-size: 13px; min-width: 100%; overflow-wrap: normal; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 600; }
td, th { white-space: nowrap; }
td small { color: var(--dim); font-size: 12px; }
td.wrap { white-space: normal; min-width: 190px; }
.sure { font-weight: 700; }
.few { color: var(--dim); font-style: italic; }
code { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }
a { color: inherit; }
@media (max-width: 720px) {
body { padding: 18px 14px 40px; }
h1 { font-size: 20px; }
.rows { grid-template-columns: 1fr; gap: 2px; }
.rows .number { margin-bottom: 10px; }
}
@media print { body { max-width: none; } .panel { break-inside: avoid; } }
"""
    + "".join(f".{cls.short} {{ fill: {colour}; }}\n" for cls, colour in GROUND.items())
    + "".join(f".{name} {{ fill: {colour}; stroke: {colour}; }}\n" for name, colour in COLOURS.items())
)
