"""The page of the service: a box to type in, the predicted links, and why each is predicted. One file, no framework."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from string import Template

from fastspml.service.link_service import LinkService

SHOWN_EXAMPLES = 4  # nodes that a visitor can try

STYLE = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#59636e;--rule:#d5dbe1;--accent:#0b62c4;--bar:#cfe2f8}
@media (prefers-color-scheme:dark){:root{--paper:#12161b;--ink:#e8ecf0;--soft:#9aa5b1;--rule:#323a43;
--accent:#79b8ff;--bar:#21456d}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,
Arial,sans-serif}
main{max-width:44rem;margin:0 auto;padding:1.5rem 1rem 3rem;overflow-wrap:anywhere}
h1{font-size:1.5rem;line-height:1.25;margin:0 0 .25rem}
p{margin:.25rem 0 1rem}
.soft,label{color:var(--soft);font-size:.9rem}
textarea,button{font:inherit;color:inherit}
textarea{width:100%;min-height:5.5rem;padding:.6rem .7rem;background:var(--paper);border:1px solid var(--soft);
border-radius:.5rem;resize:vertical}
.row{display:flex;flex-wrap:wrap;gap:.4rem 1rem;align-items:center;margin:.5rem 0 1rem}
button{cursor:pointer;border:1px solid var(--rule);border-radius:.5rem;background:none;padding:.35rem .8rem}
button.main{background:var(--accent);border-color:var(--accent);color:var(--paper);font-weight:600}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
ol{list-style:none;margin:0;padding:0}
li{border-top:1px solid var(--rule)}
li>button{display:flex;width:100%;gap:1rem;justify-content:space-between;align-items:baseline;text-align:left;
border:0;border-radius:0;padding:.55rem .1rem}
li>button b{color:var(--accent);font-weight:600}
li>button span{font-variant-numeric:tabular-nums;white-space:nowrap;color:var(--soft)}
.why{padding:0 .1rem .8rem}
table{width:100%;border-collapse:collapse;font-size:.9rem;margin:0 0 .6rem}
th{text-align:left;font-weight:400;padding:.1rem .6rem .1rem 0;width:50%}
td{padding:.1rem 0;font-variant-numeric:tabular-nums}
.bar{display:inline-block;height:.7rem;background:var(--bar);border-radius:.2rem;margin-right:.5rem;
vertical-align:baseline}
#message:empty{display:none}
"""

SCRIPT = """
'use strict';
const facts = JSON.parse(document.getElementById('facts').textContent);
const box = document.getElementById('box'), list = document.getElementById('links');
const message = document.getElementById('message');
let running = null, timer = 0;

// Names come from data: they are only ever set as text, with control characters written as escapes.
const visible = text => text.replace(/[\\p{C}\\p{Zl}\\p{Zp}]/gu, c => '\\\\u{' + c.codePointAt(0).toString(16) + '}');
const element = (tag, text, ...children) => {
  const made = document.createElement(tag);
  if (text) made.textContent = visible(text);
  made.append(...children);
  return made;
};
const number = value => Math.abs(value) < 1e-12 ? '0' : String(Number(value.toPrecision(3)));
const source = () => document.querySelector('input[name=source]:checked').value;

function search(wanted) {
  clearTimeout(timer);
  if (running) running.abort();
  const value = box.value.trim();
  if (!value) { list.replaceChildren(); message.textContent = ''; return; }
  running = new AbortController();
  fetch('links', {
    method: 'POST', headers: {'Content-Type': 'application/json'}, signal: running.signal,
    body: JSON.stringify({[source()]: value, reasons: 8}),
  }).then(reply => reply.json()).then(show).catch(error => {
    if (error.name === 'AbortError') return;
    list.replaceChildren();
    message.textContent = 'The service does not answer; is it still running?';
  });
}

function show(answer) {
  list.replaceChildren();
  if (answer.error) { message.textContent = visible(answer.error); return; }
  if (answer.is_blank) {
    message.textContent = 'The model has learned nothing about these words; use other ones.';
    return;
  }
  const unknown = answer.unknown.slice(0, 8).map(visible).join(', ');
  const more = answer.n_unknown > 8 ? ' and ' + (answer.n_unknown - 8) + ' more' : '';
  message.textContent = unknown ? 'Unknown to the model: ' + unknown + more + '.' : '';
  list.append(...answer.links.map(link => item(link, answer.ranked_by)));
}

function item(link, rankedBy) {
  const chance = link.probability === null
    ? (rankedBy === 'distance' ? 'distance ' + number(-link.score) : 'similarity ' + number(link.score))
    : number(100 * link.probability) + ' % likely';
  const button = element('button', '', element('b', link.candidate), element('span', chance));
  button.type = 'button';
  button.setAttribute('aria-expanded', 'false');
  const entry = element('li', '', button);
  button.addEventListener('click', () => {
    const opened = entry.querySelector('.why');
    if (opened) opened.remove(); else entry.append(why(link));
    button.setAttribute('aria-expanded', String(!opened));
  });
  return entry;
}

function why(link) {
  const part = element('div', '');
  part.className = 'why';
  const largest = Math.max(...link.reasons.map(reason => reason.shared));
  const rows = link.reasons.map(reason => {
    const same = reason.feature === reason.other;
    const bar = element('span', '');
    bar.className = 'bar';
    bar.style.width = (5 * reason.shared / largest) + 'rem';
    return element('tr', '', element('th', same ? reason.feature : reason.feature + ' ~ ' + reason.other),
      element('td', '', bar, number(reason.shared)));
  });
  if (rows.length) {
    const text = 'What the two have in common, and how much it adds:';
    part.append(element('p', text), element('table', '', element('tbody', '', ...rows)));
    part.firstChild.className = 'soft';
  } else {
    const rest = link.through ? '.' : '; nothing better was found.';
    part.append(element('p', 'The two have no feature in common' + rest));
  }
  if (link.through) {
    part.append(element('p', 'Most similar of the nodes that link to it: ', element('b', link.through)));
    part.lastChild.className = 'through';
  }
  const next = element('button', 'Links of this node');
  next.type = 'button';
  next.addEventListener('click', () => choose(link.candidate));
  part.append(next);
  return part;
}

function choose(name) {
  document.querySelector('input[value=node]').checked = true;
  box.value = name;
  search();
  box.focus();
}

document.getElementById('form').addEventListener('submit', event => { event.preventDefault(); search(); });
box.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(search, 300); });
box.addEventListener('keydown', event => {
  if (event.key === 'Enter' && !event.shiftKey) { event.preventDefault(); search(); }
});
document.querySelectorAll('input[name=source]').forEach(input => input.addEventListener('change', search));
document.getElementById('examples').append(...facts.examples.map(name => {
  const button = element('button', name);
  button.type = 'button';
  button.addEventListener('click', () => choose(name));
  return button;
}));
"""

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Links of $title</title>
<style>$style</style>
</head>
<body>
<main>
<h1>Links of $title</h1>
<p class="soft">$lead</p>
<form id="form">
<label for="box">$label</label>
<textarea id="box" autofocus spellcheck="false" placeholder="$placeholder"></textarea>
<div class="row">
$choices
<button class="main">Find links</button>
</div>
</form>
<div class="row soft" id="examples">Try:</div>
<p id="message" role="status"></p>
<ol id="links" aria-label="Predicted links, best first"></ol>
<noscript><p>This page needs JavaScript; without it, send POST /links as /openapi.json describes.</p></noscript>
</main>
<script type="application/json" id="facts">$facts</script>
<script>$script</script>
</body>
</html>
""")

SCRIPT_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()

PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src 'sha256-{SCRIPT_DIGEST}'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def search_page(service: LinkService) -> str:
    """Return the page of a service as HTML; it needs nothing but the service."""
    network = service.network
    probability = " with their probabilities" if service.calibration is not None else ""
    degrees = network.degrees
    examples = network.nodes[(-degrees).argsort(kind="stable")[:SHOWN_EXAMPLES]].tolist()
    if service.reads_features:
        label, placeholder = "Text of a new node, or the name of a node", "type a few words"
        choices = _choice("text", "text", True) + _choice("node", "name of a node", False)
    else:
        label, placeholder, choices = "Name of a node", "type a name", _choice("node", "name of a node", True)
    return PAGE.substitute(
        title=html.escape(_visible(network.name)),
        lead=f"Describe something new. The nodes, of {network.n_nodes:,}, that it most likely links to appear below"
        f"{probability}, best first. Click one to see why.",
        label=label,
        placeholder=placeholder,
        choices=choices,
        style=STYLE,
        facts=json.dumps({"examples": examples}).replace("<", "\\u003c"),
        script=SCRIPT,
    )


def _choice(value: str, text: str, is_checked: bool) -> str:
    checked = " checked" if is_checked else ""
    return f'<label><input type="radio" name="source" value="{value}"{checked}> {text}</label>\n'


def _visible(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
