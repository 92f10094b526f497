"""The page of the service: a box to type in, the predicted links, and why each is predicted. Fills search_page.html."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from string import Template

from fastspml.display import counted, escaped
from fastspml.service.link_service import LinkService

SHOWN_EXAMPLES = 4  # nodes that a visitor can try

PAGE = (files("fastspml.service") / "search_page.html").read_text("utf-8")
SCRIPT = re.findall("<script>(.*?)</script>", PAGE, re.DOTALL)[0]
SCRIPT_DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()

PAGE_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; script-src 'sha256-{SCRIPT_DIGEST}'; style-src 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}


def search_page(service: LinkService) -> str:
    """Return the page of a service as HTML; it needs nothing but the service."""
    network, can_read = service.network, service.reads_features
    examples = network.nodes[(-network.degrees).argsort(kind="stable")[:SHOWN_EXAMPLES]].tolist()
    return Template(PAGE).substitute(
        title=html.escape(escaped(network.name)),
        lead=f"Describe something new. Its most likely links among {counted(network.n_nodes, 'node')} appear below"
        f"{' with their probabilities' if service.calibration is not None else ''}, best first. Click one to see why.",
        label="Text of a new node, or the name of a node" if can_read else "Name of a node",
        placeholder="type a few words" if can_read else "type a name",
        choices=(_choice("text", "text", True) if can_read else "") + _choice("node", "name of a node", not can_read),
        facts=json.dumps({"examples": examples}).replace("<", "\\u003c"),
    )


def _choice(value: str, text: str, is_checked: bool) -> str:
    checked = " checked" if is_checked else ""
    return f'<label><input type="radio" name="source" value="{value}"{checked}> {text}</label>\n'
