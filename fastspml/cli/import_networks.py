"""Make a file of networks from files in other formats; several files or groups become several tasks."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from fastspml.cli.output import print_json, printable, refuse_existing, say
from fastspml.cli.progress import report_progress
from fastspml.display import counted

EXAMPLE = """\
fastspml import text documents.csv links.txt -o networks.h5 --undirected
fastspml import edges links.txt words.txt -o networks.h5
fastspml import npz features.npz --links links.npz -o networks.h5
fastspml import matlab area1.mat area2.mat -o areas.h5
fastspml import snap-ego facebook --ego 107 -o circles.h5"""

Add = Callable[..., Any]

FURTHER_COLUMNS = "further columns are ignored, but weights under a header are refused"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand per format."""
    formats = parser.add_subparsers(dest="format", metavar="FORMAT", required=True)
    for name, (summary, add) in FORMATS.items():
        command = formats.add_parser(name, help=summary, description=f"Read {summary}.")
        add(command.add_argument)
        command.add_argument("-o", "--output", required=True, metavar="OUT.h5", help="file to write")
        command.add_argument("--compress", action="store_true", help="a smaller file, which cannot be mapped")
        command.add_argument("--overwrite", action="store_true", help="replace the output if it exists")
        command.add_argument("--json", action="store_true", help="print the result as JSON")


def run(options: argparse.Namespace) -> None:
    """Read the files of a format, and write networks."""
    from importlib import import_module
    from inspect import signature

    from fastspml.io import write_networks

    refuse_existing(options.output, options.overwrite)
    module = options.format.replace("-", "_")
    read = getattr(import_module(f"fastspml.io.readers.{module}"), f"read_{module}")
    given = {
        name: value
        for name, value in vars(options).items()
        if name not in ("command", "format", "run", "output", "compress", "overwrite", "json") and value is not None
    }
    if given.get("tasks") == "none":
        given["tasks"] = None
    close: Callable[[], None] | None = None
    if "report" in signature(read).parameters:
        given["report"], close = report_progress()
    try:
        networks = read(**given)
    finally:
        if close is not None:
            close()
    write_networks(options.output, networks, overwrite=options.overwrite, compress=options.compress)
    summary: dict[str, Any] = {
        "file": options.output,
        "tasks": len(networks),
        "nodes": sum(network.n_nodes for network in networks),
        "links": sum(network.n_links for network in networks),
        "features": networks[0].n_features,
    }
    if summary["links"] == 0:
        say(f"{options.output} has no links, so a model cannot be trained on it; check the file of links.")
    if options.json:
        print_json(summary)
    else:
        counts = [counted(summary[f"{noun}s"], noun) for noun in ("task", "node", "link", "feature")]
        print(f"{printable(options.output)}: {', '.join(counts)}")
        say(f"next: fastspml info {options.output}")


def _skip_bad(add: Add) -> None:
    add("--skip-bad", action="store_true", default=None, help="leave bad lines out instead of failing")


def _ignore_weights(add: Add) -> None:
    add("--ignore-weights", action="store_true", default=None, help="count links with weights once each")


def _word_cuts(add: Add) -> None:
    add("--min-df", type=int, help="keep words that at least this number of nodes have (default: 2)")
    add("--max-df", type=float, help="keep words that at most this share of the nodes have (default: 0.5)")


def _matlab(add: Add) -> None:
    add("paths", nargs="+", metavar="FILE.mat", help="each a task: X, nodes x words; A, nodes x nodes; perhaps names")
    _ignore_weights(add)


def _snap_ego(add: Add) -> None:
    add("folder", help="folder with EGO.circles, .feat, .egofeat, .featnames and .edges")
    add("--ego", required=True, metavar="ID", help="node whose circles to read; each becomes a task")
    add("--links", choices=["ego", "friends"], help="ego to members (default), or friendships among members")
    add("--largest", type=int, help="keep only this number of circles, the largest")
    add("--min-size", type=int, help="leave out circles with fewer members")
    _skip_bad(add)


def _linqs(add: Add) -> None:
    add("contents", nargs="+", metavar="FILE.content", help="each a task; the file .cites beside it holds its links")
    add("--cites", nargs="+", metavar="FILE.cites", help="files of links, if they are elsewhere")
    _skip_bad(add)


def _npz(add: Add) -> None:
    add(
        "path",
        metavar="FILE.npz",
        help="arrays src, dst, X_indptr, X_indices, X_data, shape and perhaps label; or, with --links, features as "
        "scipy.sparse.save_npz writes them",
    )
    add("--links", metavar="LINKS.npz", help="links as scipy.sparse.save_npz writes them: nodes x nodes")
    add("--tasks", choices=["label", "relation"], help="a task per label, or per relation (default: one network)")
    _ignore_weights(add)


def _edges(add: Add) -> None:
    add("edges", help=f"two nodes a line; {FURTHER_COLUMNS}")
    add("attributes", help="features, a node a line: svmlight, or `name word:count word:count ...`")
    add("--form", choices=["auto", "svmlight", "words"], help="format of the features (default: auto)")
    add("--undirected", dest="directed", action="store_false", default=None, help="make every link run both ways")
    _ignore_weights(add)
    _skip_bad(add)


def _text(add: Add) -> None:
    add("documents", help="CSV or TSV with a header, or JSON lines; also .gz and .xz")
    add("edges", help=f"two document ids a line; {FURTHER_COLUMNS}")
    add("--id-column", help="column with a document's id (default: id)")
    add("--text-column", help="column with its text (default: text)")
    add("--task-column", help="column with its task; each value becomes a network")
    add("--undirected", dest="directed", action="store_false", default=None, help="make every link run both ways")
    _ignore_weights(add)
    add("--keep-stop-words", dest="stop_words", action="store_false", default=None, help="count common words too")
    add("--vectors", metavar="FILE.npy", help="a row for each document, such as sentence embeddings, beside its words")
    _word_cuts(add)
    _skip_bad(add)


def _debian(add: Add) -> None:
    add("packages", nargs="?", help="Packages, plain, .gz or .xz (default: this machine's own)")
    add("translation", nargs="?", help="Translation-en, with the long descriptions")
    add("--sections", nargs="+", help="sections to read (default: all)")
    add("--kinds", nargs="+", help="kinds of links (default: Depends Recommends Suggests)")
    add("--tasks", choices=["section", "kind", "none"], help="a task per section (default), per kind, or only one")
    add(
        "--within-sources", dest="across_sources", action="store_false", default=None, help="keep links in a source too"
    )
    add("--max-degree", type=int, help="leave out packages with more links (hubs)")
    add("--keep-unlinked", action="store_true", default=None, help="keep packages without links")
    add("--min-links", type=int, help="leave out sections with fewer links")
    _word_cuts(add)
    _skip_bad(add)


FORMATS: dict[str, tuple[str, Callable[[Add], None]]] = {
    "matlab": ("MATLAB files, such as the paper's Wikipedia areas", _matlab),
    "snap-ego": ("a SNAP ego network with its circles (Facebook, Google+, Twitter)", _snap_ego),
    "linqs": ("LINQS citation networks (Cora, CiteSeer, WebKB)", _linqs),
    "npz": ("a NumPy archive of a network", _npz),
    "edges": ("an edge list and a file of features", _edges),
    "text": ("documents and the links between them", _text),
    "debian": ("a Debian package index", _debian),
}
