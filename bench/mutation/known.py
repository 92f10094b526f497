"""Mutants written by hand that once survived the tests: `python -m bench.mutation --known` runs the tests on each."""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A change of a module that a test must notice: the code before and after, and the files of tests."""

    what: str
    module: str
    before: str
    after: str
    tests: tuple[str, ...]


SELECTION, MEASURES, INDEX = ("test_selection.py",), ("test_measures.py", "test_report.py"), ("test_index.py",)
NETWORK, WEIGHTING, RUNS = ("test_network.py",), ("test_weighting.py",), ("test_runs.py",)
# By module, relative to fastspml/, and its tests: what changes, and the code before and after.
MUTANTS: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    ("ranking/measures.py", "test_measures.py test_report.py"): [
        ("sizes of hidden quality", "if sizes != list(model.n_nodes_):", "if False:")
    ],
    ("ranking/scores.py", "test_scores.py test_measures.py"): [
        (
            "fits ignores weighting",
            '("is_full", "takes_counts", "weighting", "n_features")',
            '("is_full", "takes_counts", "n_features")',
        ),
        ("stale nodes", "NodeScores(NodesUnderMetric(self.nodes.indexed, metric), self.known)", "self"),
        ("stale known links", "return NodeScores(self.nodes, known)", "return NodeScores(self.nodes, self.known)"),
    ],
    ("training/objective.py", "test_objective.py test_learners.py"): [
        ("drawn objective over another n", "return total / n_triplets", "return total / (n_triplets + 1)"),
        ("seed of the drawn objective", "np.uint64(seed)", "np.uint64(0)"),
    ],
    ("ranking/task_ranking.py", "test_index.py"): [
        ("rank_tasks takes the farthest", "[:, -n_nearest:]", "[:, :n_nearest]")
    ],
    ("selection/folds.py", "test_selection.py"): [
        ("prepared ignores weighting", "key = (repr(learner.weighting), ", 'key = ("", '),
        ("unusable folds by any", "if all(fold.training[q]", "if any(fold.training[q]"),
        ("held-out nodes are trained on", "[split.train for split in splits]", "[split.network for split in splits]"),
        ("anchors ranked among all", ", candidates=split.test_nodes,", ","),
    ],
    ("selection/trials.py", "test_selection.py"): [
        (
            "nan counts as 0",
            "[value for value in values if not np.isnan(value)]",
            "[np.nan_to_num(value) for value in values]",
        )
    ],
    ("selection/grids.py", "test_selection.py"): [
        (
            "prior of the default grid",
            'identity: Values = {"prior": ["identity"]}',
            'identity: Values = {"prior": ["zero"]}',
        )
    ],
    ("splits.py", "test_network.py"): [
        ("hidden nodes of earlier tasks", "before.get(name, False) for name in names", "False for name in names")
    ],
    ("network.py", "test_network.py"): [
        ("negative positions", "if nodes.min() < 0 or nodes.max()", "if nodes.max()"),
        ("exact sum", "(int(np.sum(values >> 31)) << 31) + int(np.sum(values & (2**31 - 1)))", "int(np.sum(values))"),
    ],
    ("weighting.py", "test_weighting.py"): [
        ("bound of max_df", "df > self.max_df * n_nodes", "df >= self.max_df * n_nodes"),
        ("min_df of 1", "self.min_df > 1 or", "self.min_df >= 1 or"),
        ("sign in transform", 'self._check_sign(rows, self._n_sparse, "rows")', "pass"),
    ],
    ("metric/explanations.py", "test_metric.py"): [
        ("top_features ascending", "np.argsort(-weights,", "np.argsort(weights,")
    ],
    ("metric/full_metric.py", "test_metric.py"): [
        ("no tolerance of psd", ">= -1e-10 *", ">= 0 *"),
        ("large tolerance of psd", ">= -1e-10 *", ">= -1e-3 *"),
    ],
    ("leaks.py", "test_leaks.py"): [
        ("empty rows are twins", "if row and row in", "if row in"),
        ("last twin", "training_nodes.setdefault(row, name)", "training_nodes[row] = name"),
    ],
    ("io/readers/edges.py", "test_readers_edges.py"): [
        ("header of edges", "elif n_done > 0 or suffix", "elif suffix"),
        ("no header of edges", "elif n_done > 0 or suffix", "elif True or suffix"),
    ],
    ("tokens.py", "test_tokens.py"): [("longest word", "len(word) <= LONGEST_WORD", "len(word) < LONGEST_WORD")],
    ("io/readers/debian.py", "test_readers_debian.py"): [
        (
            "older version wins",
            "_version_key(package.version) > _version_key(known.version)",
            "_version_key(package.version) < _version_key(known.version)",
        ),
        (
            "versions as text",
            "_version_key(package.version) > _version_key(known.version)",
            "package.version > known.version",
        ),
    ],
    ("io/readers/lines.py", "test_readers_text.py"): [
        ("byte order mark", 'text = text.removeprefix("\\ufeff")', "pass")
    ],
    ("io/elements.py", "test_reading.py test_network_files.py test_hostile_files.py"): [
        ("newer format", "if version > FORMAT_VERSION:", "if False:")
    ],
    ("io/limits.py", "test_limits.py test_hostile_files.py"): [
        (
            "inflation",
            "MAX_INFLATION, MIN_DECLARED_BYTES = 1100, 4096",
            "MAX_INFLATION, MIN_DECLARED_BYTES = 10**9, 4096",
        )
    ],
    ("sparse/mapped.py", "test_mapped.py"): [
        (
            "time of modification",
            "(status.st_size, status.st_mtime_ns) == (other.st_size, other.st_mtime_ns)",
            "status.st_size == other.st_size",
        )
    ],
    ("runs/run.py", "test_runs.py"): [("minutes of checkpoints", "is_due(60.0 * minutes)", "is_due(minutes)")],
    ("runs/checkpoints.py", "test_runs.py"): [
        ("cost of checkpoints", "PAUSE_PER_COST * self._cost_s", "0 * self._cost_s")
    ],
    ("runs/listing.py", "test_runs.py"): [
        ("time left", "(n_iters - history[-1][", "(n_iters + history[-1]["),
        ("best AUC of the list", "best_auc=max(aucs", "best_auc=min(aucs"),
    ],
    ("cluster/worker.py", "test_distributed.py"): [
        ("another version on a worker", "if recipe.package != package_digest():", "if False:"),
        ("another file on a worker", "networks_checksum(recipe.path, laid_out) != recipe.checksum", "False"),
        ("a missed round", "known.start == start.since", "True"),
    ],
    ("cli/evaluate.py", "test_cli_predict.py"): [
        ("leaks are not said", "_say_leaks(networks, model.hidden_nodes_)", "pass")
    ],
}
KNOWN = [
    Known(what, module, before, after, tuple(tests.split()))
    for (module, tests), mutants in MUTANTS.items()
    for what, before, after in mutants
]
