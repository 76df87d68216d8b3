"""The style sheet of reports: light and dark, with colours that colour-blind readers can tell apart."""

from typing import Final

PLOTS: Final = """
:root{--paper:#fff;--panel:#fff;--ink:#1b2127;--muted:#59636e;--rule:#d5dae0;--grid:#e8ebee;
--use:#b7d7ea;--edge:#0072b2;--other:#b34f00;--over:#d55e00;--ground:#fdf0e6;--box:#9cc7e0}
@media (prefers-color-scheme:dark){:root{--paper:#12161b;--panel:#12161b;--ink:#e6e9ed;--muted:#a3adb8;
--rule:#39424d;--grid:#262d35;--use:#1d4a68;--edge:#56b4e9;--other:#f0a860;--over:#e69f00;--ground:#3a2a12;
--box:#2b6288}}
.plot text{font:11px system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;fill:var(--ink)}
.plot .tick{fill:var(--muted);font-variant-numeric:tabular-nums}
.plot .name{font-size:12px}.plot .small{font-size:9px}
.plot .number{fill:var(--muted);font-variant-numeric:tabular-nums}
.plot .head{font-size:13px;font-weight:600}.plot .title{font-size:20px;font-weight:600}
.plot .section{font-size:15px;font-weight:600}
.plot .page{fill:var(--paper)}
.plot .base{stroke:var(--muted);stroke-width:1}.plot .grid{stroke:var(--grid);stroke-width:1}
.plot .use{fill:var(--use)}.plot .edge{fill:none;stroke:var(--edge);stroke-width:1.5}
.plot .edge-other{fill:none;stroke:var(--other);stroke-width:1.5;stroke-dasharray:5 3}
.plot .nominal{fill:none;stroke:var(--ink);stroke-width:1.25;stroke-dasharray:4 3}
.over-stripe{stroke:var(--over);stroke-width:1.6;fill:none}.over-ground{fill:var(--ground)}
.plot .whisker{stroke:var(--edge);stroke-width:1.5}.plot .median{stroke:var(--ink);stroke-width:2.5}
.plot .box{fill:var(--box);stroke:var(--edge);stroke-width:1}
.plot .box.other{fill:var(--ground);stroke:var(--other);stroke-dasharray:3 2}
.plot .most{fill:none;stroke:var(--edge);stroke-width:1.5}
.plot .loss{stroke:var(--over);stroke-width:1}
.plot .waits{stroke:var(--muted);stroke-width:1.5}.plot .run{fill:var(--edge)}
.plot .evicted{fill:none;stroke:var(--over);stroke-width:1}
"""
"""What plots need, wherever they are shown."""
PAGE: Final = """
*{box-sizing:border-box}
html{background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
body{max-width:1080px;margin:0 auto;padding:32px 24px 64px;overflow-wrap:anywhere}
h1{font-size:26px;line-height:1.25;margin:0 0 4px}h2{font-size:19px;margin:44px 0 4px}
h3{font-size:14px;margin:0;font-weight:600}
p{margin:4px 0 12px;max-width:76ch}.muted,figcaption,summary,caption{color:var(--muted)}
ul.notes{margin:12px 0;padding:10px 12px 10px 30px;border:1px solid var(--rule);border-radius:6px;max-width:100%}
dl.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:0 32px;margin:24px 0 0}
dl.tiles>div{border-top:2px solid var(--rule);padding:8px 0 12px}
dl.tiles dt{color:var(--muted);font-size:13px}dl.tiles dd{margin:0}
dl.tiles .figure{font-size:25px;line-height:1.25;font-weight:600;font-variant-numeric:tabular-nums}
dl.tiles .more{color:var(--muted);font-size:13px}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:24px 28px;margin:16px 0}
figure{margin:0;min-width:0}figcaption{font-size:13px;margin:0 0 6px}
figcaption .label{display:block;color:var(--ink);font-weight:600}
.plot{display:block;width:100%;height:auto}
.wide{overflow-x:auto;margin:12px 0}.wide>.plot{min-width:680px}
.tall{max-height:640px;overflow:auto;border:1px solid var(--rule);border-radius:6px;padding:8px}
.tall:focus-visible,.wide:focus-visible,summary:focus-visible{outline:2px solid var(--edge);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-size:13.5px;margin:8px 0}
caption{text-align:left;padding:4px 0}
th,td{text-align:left;vertical-align:top;padding:5px 16px 5px 0;border-bottom:1px solid var(--rule)}
th{font-weight:600;color:var(--muted);white-space:nowrap}tbody th{color:var(--ink);font-weight:500;white-space:normal;
min-width:9em}
.whole,.end{white-space:nowrap}.end{text-align:right;font-variant-numeric:tabular-nums}
th.end+th:not(.end),td.end+td:not(.end){padding-left:8px}
details{margin:4px 0 14px}summary{cursor:pointer;font-size:13px;padding:4px 0}
footer{margin-top:56px;border-top:1px solid var(--rule);padding-top:12px;font-size:13px;color:var(--muted)}
ul.keys{list-style:none;display:flex;flex-wrap:wrap;gap:4px 22px;margin:8px 0;padding:0;
font-size:13px;color:var(--muted)}
ul.keys .plot{display:inline-block;width:34px;height:14px;vertical-align:-2px;margin-right:7px}
@media print{body{max-width:none;padding:0}.tall{max-height:none}details{display:none}}
"""
"""What the page around the plots needs."""
