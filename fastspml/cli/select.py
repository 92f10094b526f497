"""Choose parameters by cross-validation over nodes, and save a model trained with the best of them as a run folder.
Nodes hidden by test_size take no part in the choice. Ctrl-C stops the search; the best setting so far is then used."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fastspml.checks import quoted
from fastspml.cli.flags import TRAINING_ONLY, add_dask, add_keys, configured, parse_value, spelled_out
from fastspml.cli.output import print_json, print_table, say, wrapped
from fastspml.cli.progress import report_progress
from fastspml.display import counted

if TYPE_CHECKING:
    from fastspml.selection import Selection, SelectProgress

__all__ = ["EXAMPLE", "arguments", "run", "spelled_out"]

SHOWN = ("cv_score", "standard_error", "auc", "hits", "reciprocal_rank")

EXAMPLE = """\
fastspml select --networks networks.h5 --test-size 0.2 -o runs/best
fastspml select example.toml --grid 'common_reg=[1e-2,1e-3]' --grid 'margin=[0.3,1]' -o runs/best"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "config", nargs="?", help="TOML file, as for fastspml train, with the values that are not chosen"
    )
    parser.add_argument("-o", "--output", metavar="RUN", required=True, help="run folder to create")
    parser.add_argument(
        "--grid",
        action="append",
        metavar="KEY=[VALUES]",
        help="values to choose from, as in reg=[1e-2,1e-3]; repeat it for other keys (default: a grid for the model)",
    )
    parser.add_argument("--folds", type=int, default=5, help="folds of nodes (default: 5)")
    parser.add_argument(
        "--scoring",
        default="auc+ndcg@10",  # as of `select`, whose module is not imported for --help
        metavar="MEASURE",
        help="auc, average_precision, mrr, hits@K, recall@K, ndcg@K, or a mean of several joined by + "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--known-links",
        choices=("neighbours", "popularity", "never"),  # as of `select`
        help="how the ranking may use the known links of candidates; popularity also counts them, which often finds "
        "more links but suggests the same nodes more often (default: either; never with --grid)",
    )
    parser.add_argument(
        "--most-suggested",
        type=float,
        metavar="SHARE",
        help="avoid rankings that suggest one node to more than this share of all nodes, where others are as good "
        "(default: 0.3; 1 with --known-links)",
    )
    parser.add_argument("--random", type=int, metavar="N", help="try only N combinations, drawn at random")
    parser.add_argument(
        "--one-standard-error",
        action="store_true",
        help="take the first combination within one standard error of the best",
    )
    parser.add_argument(
        "--seed-of-folds", type=int, default=0, metavar="SEED", help="which nodes are held out (default: 0)"
    )
    parser.add_argument("--threads", type=int, metavar="N", help="fits to run in parallel (default: all processors)")
    parser.add_argument("--top", type=int, default=10, metavar="N", help="combinations to print (default: 10)")
    parser.add_argument("--json", action="store_true", help="print everything that was tried as JSON")
    add_dask(parser)
    add_keys(parser, without=TRAINING_ONLY)


def run(options: argparse.Namespace) -> None:
    """Search, train with the best setting, and print the settings that were tried."""
    selection = _select(options)
    if not selection.is_complete_:
        say(f"interrupted: the best of {counted(len(selection.trials_), 'finished combination')} was taken.")
    _say_replaced(selection, options)
    if options.json:
        print_json(_as_json(selection, options.output))
    else:
        _print(selection, options)


def _select(options: argparse.Namespace) -> Selection:
    """Search and train, and show progress."""
    from fastspml.cluster import cluster
    from fastspml.runs.selecting import select_and_train

    show, close = report_progress()

    def progress(record: SelectProgress) -> None:
        show("fits", record.n_done, record.n_fits)

    try:
        with cluster(options.dask) as client:
            return select_and_train(
                configured(options),
                options.output,
                _grid(options.grid),
                progress,
                n_folds=options.folds,
                scoring=options.scoring,
                n_random=options.random,
                known_links=options.known_links,
                most_suggested=options.most_suggested,
                one_standard_error=options.one_standard_error,
                seed=options.seed_of_folds,
                n_threads=options.threads,
                client=client,
            )
    finally:
        close()


def _say_replaced(selection: Selection, options: argparse.Namespace) -> None:
    """Say which values of flags were not used, because the search chose others."""
    chosen = {key: value for key, value in selection.best_estimator_.get_params().items() if key != "n_iters"}
    given = {key: getattr(options, key, None) for key in chosen}
    replaced = [key for key, value in given.items() if value is not None and str(value) != str(chosen[key])]
    if replaced:
        say(f"{', '.join(replaced)}: chosen from the grid, not as given; choose from other values with --grid.")


def _as_json(selection: Selection, run_folder: str) -> dict[str, Any]:
    return {
        "run": run_folder,
        "best": selection.best_params_,
        "scoring": selection.scoring_,
        "complete": selection.is_complete_,
        "tried": selection.table(),
        "baselines": {name: trial.row() for name, trial in selection.baselines_.items()},
        "comparison": selection.comparison(),
    }


def _print(selection: Selection, options: argparse.Namespace) -> None:
    from fastspml.selection.scorings import as_scoring

    trials = selection.trials_[: options.top]
    keys = dict.fromkeys(key for trial in trials for key in trial.params)
    varied = [key for key in keys if len({_short(trial.params.get(key, "-")) for trial in trials}) > 1]
    rows = _rows([trial.row() for trial in trials], varied)
    common = ", ".join(f"{key} {_short(trials[0].params[key])}" for key in keys if key not in varied)
    baselines = [{"baseline": name, **trial.row()} for name, trial in selection.baselines_.items()]
    header = [selection.scoring_, "standard error", "AUC", f"hits@{as_scoring(options.scoring).k}", "MRR"]
    if common:
        print(wrapped(f"all: {common}"))
    print_table([[place, *row] for place, row in enumerate(rows, 1)], header=["", *varied, *header])
    print()
    print_table(_rows(baselines, ["baseline"]), header=["baseline", *header])
    print(f"\n{wrapped(selection.comparison())}\n")
    chosen = ", ".join(f"{key} = {_short(value)}" for key, value in selection.best_params_.items())
    print(wrapped(f"{options.output}/model.h5: trained on all nodes that are not hidden, with {chosen}"))


def _rows(rows: list[dict[str, Any]], keys: list[str]) -> list[list[Any]]:
    """Return the cells of a table: some keys, and what is SHOWN of every row."""
    return [[*(_short(row.get(key, "-")) for key in keys), *(row[name] for name in SHOWN)] for row in rows]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _grid(parts: list[str] | None) -> dict[str, list[Any]] | None:
    if parts is None:
        return None
    grid = {}
    for part in parts:
        key, equals, values = part.partition("=")
        if not equals:
            raise ValueError(f"--grid takes KEY=[VALUES], as in reg=[1e-2,1e-3]; got {quoted(part)}.")
        value = parse_value(values)
        grid[key.strip().replace("-", "_")] = value if isinstance(value, list) else [value]
    return grid
