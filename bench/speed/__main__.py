"""Measure fastspml beside C and beside its peers: python -m bench.speed [--quick] [--only part] [-o folder].

The results of each part are kept in speed.json, so that a part can be measured again alone; speed.md and the figures
show all parts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.environment import RESULTS, about, write_results
from bench.speed import factored, growth, kernels, objective, peers, ranking, threads
from bench.speed.networks import NoData
from bench.speed.page import NOT_MEASURED, page


def tell(text: str) -> None:
    """Print to standard error what is being measured."""
    print(text, file=sys.stderr, flush=True)


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "limit": kernels.measure,
    "peers": peers.measure,
    "objective": objective.measure,
    "growth": growth.measure,
    "threads": threads.measure,
    "factored": factored.measure,
    "ranking": ranking.measure,
}


def render(folder: Path) -> None:
    """Write the page and the figures of the results in a folder."""
    results = json.loads((folder / "speed.json").read_text())
    (folder / "speed.md").write_text(page(results))
    if find_spec("matplotlib") is None:
        tell("matplotlib is not installed, so no figures are drawn (pip install '.[plots]')")
        return
    from bench.speed.figures import FIGURES

    for part, draw in FIGURES.items():
        if NOT_MEASURED not in results.get(part, {NOT_MEASURED: ""}):
            draw(results[part], folder)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small networks and few repeats: about three minutes")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this part; keep the others")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS / "speed", help="folder to write to")
    options = parser.parse_args()
    path = options.output / "speed.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    results.pop("machine", None)
    for name in options.only or PARTS:
        measured = {key: value for key, value in about().items() if key in ("commit", "date")}
        try:
            part = PARTS[name](tell, options.quick)
        except NoData as reason:
            part = {NOT_MEASURED: str(reason)}
        results[name] = part | {"measured": measured | {"quick": options.quick}}
        write_results(options.output, "speed", {part: results[part] for part in PARTS if part in results})
    render(options.output)


if __name__ == "__main__":
    main()
