"""python -m fastspml: the command line."""

from fastspml.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
