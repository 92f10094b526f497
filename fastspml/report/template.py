"""The frame of a report: HTML around its sections, and the style of its text and tables."""

from __future__ import annotations

from string import Template

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<main>
<header><h1>$title</h1>
<p class="lead">$lead</p></header>
$sections
<footer>Made by fastspml $version.</footer>
</main>
</body>
</html>
""")

PAGE_STYLE = """
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);
font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
main{max-width:62rem;margin:0 auto;padding:1.5rem 1rem 3rem;overflow-wrap:anywhere}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem}
h2{font-size:1.25rem;margin:2.4rem 0 .3rem;padding-top:.6rem;border-top:1px solid var(--rule)}
h3{font-size:1rem;margin:1.4rem 0 .4rem}
p{margin:.3rem 0 .8rem;max-width:44rem}
.lead{font-size:1.1rem}
.says,footer,figcaption{color:var(--soft)}
.remarks{padding-left:1.2rem;color:var(--soft);font-size:.88rem;max-width:52rem}
.scroll{overflow-x:auto;width:fit-content;max-width:100%;
background:linear-gradient(270deg,var(--paper) 60%,transparent) right/2.5rem 100% no-repeat local,
linear-gradient(270deg,var(--shade),transparent) right/1.2rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.88rem;font-variant-numeric:tabular-nums;margin:.4rem 0 1rem}
th,td{padding:.2rem 0 .2rem 1rem;text-align:right;vertical-align:bottom;unicode-bidi:isolate}
td{white-space:nowrap}
th:first-child,td:first-child{text-align:left;padding-left:0;min-width:5.5rem;white-space:normal;overflow-wrap:anywhere}
td{border-top:1px solid var(--rule)}
th{font-weight:600;overflow-wrap:normal}
tr.total td{font-weight:700}
.settings td,.settings th{text-align:left;white-space:normal}
dl{margin:.3rem 0 1rem;font-size:.88rem;max-width:44rem}
dt{font-weight:600;float:left;clear:left;margin-right:.5rem}
dd{margin:0 0 .2rem}
svg{display:block;width:100%;height:auto}
figure{margin:.4rem 0 1rem;max-width:30rem}
figcaption{font-size:.88rem}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:.4rem 2rem}
.pair figure{max-width:28rem}
.words{display:grid;grid-template-columns:repeat(auto-fill,minmax(9.5rem,1fr));gap:0 1.6rem}
.words .scroll{width:auto}
.words table{width:100%}
.node{border-left:3px solid var(--rule);padding:.05rem 0 .05rem .8rem;margin:0 0 .9rem;font-size:.88rem}
.node.best{border-color:var(--c0)}
.node.worst{border-color:var(--c1);border-left-style:dashed}
.node p{margin:.1rem 0}
bdi{font-weight:600}
@media (max-width:30rem){
th,td{padding-left:.65rem}
table{font-size:.82rem}
.numbers th:first-child,.numbers td:first-child{position:sticky;left:0;background:var(--paper);min-width:4rem}
}
@media print{
@page{margin:15mm}
html{font-size:9.5pt}
main{max-width:none;padding:0}
h2,h3,.says{break-after:avoid}
p,figure,.node,.scroll,section section{break-inside:avoid}
.scroll{overflow:visible;background:none}
.pair{grid-template-columns:1fr 1fr}
}
"""
