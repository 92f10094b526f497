"""Type checkers see the public names: mypy runs on a small project that uses the package as installed."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastspml

# Each line is one mistake that mypy must report, or a correct line that it must accept.
MISTAKES = {
    "model.fitt(networks)": '"SPML" has no attribute "fitt"',
    'fs.SPML(reg="wrong")': 'Argument "reg" to "SPML" has incompatible type "str"',
    'fs.MTSPML(task_reg="wrong")': 'Argument "task_reg" to "MTSPML" has incompatible type "str"',
    "fs.SMPL()": 'Module has no attribute "SMPL"',
    "fs.split_networks(networks, test_sise=0.2)": 'Unexpected keyword argument "test_sise"',
    "fs.datasets.debiann()": 'Module has no attribute "debiann"',
    "fs.distributed.fitt(model, networks, None)": 'Module has no attribute "fitt"',
    "fs.MTSPML().metric(0).fitt()": '"Metric" has no attribute "fitt"',
    "model.metric(0)": '"str" not callable',
}
CORRECT = [
    "model.fit(networks).metric_.top_features(3)",
    "fs.MTSPML.paper(task_reg=[0.1, 0.2], metric='full', weighting=fs.Weighting('tfidf')).fit(networks).metric_for(0)",
    "fs.link_auc(model.metric_, networks[0], networks[0].split().test_nodes).mean()",
    "fs.LinkIndex(model.metric_, networks[0]).query(networks[0].features, k=3)",
    "fs.distributed.fit(model, 'networks.h5', None).violations_.sum()",
    "fs.SPML(metric='diagonal').metric.upper()",
    "fs.MTSPML().fit(networks).metric('admin').weights.sum()",
]
START = ["import fastspml as fs", "networks = fs.datasets.debian()", "model = fs.SPML.paper(reg=1e-3)"]


@pytest.fixture(scope="module")
def reported(tmp_path_factory) -> dict[str, str]:
    """Return what mypy --strict reports, by line of the project's file."""
    project = tmp_path_factory.mktemp("project")
    lines = [*START, *MISTAKES, *CORRECT]
    (project / "user.py").write_text("\n".join(lines) + "\n")
    got = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-codes", "user.py"],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(Path(fastspml.__file__).parent.parent), "MYPYPATH": ""},
        capture_output=True,
        text=True,
    )
    messages = re.findall(r"^user\.py:(\d+): error: (.*)$", got.stdout, re.MULTILINE)
    assert messages, got.stdout + got.stderr
    return {lines[int(number) - 1]: message for number, message in messages}


@pytest.mark.parametrize("line", MISTAKES)
def test_mypy_reports_a_users_mistake(reported, line):
    assert MISTAKES[line] in reported.get(line, "nothing")


def test_mypy_accepts_correct_use(reported):
    assert set(reported) == set(MISTAKES)


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(fastspml.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If)).body
    imported = {alias.asname for node in block if isinstance(node, ast.ImportFrom) for alias in node.names}
    assigned = {node.targets[0].id for node in block if isinstance(node, ast.Assign)}
    names = (imported | assigned) - {"_cluster"}
    assert names == set(dir(fastspml)) - {"__version__"}  # fastspml.sklearn is optional, so not in __all__
