"""What all rivals share: tuning on training nodes within a budget of CPU seconds."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

import fastspml as fs
from fastspml.ranking.measures import Scorer

VALIDATION_SIZE, MAX_VALIDATED = 0.2, 200  # share of the training nodes; nodes of a task that are ranked
WARM_UP_S = 0.01  # the budget of a warm-up, whose results are not used

Setting = dict[str, Any]


class Clock:
    """CPU seconds of this process since the clock was made, against a budget.

    Every rival runs on one thread, so that these are the wall seconds of a machine that does nothing else.
    """

    def __init__(self, budget: float) -> None:
        self.budget = budget
        self._started = time.process_time()

    @property
    def used(self) -> float:
        """Seconds used."""
        return time.process_time() - self._started

    @property
    def left(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self.budget - self.used)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        return self.used >= self.budget


class Rival(ABC):
    """A way to predict links, tuned on nodes held out of the training networks.

    Attributes
    ----------
    name : str
    uses : what it knows of a candidate when it predicts, as the page says it
    modules : names of the modules that it needs
    needs_texts : whether it needs the texts of the nodes
    scorer : what ranks candidates, set by `fit`
    last_s : CPU seconds of the last training, without tuning; None if not known
    """

    name: str = ""
    uses: str = "words"
    modules: tuple[str, ...] = ()
    needs_texts: bool = False
    scorer: Scorer

    def __init__(self, vectors: Any = None) -> None:
        """Take sentence vectors of the nodes, if the rival needs them: a `texts.Vectors`."""
        self.vectors = vectors
        self.setting: Setting = {}
        self.n_tried = 0
        self.last_s: float | None = None

    @abstractmethod
    def fit(self, networks: list[fs.Network], seconds: float) -> Rival:
        """Tune and train on training networks, in about `seconds` in all."""

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return how likely each of the nodes links to every node, shape (len(nodes), n_nodes)."""
        return self.scorer.scores(network, nodes)


class TunedRival(Rival):
    """A rival whose settings are tried one after the other; `settings` has the default first."""

    settings: tuple[Setting, ...] = ({},)

    @abstractmethod
    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Return a scorer learned from training networks; iterative learners stop when the clock is over."""

    def fit(self, networks: list[fs.Network], seconds: float) -> Rival:
        """Choose a setting on held-out training nodes, and train with it on all of them, in about `seconds` in all.

        Several tasks are learned both together and one by one, whichever validates better. A setting is tried if the
        longest trial so far, and the last training, still fit into the budget. A trial takes at most a quarter.
        """
        clock, longest, best = Clock(seconds), 0.0, -np.inf
        choices = with_tasks(self.settings, len(networks))
        splits = fs.split_networks(networks, VALIDATION_SIZE, seed=1)
        self.setting = choices[0]
        for setting in choices if len(choices) > 1 else ():
            if self.n_tried and clock.used + 2.5 * longest > seconds:
                break
            started = clock.used
            score = validated(self._trained([s.train for s in splits], setting, Clock(seconds / 4)), splits)
            longest, self.n_tried = max(longest, clock.used - started), self.n_tried + 1
            if score > best:
                self.setting, best = setting, score
        started = clock.used
        self.scorer = self._trained(networks, self.setting, Clock(clock.left))
        self.last_s = clock.used - started
        return self

    def _trained(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        if setting.get("tasks") != "separate":
            return self.train(networks, setting, clock)
        share = clock.budget / len(networks)
        return ByTask({network.name: self.train([network], setting, Clock(share)) for network in networks})


class ByTask:
    """A scorer per task, known by the name of its network."""

    def __init__(self, scorers: dict[str, Scorer]) -> None:
        self.scorers = scorers

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of the task's own scorer."""
        return self.scorers[network.name].scores(network, nodes)


def with_tasks(settings: Sequence[Setting], n_tasks: int) -> list[Setting]:
    """Return the settings, each for tasks together and one by one if there are several of both."""
    if n_tasks == 1 or len(settings) == 1:
        return list(settings)
    return [setting | {"tasks": tasks} for setting in settings for tasks in ("together", "separate")]


def validated(scorer: Scorer, splits: Sequence[Any]) -> float:
    """Return what settings are chosen by, on the hidden nodes of splits: AUC and nDCG@10, as `fs.select` does."""
    means = [fs.link_quality(scorer, split.network, split.test_nodes[:MAX_VALIDATED]).means() for split in splits]
    return float(np.mean([(mean["auc"] + mean["ndcg"]) / 2 for mean in means]))
