"""House rules that run as checks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fastspml
from bench.mutation.known import KNOWN
from tests import naive

ROOT = Path(fastspml.__file__).parent
KERNELS = sorted((ROOT / "kernels").rglob("*.py"))

# Kernels whose twin is called otherwise, or that compute nothing which could have one.
OTHER_TWINS = {
    "run_chunk": ("spml", "mtspml", "sharded"), "merge_shard": ("sharded",), "harmonic_after": ("mean_metric",),
    "search_nodes": ("nearest",), "rank_links": ("link_quality",), "prefetch_filter": (), "span_of": (),
    "score_row": ("score_nodes",), "kernel": (), "group_of": (), "scaled": (), "norm_weight": (),
    "draw_candidate": ("draw_triplet",), "check_candidate": ("draw_triplet",), "may_be_linked": ("fill_filter",),
    "draw_batch": ("draw_triplet",), "prefetch_for_adding": (), "prefetch_for_evaluation": (),
    "fill_row": (), "subtract_features": ("score_nodes",),
    "set_factors": ("factors", "first_factors"), "set_step_sizes": ("factors",), "gap_factors": ("gap",),
    "add_factors": ("factor_step",), "member_of": ("sharded",), "triplet_of": (), "differences": ("outer_difference",),
    "gap_diagonal": ("gap",), "gap_full": ("gap",), "gradient_diagonal": ("outer_difference",),
    "add_diagonal": ("outer_difference",), "add_outer": ("outer_difference",),
    "score_links": ("score_nodes",), "count_negatives": ("link_quality",), "score_from_counts": ("link_quality",),
}  # fmt: skip

DECORATORS = ("kernel", "rare_kernel", "allocating_kernel")


def functions(path):
    return [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]


def is_kernel(function):
    return any(isinstance(decorator, ast.Name) and decorator.id in DECORATORS for decorator in function.decorator_list)


def test_naive_imports_nothing_of_fastspml():
    tree = ast.parse(Path(naive.__file__).read_text())
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported == {"math", "numpy"}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def names_used(path):
    """Return the names that a file imports from kernels, or reads from a module of them."""
    modules, used = {kernels.stem for kernels in KERNELS}, set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fastspml.kernels"):
            used |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            used.add(node.attr)
    return used


def test_kernels_used_elsewhere_have_a_twin():
    used = {name for path in ROOT.rglob("*.py") for name in names_used(path)}
    assert "run_chunk" in used
    for path in KERNELS:
        for function in filter(is_kernel, functions(path)):
            twins = OTHER_TWINS.get(function.name, (function.name,))
            has_twins = all(hasattr(naive, twin) for twin in twins)
            assert has_twins or function.name not in used, f"{path.name}: {function.name} has no twin"


def test_kernels_have_docstrings():
    for path in KERNELS:
        assert ast.get_docstring(ast.parse(path.read_text()))
        for function in filter(is_kernel, functions(path)):
            assert ast.get_docstring(function), f"{path.name}: {function.name}"


def test_public_names_have_docstrings():
    for name in fastspml.__all__:
        assert name == "__version__" or getattr(fastspml, name).__doc__, name


def test_the_library_never_prints():
    for path in ROOT.rglob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        printed = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"]
        assert not printed or {"cli", "examples"} & set(path.parts), path


def test_known_mutants_change_code_that_exists_once():
    changed = {
        f"{known.module}: {known.what}": (ROOT / known.module).read_text().count(known.before) for known in KNOWN
    }
    assert changed == dict.fromkeys(changed, 1)


def test_only_io_imports_h5py():
    for path in ROOT.rglob("*.py"):
        assert "import h5py" not in path.read_text() or "io" in path.parts


@pytest.mark.parametrize("hindrance", ["the folder cannot be made", "numba finds no folder"])
def test_kernels_work_where_no_cache_can_be_written(tmp_path, hindrance):
    (tmp_path / "file").write_text("")
    environment = {"PATH": "/usr/bin"}
    program = (
        "import fastspml as fs\n"
        "net = fs.synthetic_networks(n_tasks=1, n_nodes=30, n_features=20, words_per_node=4, links_per_node=2)\n"
        "print(fs.SPML.paper(n_iters=3).fit(net).n_iters_)\n"
    )
    if hindrance == "numba finds no folder":
        program = (
            "from numba.core import caching\n"
            "getattr(caching, 'CacheImpl', getattr(caching, '_CacheImpl', None))._locator_classes = []\n"
        ) + program
    else:  # below a file no folder can be made, not even by root
        environment["NUMBA_CACHE_DIR"] = str(tmp_path / "file" / "cache")
    got = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT.parent
    )
    assert got.stdout.strip() == "3", got.stderr
