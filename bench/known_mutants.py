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
# By module, relative to fastspml/, and its tests: what changes, and the code before and after.
MUTANTS: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    ("ranking/measures.py", "test_measures.py test_report.py"): [
        ("sizes of hidden quality", "if sizes != list(model.n_nodes_):", "if False:")
    ],
    ("ranking/scores.py", "test_scores.py test_measures.py"): [
        (
            "fits ignores weighting",
            "mine.takes_counts, mine.weighting) == (",
            "mine.takes_counts, metric.weighting) == (",
        ),
        ("stale norms", "other.metric, other.norms = metric, ranked_norms(metric, self.rows)", "other.metric = metric"),
        ("stale index", 'for name in ("_embeddings", "_by_factor", "searched", "sizes", "shift"):', "for name in ():"),
    ],
    ("training/objective.py", "test_objective.py test_learners.py"): [
        ("drawn objective over another n", "return total / n_triplets", "return total / (n_triplets + 1)"),
        ("seed of the drawn objective", "np.uint64(seed)", "np.uint64(0)"),
    ],
    ("ranking/index.py", "test_index.py"): [("rank_tasks takes the farthest", "[:, -n_nearest:]", "[:, :n_nearest]")],
    ("selection/folds.py", "test_selection.py"): [
        ("prepared ignores weighting", "key = (repr(learner.weighting), ", 'key = ("", '),
        ("unusable folds by any", "if all(network.n_triplets > 0", "if any(network.n_triplets > 0"),
        (
            "nan counts as 0",
            "[value for value in values if not np.isnan(value)]",
            "[np.nan_to_num(value) for value in values]",
        ),
        ("held-out nodes are trained on", "[split.train for split in splits]", "[split.network for split in splits]"),
        ("anchors ranked among all", ", candidates=split.test_nodes,", ","),
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
    ("io/readers/edges.py", "test_readers_text.py"): [
        ("header of edges", "elif n_done > 0 or suffix", "elif suffix"),
        ("no header of edges", "elif n_done > 0 or suffix", "elif True or suffix"),
    ],
    ("tokens.py", "test_readers_text.py"): [("longest word", "len(word) <= LONGEST_WORD", "len(word) < LONGEST_WORD")],
    ("io/readers/debian.py", "test_readers_text.py"): [
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

THREADS = "Results do not depend on the number of threads."
COMPILED = "A warm-up is for what it compiles, which depends on the types of its arguments only."
TUNED = "A number that was tuned: with any near it, results are the same."

EQUIVALENT: list[Equivalent] = [
    Equivalent(
        "io/limits.py",
        "MAX_UNCHECKED_CHUNK_BYTES = 2**26",
        "2**26",
        "(2 * 26)",
        "All chunks are then inflated twice: slower, with the same result.",
    ),
    Equivalent(
        "io/limits.py",
        "DENSE_VALUE_BYTES, SPARSE_VALUE_BYTES, ROW_BYTES = 48, 40, 24",
        "40",
        "41",
        "An estimate of memory with a margin: 34 bytes were measured, and 41 serve as well as 40.",
    ),
    Equivalent("io/limits.py", "TEXTS_AT_ONCE = 2**16", "16", "17", TUNED),
    Equivalent(
        "io/heaps.py",
        "start = raw.find(SIGNATURE, start + 1)",
        "1",
        "2",
        "A signature cannot begin one byte after another one: its second letter differs from its first.",
    ),
    Equivalent(
        "metric/base.py",
        "largest = float(np.abs(matrix).max(initial=0.0))",
        "0.0",
        "1.0",
        "The tolerance takes the larger of it and 1.",
    ),
    Equivalent(
        "cli/new_nodes.py",
        "if text.isdecimal() and len(text) < 10 and int(text) < len(names):",
        "10",
        "11",
        "No file has a thousand million tasks; the bound keeps endless digits from being converted.",
    ),
    Equivalent(
        "cli/warm_up.py",
        "model = kind(metric=form, n_iters=200, shards=shards, score=score, average=True).fit(tasks)",
        "200",
        "201",
        COMPILED,
    ),
    Equivalent(
        "cli/warm_up.py",
        "model = kind(metric=form, n_iters=200, shards=shards, score=score, average=True).fit(tasks)",
        "True",
        "False",
        COMPILED,
    ),
    Equivalent("cli/warm_up.py", "connect(metric, networks[0], k=2)", "0", "1", COMPILED),
    Equivalent(
        "selection/ranking_weights.py",
        "change, length = np.linalg.solve(curvature + RIDGE * np.eye(len(terms)), gradient), 1.0",
        "1.0",
        "3.0",
        "The length is halved until the loss is smaller, so the search ends at the same minimum, in more steps.",
    ),
    Equivalent(
        "selection/ranking_weights.py",
        "MOST_NODES, MOST_LINKS, N_OTHERS = 500, 10, 30  "
        "# nodes of a fold, links of a node, and non-links that are sampled",
        "500",
        "501",
        "A bound on the time: one more of 500 sampled nodes changes the learned weights by noise.",
    ),
    Equivalent(
        "runs/evaluations.py",
        "MOST_CANDIDATES = 20_000  # among which links are ranked; of a larger network, this number of nodes is drawn",
        "20_000",
        "20001",
        "A bound on the time of an evaluation: one more of 20,000 drawn candidates.",
    ),
    Equivalent(
        "runs/evaluations.py",
        "_hidden_sample(network, nodes, n_nodes, seed) for network, nodes in zip(networks, hidden, strict=True)",
        "True",
        "False",
        "Both have one entry per network.",
    ),
    Equivalent(
        "runs/run.py",
        "self.run.check()",
        "self.run.check()",
        "pass",
        "A line of the history is written right before, with the same check; only a signal while a shard is awaited "
        "leaves it out.",
    ),
    Equivalent(
        "cluster/__init__.py",
        "client = distributed.Client(address, timeout=10)",
        "10",
        "11",
        "How long a scheduler that does not answer is awaited.",
    ),
    Equivalent(
        "cluster/messages.py",
        "if len(places) * (after.itemsize + 4) >= after.nbytes:",
        "4",
        "5",
        "Either form of a message has the same content; this decides which one is sent where both are about as long.",
    ),
    Equivalent(
        "cluster/shared_memory.py",
        "parts = [room[start : start + size] for start, size in zip(handle.starts, handle.sizes, strict=True)]",
        "True",
        "False",
        "Both have one entry per array.",
    ),
    Equivalent(
        "cluster/worker.py",
        "if Path(path).stat().st_size > MOST_COPIED_BYTES:",
        "Path(path).stat().st_size > MOST_COPIED_BYTES",
        "(Path(path).stat().st_size >= MOST_COPIED_BYTES)",
        "A file of exactly this size is mapped instead of read; its content is the same.",
    ),
    Equivalent("runs/lock.py", "return False", "return False", "return None", "Only its truth is used."),
    Equivalent(
        "training/stages.py",
        "state.reserve(stops[-1])",
        "state.reserve(stops[-1])",
        "pass",
        "Memory for the counts is then allocated when it is needed, several times; their values are the same.",
    ),
    Equivalent(
        "baselines/plain.py",
        "self.counts_[network.name] = dict(zip(network.nodes.tolist(), received.tolist(), strict=True))",
        "True",
        "False",
        "Both have one entry per node.",
    ),
    Equivalent(
        "baselines/plain.py",
        "def get_params(self, deep: bool = True) -> dict[str, Any]:",
        "True",
        "False",
        "The argument is that of scikit-learn; no parameter has parameters of its own.",
    ),
    Equivalent(
        "runs/selecting.py",
        "Checkpoints(run.checkpoints, 1).remove()",
        "1",
        "2",
        "All checkpoints are removed; the number to keep is for saving.",
    ),
    Equivalent(
        "training/packed.py",
        "n_features = int((np.sqrt(8 * len(packed) + 1) - 1) / 2)",
        "1",
        "2",
        "The root of a number that is larger by 1 has the same whole part; mutants of the other 1 are killed.",
    ),
    Equivalent("service/openapi.py", '"k": 3,', "3", "4", "An example of a request; any number will do."),
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
    Equivalent(
        "network.py",
        'self.__dict__["_frozen"] = True',
        "True",
        "False",
        "Only whether a network has the entry is tested, never its value.",
    ),
    Equivalent(
        "sparse/csr.py",
        "return max(int(values.max()), -int(values.min())) * n_summed <= np.iinfo(np.int64).max",
        "max(int(values.max()), -int(values.min())) * n_summed <= np.iinfo(np.int64).max",
        "(max(int(values.max()), -int(values.min())) * n_summed < np.iinfo(np.int64).max)",
        "Sums of exactly the largest int64 become the same float64, as integers or as floats.",
    ),
    Equivalent(
        "io/readers/edges.py",
        "LINES_PER_REPORT = 20_000",
        "20_000",
        "20001",
        "How often progress is reported; what is read is the same.",
    ),
    Equivalent(
        "io/readers/debian.py",
        "STANZAS_PER_REPORT = 5000",
        "5000",
        "5001",
        "How often progress is reported; what is read is the same.",
    ),
    Equivalent(
        "io/readers/debian.py",
        "is_kept = np.ones(links.shape[0], dtype=bool)",
        "0",
        "1",
        "Links among packages are a square matrix.",
    ),
    Equivalent(
        "io/readers/matlab.py",
        "networks = [_read_file(path, name, ignore_weights) for path, name in zip(files, names, strict=True)]",
        "True",
        "False",
        "Both have one entry per file.",
    ),
    Equivalent(
        "report/plots.py",
        'parts.append(_text(right - 36, y, _short(name, 26), "small end"))',
        "36",
        "37",
        "One pixel more between a name and the sample of its line, of 6.",
    ),
    Equivalent(
        "report/plots.py",
        """parts.append(f'<path class="rule" d="M{left} {y}H{right}"/>{_text(left - 6, y + 4, text, "small end")}')""",
        "6",
        "7",
        "One pixel more between a number and its axis, of 6.",
    ),
    Equivalent(
        "cli/output.py",
        "heads = [_stacked(title, width) for (title,), width in zip(heads, bodies, strict=True)]",
        "True",
        "False",
        "Both are made from the header, one entry per column.",
    ),
]
