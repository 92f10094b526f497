"""Serve predictions over HTTP: POST /links takes a text, counts or the name of a node, and answers with links, their
probabilities and reasons; GET / is a page to try it. Stops at Ctrl-C or SIGTERM, after finishing requests under way."""

from __future__ import annotations

import argparse
import json
import shlex
from typing import TYPE_CHECKING

from fastspml.cli.new_nodes import task_position
from fastspml.cli.output import printable, say
from fastspml.display import counted

if TYPE_CHECKING:
    from fastspml.service.link_service import LinkService

EXAMPLE = """\
fastspml serve runs/example --task admin
fastspml serve model.h5 networks.h5 --task admin --port 8080
curl localhost:8000/links -d '{"text": "a terminal package manager", "k": 3}'"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="MODEL", help="model file, or run folder")
    parser.add_argument(
        "networks", metavar="NETWORK", nargs="?", help="file of the nodes that can be linked to; a run knows its own"
    )
    parser.add_argument("--task", help="name or number of the task, needed if there are several")
    parser.add_argument(
        "-k", "--k", type=int, default=10, help="links of an answer, unless a request says (default: 10)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, which only this machine can connect to). There is no password: "
        "on any other address, whoever reaches it can use the service",
    )
    parser.add_argument("--port", type=int, default=8000, help="port to listen on; 0 takes a free one (default: 8000)")


def _request(service: LinkService, url: str) -> str:
    """Return a command that asks a service for links: of a text, or of a node if the service reads no texts."""
    request = {"text": "..."} if service.reads_features else {"node": str(service.network.nodes[0])}
    return f"curl {url}links -d {shlex.quote(json.dumps(request))}"


def run(options: argparse.Namespace) -> None:
    """Load the model, index the nodes, and serve until a signal."""
    from fastspml.runs.opening import networks_of, open_run
    from fastspml.service.http_server import LinkServer, serve_until_signal
    from fastspml.service.link_service import LinkService

    model, config = open_run(options.path)
    networks = networks_of(options.networks, config)
    network = networks[task_position(options.task, [network.name for network in networks])]
    service = LinkService(model, network, k=options.k)
    server = LinkServer(service, options.host, options.port)
    service.warm_up()
    say(f"serving {counted(network.n_nodes, 'node')} of {printable(network.name)} on {server.url} (Ctrl-C stops)")
    say(f"try: {_request(service, server.url)}")
    signal_name = serve_until_signal(server)
    say(f"stopped by {signal_name}")
