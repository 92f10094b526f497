"""Change the layout of a file of networks. Uncompressed files can be mapped into memory, compressed ones are smaller;
.h5ad is AnnData's format."""

from __future__ import annotations

import argparse
from pathlib import Path

from fastspml.checks import listed, quoted
from fastspml.cli.output import printable, refuse_existing
from fastspml.display import counted

EXAMPLE = """\
fastspml convert networks.h5 small.h5 --compress
fastspml convert networks.h5 admin.h5ad --task admin"""

SUFFIXES = (".h5", ".hdf5", ".h5ad")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("source", help="file of networks (.h5) or AnnData file with links in obsp (.h5ad)")
    parser.add_argument("target", help="file to write; its suffix, .h5 or .h5ad, decides the format")
    parser.add_argument("--compress", action="store_true", help="compress (.h5 files can then no longer be mapped)")
    parser.add_argument("--task", help="only this task, by name")
    parser.add_argument("--ignore-weights", action="store_true", help="count links of .h5ad with weights once each")
    parser.add_argument("--overwrite", action="store_true", help="replace the target if it exists")


def run(options: argparse.Namespace) -> None:
    """Read, and write in the format of the target."""
    suffix = Path(options.target).suffix
    if suffix not in SUFFIXES:
        raise ValueError(f"convert writes .h5 or .h5ad files, got {options.target}; choose one of these suffixes.")
    refuse_existing(options.target, options.overwrite)
    from fastspml.io import read_networks, write_h5ad, write_networks

    networks = read_networks(options.source, ignore_weights=options.ignore_weights)
    if options.task is not None:
        names = listed(network.name for network in networks)
        networks = [network for network in networks if network.name == options.task]
        if not networks:
            raise ValueError(f"there is no task {quoted(options.task)}; the tasks are {names}.")
    write = write_h5ad if suffix == ".h5ad" else write_networks
    write(options.target, networks, overwrite=options.overwrite, compress=options.compress)
    size = Path(options.target).stat().st_size
    print(f"{printable(options.target)}: {counted(len(networks), 'task')}, {size:,} bytes")
