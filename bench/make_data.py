"""Make the data in the box again: python -m bench.make_data."""

from __future__ import annotations

from pathlib import Path

import fastspml as fs
from fastspml.datasets import SYNTHETIC

DATA = Path(__file__).parent.parent / "data"


def main() -> None:
    fs.write_networks(DATA / "synthetic.h5", fs.synthetic_networks(**SYNTHETIC), overwrite=True, compress=True)


if __name__ == "__main__":
    main()
