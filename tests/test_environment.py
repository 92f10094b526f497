"""Unusual surroundings: no home folder, the C locale, optimised bytecode, warnings as errors, and no network."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = r"""
import socket

def refused(*arguments):
    raise AssertionError("the library opened a connection")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refused
import fastspml as fs
from fastspml.cli import main

networks = fs.synthetic_networks(n_tasks=2, n_nodes=60, n_features=50, words_per_node=8, links_per_node=4)
networks = [network.replace(name=name) for network, name in zip(networks, ["na\u00efve", "\u65e5\u672c"])]
fs.write_networks("nets.h5", networks)
model = fs.MTSPML(n_iters=50).fit(fs.read_networks("nets.h5"))
fs.save_model("m.h5", model)
print(fs.load_model("m.h5").metric("\u65e5\u672c").is_same_as(model.metric(1)))
print(len(model.predict_links(networks[0], networks[0].features[:2], k=3)))
ends = [main(["info", "nets.h5"]), main(["train", "--networks", "nets.h5", "--n-iters", "50", "-o", "run"])]
print(ends, main(["report", "run", "-o", "report.html"]))
"""


def test_a_fit_needs_no_home_no_locale_no_assertions_and_no_network(tmp_path):
    """The folder of compiled kernels is that of the tests; without one, numba uses the package's or compiles anew."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "NUMBA_CACHE_DIR") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-O", "-W", "error", "-X", "utf8=0", "-c", PROGRAM],
        cwd=tmp_path, env=kept | {"LANG": "C", "LC_ALL": "C"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("True", "6", "[0, 0] 0")
