"""What Python users see: tables in notebooks, a bar while fitting, and a logged sentence while kernels are compiled."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
import tqdm

import fastspml as fs
from fastspml.notebook import html_table
from fastspml.selection.trials import Selection, Trial
from fastspml.training.progress_bar import shown
from tests.conftest import make_network

HOSTILE = "<script>alert(1)</script>\x1b[1m"


def fitted(kind=fs.SPML, **params):
    networks = [make_network(0, name=HOSTILE), make_network(1)]
    return kind(n_iters=20, **params).fit(networks[: 2 if kind is fs.MTSPML else 1])


def test_cells_are_escaped_and_cut():
    table = html_table(HOSTILE, [["x" * 100, 0.123456789]], ["<name>", "value"])
    assert "<script>" not in table
    assert "\x1b" not in table
    assert "&lt;name&gt;" in table
    assert ">" + "x" * 57 + "...<" in table
    assert ">0.1235<" in table


@pytest.mark.parametrize("form", ["diagonal", "full", "factored"])
def test_a_metric_shows_its_top_features(form):
    network = make_network(vocabulary=[HOSTILE, *(f"w{f}" for f in range(1, 9))])
    metric = fs.SPML(metric=form, n_iters=20).fit(network).metric_
    table = metric._repr_html_()
    assert table.count("<tr>") == 1 + 9
    assert "<th>feature</th><th>weight</th>" in table
    assert "<script>" not in table
    first = metric.top_features(1)
    assert table.index(f"{float(first.weight[0]):.4g}") < table.index("w1</td>") or first.feature[0] == "w1"


def test_the_table_of_a_metric_is_short():
    assert fs.Metric.identity(1000)._repr_html_().count("<tr>") == 11


@pytest.mark.parametrize("kind", [fs.SPML, fs.MTSPML])
def test_a_model_shows_its_parameters_and_what_was_fitted(kind):
    new = kind(n_iters=77)._repr_html_()
    assert f"<caption>{kind.__name__}, not fitted</caption>" in new
    assert "<th>n_iters</th><td>77</td>" in new
    table = fitted(kind)._repr_html_()
    assert f"<caption>{kind.__name__}</caption>" in table
    assert "<th>fitted iterations</th><td>20</td>" in table
    assert "<th>features</th><td>9</td>" in table
    assert "&lt;script&gt;" in table
    assert "<script>" not in table
    assert "<th>calibrated</th><td>no</td>" in table


def test_a_selection_shows_its_best_trials_and_the_baselines():
    trials = [Trial({"reg": 10.0**-place, "metric": "full"}, (0.9 - place / 100, 0.8)) for place in range(12)]
    table = Selection({}, 0.9, None, trials, scoring_="mrr", baselines_={HOSTILE: trials[3]})._repr_html_()
    assert "best 10 of 12 trials" in table
    assert "<th>metric</th><th>reg</th><th>mrr</th><th>standard error</th>" in table
    assert table.count("<tr>") == 1 + 10 + 1
    assert "<script>" not in table
    assert "<td>full</td><td>1</td><td>0.85</td><td>0.05</td>" in table


def test_a_bar_shows_how_far_a_fit_is(capsys):
    network = make_network()
    plain, with_bar = fs.SPML(n_iters=500).fit(network), fs.SPML(n_iters=500).fit(network, progress="bar")
    err = capsys.readouterr().err
    assert "SPML" in err
    assert "500/500" in err
    assert plain.metric_.weights.tolist() == with_bar.metric_.weights.tolist()


def test_the_bar_of_a_resumed_fit_starts_where_it_stopped(capsys):
    network = make_network()
    model = fs.SPML(n_iters=200).fit(network)
    model.partial_fit(network, 100, progress="bar")
    assert "300/300" in capsys.readouterr().err


def test_the_pace_of_a_resumed_fit_is_that_of_its_new_iterations(monkeypatch):
    bars = []
    real = tqdm.tqdm
    monkeypatch.setattr(tqdm, "tqdm", lambda **options: bars.append(real(**options, disable=False)) or bars[-1])
    network = make_network()
    fs.SPML(n_iters=200).fit(network).partial_fit(network, 100, progress="bar")
    assert [(bar.initial, bar.n, bar.total) for bar in bars] == [(200, 300, 300)]


def test_a_bar_shows_how_far_a_new_task_is(capsys):
    model = fitted(fs.MTSPML)
    model.add_task(make_network(2), 50, progress="bar")
    err = capsys.readouterr().err
    assert "task task 2" in err
    assert "50/50" in err


@pytest.mark.parametrize("progress", [True, "loud", 3])
@pytest.mark.parametrize("method", ["fit", "resume", "partial_fit", "add_task"])
def test_other_values_of_progress_are_refused_before_anything_is_done(method, progress):
    model = fitted(fs.MTSPML)
    with pytest.raises(TypeError, match=f"^progress must be a callable, 'bar' or None; got {progress!r}.$"):
        getattr(model, method)(make_network().replace(name="new", features=None), progress=progress)


def test_compilation_is_logged_once_and_only_if_it_happens(caplog):
    from numba import njit

    from fastspml.training import progress_bar

    progress_bar._CompilationListener.has_logged = False
    with caplog.at_level(logging.INFO, logger="fastspml"):
        with progress_bar.logged_compilation():
            pass
        assert caplog.records == []
        for _ in range(2):
            with progress_bar.logged_compilation():
                njit(lambda x: x + 1)(1)
    assert [record.message.split(",")[0] for record in caplog.records] == ["compiling kernels"]


def test_the_first_compilation_of_a_process_is_logged():
    program = (
        "import logging; logging.basicConfig(level=logging.INFO); from numba import njit; "
        "from fastspml.training.progress_bar import logged_compilation\n"
        "with logged_compilation(): njit(lambda x: x + 1)(1)"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "compiling kernels, which takes half a minute or more the first time" in got.stderr


def test_a_fit_is_silent_by_default():
    program = (
        "import fastspml as fs; fs.SPML(n_iters=5).fit(fs.synthetic_networks(n_tasks=1, n_nodes=30, n_features=20, "
        "words_per_node=4, links_per_node=2))"
    )
    got = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (got.stdout, got.stderr) == ("", "")


def test_what_cannot_show_progress_is_refused_by_the_bar_too():
    with (
        pytest.raises(TypeError, match="progress must be a callable, 'bar' or None; got 'loud'"),
        shown("loud", "SPML"),
    ):
        pass
