"""Change the layout of a file of networks: uncompressed files can be mapped into memory, compressed ones are small to
ship; .h5ad is AnnData's."""

from __future__ import annotations

import argparse
from pathlib import Path


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", help="file of networks (.h5) or AnnData file with links in obsp (.h5ad)")
    parser.add_argument("target", help="file to write; its suffix, .h5 or .h5ad, decides the format")
    parser.add_argument("--compress", action="store_true", help="compress (.h5 files can then no longer be mapped)")
    parser.add_argument("--task", help="only this task, by name")
    parser.add_argument("--overwrite", action="store_true", help="replace the target if it exists")


def run(options: argparse.Namespace) -> None:
    from fastspml.io import read_networks, write_h5ad, write_networks

    networks = read_networks(options.source)
    if options.task is not None:
        names = ", ".join(network.name for network in networks)
        networks = [network for network in networks if network.name == options.task]
        if not networks:
            raise ValueError(f"there is no task {options.task!r}; the tasks are {names}.")
    write = write_h5ad if Path(options.target).suffix == ".h5ad" else write_networks
    write(options.target, networks, overwrite=options.overwrite, compress=options.compress)
    print(f"{options.target}: {len(networks)} tasks, {Path(options.target).stat().st_size:,} bytes")
