"""Write a report on a run: one HTML page, which needs no network access, with the networks, how well links of hidden
nodes are predicted, the words that matter, and the nodes predicted best and worst."""

from __future__ import annotations

import argparse

from fastspml.cli.output import print_json, say

EXAMPLE = """\
fastspml report runs/example
fastspml report runs/example -o example.html --overwrite"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("path", metavar="RUN", help="run folder, or a model file with --networks")
    parser.add_argument("-o", "--output", help="page to write (default: report.html; with --json none)")
    parser.add_argument("--overwrite", action="store_true", help="replace the page if it exists")
    parser.add_argument("--networks", help="file of networks (default: those of the run)")
    parser.add_argument("--json", action="store_true", help="print what the page shows as JSON")


def run(options: argparse.Namespace) -> None:
    """Write the page, print its numbers, or both."""
    from fastspml.report.summary import about_run, facts, write_report
    from fastspml.runs.opening import open_run, trained_networks

    model, config = open_run(options.path)
    networks = trained_networks(options.path, options.networks, config)
    about = about_run(options.path)
    output = options.output or (None if options.json else "report.html")
    if output is None:
        known = facts(model, networks, config, about=about)
    else:
        known = write_report(output, model, networks, config, about=about, overwrite=options.overwrite)
        say(f"the report is {output}")
    if options.json:
        print_json(known)
