"""Mutants that once survived the tests of their module, and those that no test can kill.

`python -m bench.mutation --known` runs the tests on each of the first; results give the reasons of the second.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A change of a module that a test must notice: the code before and after, and the files of tests."""

    what: str
    module: str
    before: str
    after: str
    tests: tuple[str, ...]


class Equivalent(NamedTuple):
    """A change that no test can notice: where it is, the line as in the source, and why nothing follows from it."""

    module: str
    code: str
    before: str
    after: str
    reason: str


SELECTION, MEASURES, INDEX = ("test_selection.py",), ("test_measures.py", "test_report.py"), ("test_index.py",)
NETWORK, WEIGHTING, RUNS = ("test_network.py",), ("test_weighting.py",), ("test_runs.py",)
THREADS = "Results do not depend on the number of threads."
TEXT, CLUSTER = ("test_readers_text.py",), ("test_distributed.py",)

KNOWN = [
    Known("sizes of hidden quality", "ranking/measures.py", "if sizes != list(model.n_nodes_):", "if False:", MEASURES),
    Known(
        "fits ignores weighting",
        "ranking/scores.py",
        "mine.takes_counts, mine.weighting) == (",
        "mine.takes_counts, metric.weighting) == (",
        ("test_scores.py", "test_measures.py"),
    ),
    Known(
        "stale norms",
        "ranking/scores.py",
        "other.metric, other.norms = metric, ranked_norms(metric, self.rows)",
        "other.metric = metric",
        ("test_scores.py", "test_measures.py"),
    ),
    Known(
        "stale index",
        "ranking/scores.py",
        'for name in ("_embeddings", "_by_factor", "searched", "sizes", "shift"):',
        "for name in ():",
        ("test_scores.py", "test_measures.py"),
    ),
    Known(
        "drawn objective over another n",
        "training/objective.py",
        "return total / n_triplets",
        "return total / (n_triplets + 1)",
        ("test_objective.py", "test_learners.py"),
    ),
    Known(
        "seed of the drawn objective",
        "training/objective.py",
        "np.uint64(seed)",
        "np.uint64(0)",
        ("test_objective.py", "test_learners.py"),
    ),
    Known("rank_tasks takes the farthest", "ranking/index.py", "[:, -n_nearest:]", "[:, :n_nearest]", INDEX),
    Known(
        "prepared ignores weighting", "selection/folds.py", "key = (repr(learner.weighting), ", 'key = ("", ', SELECTION
    ),
    Known(
        "unusable folds by any",
        "selection/folds.py",
        "if all(network.n_triplets > 0",
        "if any(network.n_triplets > 0",
        SELECTION,
    ),
    Known(
        "nan counts as 0",
        "selection/folds.py",
        "[value for value in values if not np.isnan(value)]",
        "[np.nan_to_num(value) for value in values]",
        SELECTION,
    ),
    Known(
        "held-out nodes are trained on",
        "selection/folds.py",
        "[split.train for split in splits]",
        "[split.network for split in splits]",
        SELECTION,
    ),
    Known(
        "anchors ranked among all", "selection/folds.py", ", candidates=split.test_nodes, known", ", known", SELECTION
    ),
    Known(
        "prior of the default grid",
        "selection/grids.py",
        'identity: Values = {"prior": ["identity"]}',
        'identity: Values = {"prior": ["zero"]}',
        SELECTION,
    ),
    Known(
        "hidden nodes of earlier tasks",
        "splits.py",
        "before.get(name, False) for name in names",
        "False for name in names",
        NETWORK,
    ),
    Known("negative positions", "network.py", "if nodes.min() < 0 or nodes.max()", "if nodes.max()", NETWORK),
    Known(
        "exact sum",
        "network.py",
        "(int(np.sum(values >> 31)) << 31) + int(np.sum(values & (2**31 - 1)))",
        "int(np.sum(values))",
        NETWORK,
    ),
    Known("bound of max_df", "weighting.py", "df > self.max_df * n_nodes", "df >= self.max_df * n_nodes", WEIGHTING),
    Known("min_df of 1", "weighting.py", "self.min_df > 1 or", "self.min_df >= 1 or", WEIGHTING),
    Known("sign in transform", "weighting.py", 'self._check_sign(rows, self._n_sparse, "rows")', "pass", WEIGHTING),
    Known(
        "top_features ascending",
        "metric/explanations.py",
        "np.argsort(-weights,",
        "np.argsort(weights,",
        ("test_metric.py",),
    ),
    Known("no tolerance of psd", "metric/full_metric.py", ">= -1e-10 *", ">= 0 *", ("test_metric.py",)),
    Known("large tolerance of psd", "metric/full_metric.py", ">= -1e-10 *", ">= -1e-3 *", ("test_metric.py",)),
    Known("empty rows are twins", "leaks.py", "if row and row in", "if row in", ("test_leaks.py",)),
    Known(
        "last twin",
        "leaks.py",
        "training_nodes.setdefault(row, name)",
        "training_nodes[row] = name",
        ("test_leaks.py",),
    ),
    Known("header of edges", "io/readers/edges.py", "elif n_done > 0 or suffix", "elif suffix", TEXT),
    Known("no header of edges", "io/readers/edges.py", "elif n_done > 0 or suffix", "elif True or suffix", TEXT),
    Known("longest word", "tokens.py", "len(word) <= LONGEST_WORD", "len(word) < LONGEST_WORD", TEXT),
    Known(
        "older version wins",
        "io/readers/debian.py",
        "_version_key(package.version) > _version_key(known.version)",
        "_version_key(package.version) < _version_key(known.version)",
        TEXT,
    ),
    Known(
        "versions as text",
        "io/readers/debian.py",
        "_version_key(package.version) > _version_key(known.version)",
        "package.version > known.version",
        TEXT,
    ),
    Known("byte order mark", "io/readers/lines.py", 'text = text.removeprefix("\\ufeff")', "pass", TEXT),
    Known(
        "newer format",
        "io/elements.py",
        "if version > FORMAT_VERSION:",
        "if False:",
        ("test_reading.py", "test_network_files.py", "test_hostile_files.py"),
    ),
    Known(
        "inflation",
        "io/limits.py",
        "MAX_INFLATION, MIN_DECLARED_BYTES = 1100, 4096",
        "MAX_INFLATION, MIN_DECLARED_BYTES = 10**9, 4096",
        ("test_limits.py", "test_hostile_files.py"),
    ),
    Known(
        "time of modification",
        "sparse/mapped.py",
        "(status.st_size, status.st_mtime_ns) == (other.st_size, other.st_mtime_ns)",
        "status.st_size == other.st_size",
        ("test_mapped.py",),
    ),
    Known("minutes of checkpoints", "runs/run.py", "is_due(60.0 * minutes)", "is_due(minutes)", RUNS),
    Known("cost of checkpoints", "runs/checkpoints.py", "PAUSE_PER_COST * self._cost_s", "0 * self._cost_s", RUNS),
    Known("time left", "runs/listing.py", "(n_iters - history[-1][", "(n_iters + history[-1][", RUNS),
    Known("best AUC of the list", "runs/listing.py", "best_auc=max(aucs", "best_auc=min(aucs", RUNS),
    Known(
        "another version on a worker",
        "cluster/worker.py",
        "if recipe.package != package_digest():",
        "if False:",
        CLUSTER,
    ),
    Known(
        "another file on a worker",
        "cluster/worker.py",
        "networks_checksum(recipe.path, prepared) != recipe.checksum",
        "False",
        CLUSTER,
    ),
    Known("a missed round", "cluster/worker.py", "self.round.start != start.since", "False", CLUSTER),
    Known(
        "leaks are not said",
        "cli/evaluate.py",
        "_say_leaks(networks, model.hidden_nodes_)",
        "pass",
        ("test_cli_predict.py",),
    ),
]

EQUIVALENT: list[Equivalent] = [
    Equivalent(
        "ranking/calibration.py",
        "if value > best or best - value <= 1e-12 * max(1.0, abs(best)):",
        "1e-12 * max(1.0, abs(best))",
        "(1e-12 / max(1.0, abs(best)))",
        "Newton's method has converged at either tolerance; one more step changes the result by rounding only.",
    ),
    Equivalent(
        "ranking/measures.py",
        "def quality(self, scorer: Metric | Scorer | Any, k: int = 10, n_threads: int = 1) -> LinkQuality:",
        "1",
        "2",
        THREADS,
    ),
    Equivalent(
        "selection/scorings.py",
        "return scoring",
        "return scoring",
        "return None",
        "Nothing reached the statement, so it was deleted.",
    ),
]
