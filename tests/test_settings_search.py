"""The search of `select` with fits that are done at once: what is fitted in which order, counted, stopped and chosen."""

from __future__ import annotations

import time
from concurrent.futures import Future
from contextlib import nullcontext

import numpy as np
import pytest

from fastspml.selection.folds import Evaluation, fit_fold
from fastspml.selection.ranking_weights import learned_weights, link_differences
from fastspml.selection.settings_search import Search, as_trials
from fastspml.selection.trials import Trial

N_FOLDS, FIT_SECONDS = 3, 0.5
SETTINGS = [{"reg": reg, "n_iters": (1, 4)} for reg in (5, 4, 3, 2, 1)]
LINK_PAIRS = np.column_stack([np.random.default_rng(0).normal(1.0, 1.0, (60, 4)), np.full(60, 0.1)])


def score_of(params, f):
    """Return a score that is better for small values of `reg`, more iterations, lengths near .5 and later folds."""
    length = params.get("length_weight", 0.0)
    return 0.7 - 0.02 * params["reg"] + 0.001 * params["n_iters"] - 0.1 * abs(length - 0.5) + 0.01 * f


class Fits:
    """What `Search.run` takes as a runner: fits that are done at once. `started` lists them."""

    def __init__(self, score=score_of, pairs=None, auc=None):
        self.started, self.score, self.pairs, self.auc = [], score, pairs or [LINK_PAIRS] * N_FOLDS, auc

    def runner(self):
        return nullcontext(self.start)

    def start(self, setting, f, fit=fit_fold):
        self.started.append((fit.__name__, setting, f))
        if fit is link_differences:
            found = [self.pairs[f]] * len(setting)
        elif fit is fit_fold:
            found = [self.evaluation(setting | {"n_iters": n}, f) for n in setting["n_iters"]]
        else:
            found = [self.evaluation(of_ranking, f, 0.1) for of_ranking in setting]
        future = Future()
        future.set_result((found, FIT_SECONDS))
        return future

    def evaluation(self, params, f, hub_share=None):
        score = self.score(params, f)
        return Evaluation(params, score, (score,), {"auc": score if self.auc is None else self.auc}, hub_share)

    def settings(self, kind):
        """Return the settings that were fitted by a function, each once."""
        found = [setting for name, setting, _ in self.started if name == kind]
        return [setting for place, setting in enumerate(found) if setting not in found[:place]]


def other_lengths(setting):
    return [setting | {"length_weight": length} for length in (0.5, 0.75)]


def another_reg(trials):
    return {"reg": 0, "n_iters": (8,)}


def nothing(trials):
    return None


@pytest.mark.parametrize(
    ("lengths", "kinds", "n_last"),
    [
        (None, (), 0),
        (other_lengths, (), 1),
        (None, ("neighbours",), 2),
        (None, ("neighbours", "popularity"), 3),
        (other_lengths, ("neighbours", "popularity"), 4),
    ],
)
def test_all_fits_are_counted_before_the_first(lengths, kinds, n_last):
    """Rungs of five settings and two, each on all folds; then lengths, pairs of links, and each kind of links."""
    seen = []
    search = Search(SETTINGS, N_FOLDS, progress=seen.append)
    assert search.run(Fits().runner(), (4, 1), [nothing], lengths, kinds) is True
    assert [record.n_done for record in seen] == list(range(1, N_FOLDS * (5 + 2 + n_last) + 1))
    assert {record.n_fits for record in seen} == {len(seen)}


def test_fits_of_a_refinement_are_counted_when_it_is_known():
    seen, fits = [], Fits()
    search = Search(SETTINGS, N_FOLDS, progress=seen.append)
    assert search.run(fits.runner(), (4, 1), [nothing, another_reg], other_lengths) is True
    assert [record.n_fits for record in seen] == [24] * 21 + [27] * 6
    assert fits.started[21] == ("fit_fold", {"reg": 0, "n_iters": (8,)}, 0)
    assert search.choice().params == {"reg": 0, "n_iters": 8, "length_weight": 0.5}


@pytest.mark.parametrize("n_done", range(1, 37))
def test_a_search_can_be_stopped_after_every_fit_but_the_last(n_done):
    seen = []

    def progress(record):
        seen.append(record.n_done)
        return record.n_done == n_done

    search = Search(SETTINGS, N_FOLDS, progress=progress)
    is_complete = search.run(Fits().runner(), (4, 1), [another_reg], other_lengths, ("neighbours", "popularity"))
    assert is_complete is (n_done == 36)
    assert seen == list(range(1, n_done + 1))


def test_an_interrupt_ends_a_search_early():
    def progress(record):
        raise KeyboardInterrupt

    assert Search(SETTINGS, N_FOLDS, progress=progress).run(Fits().runner(), (1,), []) is False


def test_progress_has_the_seconds_since_the_start_and_the_best_trial_so_far():
    seen, began = [], time.perf_counter()
    search = Search(SETTINGS[:2], N_FOLDS, progress=seen.append)
    search.run(Fits().runner(), (1,), [])
    elapsed = [record.elapsed_s for record in seen]
    assert 0.0 <= min(elapsed) <= max(elapsed) <= time.perf_counter() - began
    assert elapsed == sorted(elapsed)
    assert seen[0].best is None
    assert seen[-1].best.params["reg"] == 4


def test_seconds_of_a_trial_are_those_of_all_its_fits():
    search = Search(SETTINGS[:1], N_FOLDS)
    search.run(Fits().runner(), (4, 1), [], other_lengths)
    first, second = search.trials[0]
    assert (first.params["n_iters"], first.seconds) == (1, N_FOLDS * FIT_SECONDS)
    assert (second.params["n_iters"], second.seconds) == (4, 2 * N_FOLDS * FIT_SECONDS)
    assert {trial.seconds for trial in search.rankings} == {N_FOLDS * FIT_SECONDS}


def test_a_rung_takes_only_the_iterations_that_are_left():
    fits = Fits()
    search = Search([{"reg": 1, "n_iters": (1, 2, 4)}, {"reg": 2, "n_iters": (1, 4)}], N_FOLDS)
    search.run(fits.runner(), (2, 1), [])
    assert [setting["n_iters"] for setting in fits.settings("fit_fold")] == [(1, 2), (1,), (4,)]


def test_links_are_not_learned_from_a_single_fold():
    fits = Fits()
    search = Search(SETTINGS, 1)
    assert search.run(fits.runner(), (1,), [], None, ("neighbours",))
    assert search.n_done == search.n_fits == len(fits.started) == 5
    fits = Fits()
    Search(SETTINGS, 2).run(fits.runner(), (1,), [], None, ("neighbours",))
    assert fits.settings("link_differences")


def test_links_are_learned_for_all_lengths_and_the_other_kind_for_the_best():
    fits = Fits()
    search = Search(SETTINGS, N_FOLDS)
    search.run(fits.runner(), (1,), [], other_lengths, ("neighbours", "popularity"))
    plain, neighbours, popular = search.rankings[:3], search.rankings[3:6], search.rankings[6:]
    assert [trial.params.get("length_weight") for trial in plain] == [None, 0.5, 0.75]
    learned = {kind: learned_weights(np.concatenate([LINK_PAIRS] * 3), kind) for kind in ("neighbours", "popularity")}
    assert [trial.params for trial in neighbours] == [trial.params | learned["neighbours"] for trial in plain]
    assert [trial.params for trial in popular] == [plain[1].params | learned["popularity"]]


def test_a_fold_is_ranked_without_links_if_nothing_can_be_learned_from_the_others():
    fits = Fits(pairs=[LINK_PAIRS, LINK_PAIRS[:0], LINK_PAIRS[:0]])
    Search(SETTINGS[:1], N_FOLDS).run(fits.runner(), (1,), [], None, ("popularity",))
    without = {"neighbour_weight": 0.0, "degree_weight": 0.0, "unlinked_bonus": 0.0}
    setting, learned = {"reg": 5, "n_iters": 4}, learned_weights(LINK_PAIRS, "popularity")
    assert [(ranked, f) for kind, ranked, f in fits.started if kind == "evaluate_rankings"] == [
        ([setting | without], 0), ([setting | learned], 1), ([setting | learned], 2)
    ]  # fmt: skip


def test_folds_without_a_defined_score_are_refused_unless_another_has_one():
    nan = float("nan")
    with pytest.raises(ValueError, match="no held-out node has both a link and a non-link"):
        Search(SETTINGS, N_FOLDS).run(Fits(lambda params, f: nan).runner(), (1,), [])
    search = Search(SETTINGS, N_FOLDS)
    assert search.run(Fits(lambda params, f: nan if f else 0.5).runner(), (1,), [])
    assert search.choice().score == 0.5


@pytest.mark.parametrize("rungs", [(1,), (4, 1)])
def test_settings_whose_score_is_nan_come_last(rungs):
    """The first settings are those that `max` and `sorted` would keep in front."""
    search = Search(SETTINGS, N_FOLDS)
    score = Fits(lambda params, f: float("nan") if params["reg"] > 1 else 0.5 + f, auc=0.5)
    assert search.run(score.runner(), rungs, [])
    assert search.choice().params["reg"] == 1


def test_link_weights_whose_score_is_nan_come_last():
    search = Search([SETTINGS[0]], N_FOLDS)
    fits = Fits(lambda p, f: float("nan") if p.get("neighbour_weight") and "length_weight" not in p else 0.5, auc=0.5)
    assert search.run(fits.runner(), (1,), [], other_lengths, ("neighbours", "popularity"))
    assert search.rankings[-1].params["length_weight"] == 0.5


@pytest.mark.parametrize("n_evals", [(2, 1), (1, 2)])
def test_every_fold_must_have_every_evaluation(n_evals):
    evaluations = [Evaluation({"n_iters": n}, 0.5, (0.5,), {}) for n in (1, 2)]
    with pytest.raises(ValueError, match="argument"):
        as_trials([(evaluations[:n], 0.1) for n in n_evals])


def test_a_trial_has_the_values_of_every_fold():
    evaluations = [Evaluation({"reg": 1}, 0.5 + f, (0.4 + f, 0.6 + f), {"auc": 0.3 + f}, 0.1 + f) for f in range(2)]
    (got,) = as_trials([([evaluations[0]], 1.0), ([evaluations[1]], 2.5)])
    assert got == Trial({"reg": 1}, (0.5, 1.5), {"auc": (0.3, 1.3)}, 3.5, ((0.4, 0.6), (1.4, 1.6)), (0.1, 1.1))
    (got,) = as_trials([([evaluation._replace(hub_share=None)], 1.0) for evaluation in evaluations])
    assert got.fold_hub_shares == ()


# ---- what is chosen ----


# Differences of 0 and 1/2, whose mean and standard error are both exactly 1/4.
EVEN, AHEAD_BY_AN_ERROR = (0.25, 0.25), (0.25, 0.75)


def search_with(trained, *rankings, **options):
    search = Search([], 2, **options)
    search.trials, search.rankings = {0: list(trained)}, list(rankings)
    return search


@pytest.mark.parametrize(
    ("scores", "expected"),
    [((0.24, 0.24), 1), ((0.25, 0.25), 0), ((0.26, 0.26), 0)],
)
def test_one_standard_error_includes_its_limit(scores, expected):
    """The best score is .5, and its standard error .25."""
    trials = [Trial({"reg": 2}, scores), Trial({"reg": 1}, AHEAD_BY_AN_ERROR)]
    assert search_with(trials, one_standard_error=True).choice() is trials[expected]
    assert search_with(trials).choice() is trials[1]


def test_the_best_is_chosen_where_one_fold_has_no_standard_error():
    trials = [Trial({"reg": 2}, (0.5,)), Trial({"reg": 1}, (0.6,))]
    assert search_with(trials, one_standard_error=True).choice() is trials[1]


def test_a_lead_of_exactly_an_error_does_not_pay_for_links():
    plain, linked = Trial({"reg": 1}, EVEN), Trial({"reg": 1, "neighbour_weight": 1.0}, AHEAD_BY_AN_ERROR)
    assert search_with([plain], linked).choice() is plain


def test_a_ranking_that_is_behind_by_exactly_an_error_counts():
    trained = Trial({"reg": 1}, AHEAD_BY_AN_ERROR, fold_hub_shares=(0.5, 0.5))
    other = Trial({"reg": 1, "length_weight": 0.5}, EVEN, fold_hub_shares=(0.1, 0.1))
    assert search_with([trained], trained, other, most_suggested=0.3).choice() is other


def test_link_weights_of_zero_are_not_chosen_instead_of_none():
    plain = Trial({"reg": 1}, (0.8, 0.8))
    unlinked = Trial({"reg": 1, "neighbour_weight": 0.0, "degree_weight": 0.0, "unlinked_bonus": 0.0}, (0.8, 0.8))
    assert search_with([plain], unlinked).choice() is plain


def test_links_are_used_if_only_rankings_with_links_avoid_hubs():
    trained = Trial({"reg": 1}, (0.8, 0.8), fold_hub_shares=(0.5, 0.5))
    linked = Trial({"reg": 1, "neighbour_weight": 1.0}, (0.8, 0.8), fold_hub_shares=(0.1, 0.1))
    assert search_with([trained], trained, linked, most_suggested=0.3).choice() is linked
    assert search_with([trained], trained, linked).choice() is trained


def test_a_share_of_lists_at_the_limit_is_allowed():
    trained = Trial({"reg": 1}, (0.7, 0.7), fold_hub_shares=(0.1, 0.1))
    other = Trial({"reg": 1, "length_weight": 0.5}, (0.8, 0.8), fold_hub_shares=(0.25, 0.25))
    assert search_with([trained], trained, other, most_suggested=0.25).choice() is other
    assert search_with([trained], trained, other, most_suggested=0.2).choice() is trained
