"""LinkService: answers to requests for links, as plain values; knows nothing of HTTP."""

from __future__ import annotations

import math
from collections import Counter
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from fastspml.checks import is_whole, printable, quoted
from fastspml.network import Network
from fastspml.ranking.index import LinkIndex
from fastspml.ranking.link_table import Link
from fastspml.ranking.model_metrics import check_network, metric_of
from fastspml.ranking.model_records import calibrations_of
from fastspml.ranking.prediction import predict_links
from fastspml.sparse.csr import counts_as_floats, csr_from_parts, freeze_csr, index_dtype
from fastspml.tokens import Tokenizer

SOURCES = ("text", "counts", "node")  # a request has exactly one of them
OPTIONS = ("k", "reasons")

LARGEST_COUNT = 1e12  # squares of larger ones could exceed float32
SHOWN_UNKNOWN = 20  # features of an answer that the model does not know


@dataclass(frozen=True)
class Limits:
    """What clients may demand of the service, at most.

    Parameters
    ----------
    k : int, default 1000
        Links of an answer.
    reasons : int, default 50
        Reasons of each link.
    features : int, default 5000
        Features of a request that the model knows.
    body_bytes : int, default 1_048_576
        Size of a request without its headers.
    connections : int, default 256
        Clients that are connected at the same time.
    request_s : float, default 10.0
        Time in which a request must arrive, from its first byte to its last, and in which an answer must be taken.
    idle_s : float, default 60.0
        Time between two requests on the same connection.
    """

    k: int = 1000
    reasons: int = 50
    features: int = 5000
    body_bytes: int = 1_048_576
    connections: int = 256
    request_s: float = 10.0
    idle_s: float = 60.0


class RequestError(ValueError):
    """A request that cannot be answered: the HTTP status, and a sentence that says what to do."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class LinkService:
    """Predict the links of one node at a time. The index is built once; any number of threads may call `answer`.

    Parameters
    ----------
    model : Metric, or a fitted model
    network : Network
        Nodes that can be linked to, and the known links. The task of the model is the one with its name.
    tokenizer : Tokenizer, optional
        Finds the words of texts; by default that of the model or of the network.
    k : int, default 10
        Links of an answer, if a request does not say how many.
    limits : Limits, optional

    Examples
    --------
    >>> import fastspml as fs
    >>> from fastspml.service.link_service import LinkService
    >>> network = fs.Network([[1, 0], [0, 2]], nodes=["apt", "bash"], vocabulary=["package", "shell"])
    >>> service = LinkService(fs.Metric.identity(2, vocabulary=network.vocabulary), network)
    >>> answer = service.answer({"text": "A Shell", "k": 1})
    >>> [(link["candidate"], link["score"]) for link in answer["links"]]
    [('bash', -1.0)]
    """

    def __init__(
        self,
        model: Any,
        network: Network,
        tokenizer: Tokenizer | None = None,
        k: int = 10,
        limits: Limits | None = None,
    ) -> None:
        check_network(network, "LinkService")
        self.limits = Limits() if limits is None else limits
        if not is_whole(k) or not 1 <= k <= self.limits.k:
            raise ValueError(f"k must be an integer from 1 to {self.limits.k}, got {quoted(k)}.")
        if network.n_nodes == 0:
            raise ValueError(f"{quoted(network.name)} has no nodes that could be linked to.")
        self.k = int(k)
        metric = metric_of(model, network, "LinkService")
        self.weighting = metric.weighting
        # Requests and answers have names as texts; a node without a name is known by its position.
        named = network.replace(nodes=network.nodes.astype(str), named_nodes=True)
        # The nodes are weighted once, so the metric of the service expects weighted rows.
        self.network = self.weighting.transform(named) if metric.takes_counts and self.weighting else named
        self._no_node = Network(sparse.csr_array((1, network.n_features))).replace(dense_blocks=network.dense_blocks)
        self.metric = copy(metric)
        self.metric.takes_counts = False
        self.index = LinkIndex(self.metric, self.network)
        self.calibration = calibrations_of(model).get(network.name)
        self.tokenizer = tokenizer or getattr(model, "tokenizer_", None) or network.tokenizer or Tokenizer()
        vocabulary = self.metric.vocabulary if self.metric.vocabulary is not None else network.vocabulary
        names = [] if vocabulary is None else vocabulary.tolist()
        self._column_of = {str(name): column for column, name in enumerate(names)}

    @property
    def reads_features(self) -> bool:
        """Whether texts and counts can be answered; without a vocabulary, only nodes of the network can."""
        return bool(self._column_of)

    @property
    def shows_through(self) -> bool:
        """Whether links name the neighbour that they were found through."""
        return self.metric.neighbour_weight > 0

    def warm_up(self) -> None:
        """Answer a request of each kind, so that kernels are compiled before the first client comes."""
        self.answer({"node": self.network.nodes[0].item()})
        for name in list(self._column_of)[:1]:
            self.answer({"counts": {name: 1}})

    def answer(self, request: Any) -> dict[str, Any]:
        """Return the predicted links of a node, as plain values for JSON.

        Parameters
        ----------
        request : dict
            One of ``text``, ``counts`` (feature to number) and ``node`` (name of a node of the network, whose known
            links are left out); and ``k`` and ``reasons``, the numbers of links and of reasons for each.

        Returns
        -------
        dict
            ``links``, best first, and what was read: see `fastspml.service.openapi`.
        """
        source, k, n_reasons = self._checked(request)
        new, unknown = self._new_node(source, request[source])
        table = predict_links(
            self.metric, self.network, new, k, reasons=n_reasons, calibration=self.calibration, index=self.index
        )
        return {
            "task": self.network.name,
            "node": str(request["node"]) if source == "node" else None,
            "ranked_by": self.metric.score,
            "is_blank": len(table.blank_nodes) > 0,
            "n_unknown": len(unknown),
            "unknown": unknown[:SHOWN_UNKNOWN],
            "links": [_plain(link, self.shows_through) for link in table],
        }

    def _checked(self, request: Any) -> tuple[str, int, int]:
        """Return the source of the features, k and the number of reasons of a request; refuse a malformed one."""
        if not isinstance(request, dict):
            raise RequestError(400, f"the body must be a JSON object, got {_kind(request)}.")
        found = [name for name in SOURCES if name in request]
        if len(found) != 1:
            got = " and ".join(found) or "none"
            raise RequestError(400, f"a request needs exactly one of text, counts and node; got {got}.")
        strange = [name for name in request if name not in (*SOURCES, *OPTIONS)]
        if strange:
            allowed = ", ".join((*SOURCES, *OPTIONS))
            raise RequestError(400, f"{_quoted(strange[0])} is not a field of a request; there are {allowed}.")
        k = _whole("k", request.get("k", self.k), 1, self.limits.k)
        n_reasons = _whole("reasons", request.get("reasons", 5), 0, self.limits.reasons)
        return found[0], k, n_reasons

    def _new_node(self, source: str, value: Any) -> tuple[Any, list[str]]:
        """Return the node of a request as `predict_links` takes it, and the features that the model does not know."""
        if source == "node":
            return [self._known_name(value)], []
        if not self.reads_features:
            raise RequestError(400, f"the features of this model have no names, so {source} cannot be read; send node.")
        if source == "text":
            if not isinstance(value, str):
                raise RequestError(400, f"text must be a string, got {_kind(value)}.")
            value = Counter(self.tokenizer.words(value))
        elif not isinstance(value, dict):
            raise RequestError(400, f"counts must be an object of features and numbers, got {_kind(value)}.")
        counts = {name: _count(name, number) for name, number in value.items()}
        known = {self._column_of[name]: number for name, number in counts.items() if name in self._column_of}
        unknown = [name for name in value if name not in self._column_of]
        if source == "text":
            unknown = [word for word in unknown if not self.tokenizer.leaves_out(word)]
        if len(known) > self.limits.features:
            raise RequestError(400, f"{len(known)} known features were given, at most {self.limits.features} are read.")
        new = self._node_of({column: number for column, number in known.items() if number})
        if self.weighting is None:
            return new, unknown
        try:
            return self.weighting.transform(new), unknown
        except ValueError:
            kind = self.weighting.kind
            raise RequestError(400, f"counts must be 0 or more, because the model weights them by {kind}.") from None

    def _node_of(self, values: dict[int, float]) -> Network:
        """Return a network of one node, made of canonical parts, which nothing has to check again."""
        columns: np.ndarray = np.array(sorted(values), dtype=index_dtype(self.metric.n_features))
        data = counts_as_floats([values[column] for column in columns.tolist()])
        row = csr_from_parts(data, columns, np.array([0, len(columns)]), (1, self.metric.n_features))
        return self._no_node.replace(features=freeze_csr(row))

    def _known_name(self, value: Any) -> str:
        if not isinstance(value, str) and not is_whole(value):
            raise RequestError(400, f"node must be the name of a node, got {_kind(value)}.")
        if str(value) not in self.index.node_names:
            raise RequestError(404, f"no node of {quoted(self.network.name)} is called {_quoted(str(value))}.")
        return str(value)


def _plain(link: Link, with_neighbour: bool) -> dict[str, Any]:
    reasons = [
        {"feature": str(reason.feature), "other": str(reason.other), "shared": reason.shared} for reason in link.reasons
    ]
    plain = {
        "candidate": link.candidate,
        "score": link.score,
        "probability": None if math.isnan(link.probability) else link.probability,
        "reasons": reasons,
    }
    return plain | {"through": link.through} if with_neighbour else plain


def _whole(name: str, value: Any, first: int, last: int) -> int:
    """Return an integer of a range; refuse anything else."""
    if not is_whole(value) or not first <= value <= last:
        got = printable(value, 20) if is_whole(value) or isinstance(value, float) else _kind(value)
        raise RequestError(400, f"{name} must be an integer from {first} to {last}, got {got}.")
    return int(value)


def _count(name: str, value: Any) -> float:
    """Return the number of a feature; refuse what is no number, or too large to be squared."""
    is_number = is_whole(value) or isinstance(value, float)
    if not is_number or not abs(value) <= LARGEST_COUNT:
        got = printable(value, 20) if is_number else _kind(value)
        limit = f"{LARGEST_COUNT:g}"
        raise RequestError(400, f"the count of {_quoted(name)} must be a number up to {limit}, got {got}.")
    return float(value)


def _quoted(text: str) -> str:
    return f"'{printable(text, 60)}'"


def _kind(value: Any) -> str:
    """Return the name of the JSON type of a value."""
    kinds = {bool: "true or false", str: "a string", dict: "an object", list: "an array", type(None): "null"}
    return kinds.get(type(value), "a number")
