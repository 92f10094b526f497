"""A study of training nodes on several data sets: its command line, and its results as JSON and as a page."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastspml as fs
from bench.environment import RESULTS, write_results
from bench.rivals.data_sets import DATA_SETS

Measures = dict[str, Any]  # a value, or one of every fold, by the name of a measure


def run_study(
    name: str, about: str, measure: Callable[[list[fs.Network]], dict[str, Measures]], page: Callable[[Any], str]
) -> None:
    """Read the command line, and measure each data set; `measure` returns the measures of every variant by name."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--data", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS), metavar="name")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for data in options.data:
            results[data] = measure(DATA_SETS[data].read())
            for variant, values in results[data].items():
                print(data, variant, *(f"{key} {np.mean(value):.4f}" for key, value in values.items()), flush=True)
            write_results(options.output, name, {"results": results})
            (options.output / f"{name}.md").write_text(page(results))
