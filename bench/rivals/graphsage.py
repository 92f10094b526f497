"""GraphSAGE by PyTorch Geometric: known candidates by their neighbours, new nodes by an MLP on their words."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

import fastspml as fs
from bench.rivals.rival import Clock, Setting, TunedRival
from bench.rivals.union import Union
from fastspml.ranking.measures import Scorer

N_NEGATIVES, MAX_LINKS, TEMPERATURE = 20, 20_000, 0.1


class GraphSAGE(TunedRival):
    """In every epoch some nodes play new nodes: they lose their links, which are then predicted."""

    name = "GraphSAGE"
    uses = "words, links"
    modules = ("torch", "torch_geometric")
    settings = tuple(
        {"width": width, "rate": rate, "dropout": dropout, "n_epochs": n_epochs}
        for width, rate, dropout, n_epochs in (
            (128, 0.01, 0.8, 40), (128, 0.003, 0.5, 60), (256, 0.01, 0.8, 60), (64, 0.01, 0.8, 100),
        )
    )  # fmt: skip

    def train(self, networks: list[fs.Network], setting: Setting, clock: Clock) -> Scorer:
        """Run epochs until they are done or the time is over."""
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(0)
        union, rng = Union(networks), np.random.default_rng(0)
        model = encoder(union.features.shape[1], setting["width"], setting["dropout"])
        optimiser = torch.optim.Adam(model.parameters(), lr=setting["rate"], weight_decay=1e-5)
        words, epoch = as_tensor(union.features), 0
        while epoch < setting["n_epochs"] and not clock.is_over:
            for new, left in union.new_node_folds(3, seed=epoch):
                nodes, linked = union.adjacency[new].nonzero()
                if len(nodes) == 0:
                    continue
                chosen = rng.permutation(len(nodes))[:MAX_LINKS]
                nodes, linked = new[nodes[chosen]], linked[chosen]
                others = torch.as_tensor(union.random_candidates(nodes, N_NEGATIVES, rng))
                optimiser.zero_grad()
                queries, candidates = model(words, edges_of(left), torch.as_tensor(np.diff(left.indptr) > 0))
                positive = (queries[nodes] * candidates[linked]).sum(1, keepdim=True)
                negative = (queries[nodes][:, None] * candidates[others]).sum(2)
                ranked = torch.cat([positive, negative], 1) / TEMPERATURE
                torch.nn.functional.cross_entropy(ranked, torch.zeros(len(nodes), dtype=torch.int64)).backward()
                optimiser.step()
            epoch += 1
        return Encoded(model, union)


def encoder(n_features: int, width: int, dropout: float) -> Any:
    """Return a network that gives each node an embedding as a query, and one as a candidate."""
    import torch
    from torch_geometric.nn import SAGEConv

    class Encoder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Linear(n_features, width)
            self.hidden = torch.nn.Linear(width, width)
            self.convolutions = torch.nn.ModuleList([SAGEConv(width, width), SAGEConv(width, width)])
            self.drop = torch.nn.Dropout(dropout)

        def forward(self, words: Any, edges: Any, is_linked: Any) -> tuple[Any, Any]:
            first = self.drop(torch.relu(torch.sparse.mm(words, self.words.weight.T) + self.words.bias))
            own = self.hidden(first)
            around = self.drop(torch.relu(self.convolutions[0](first, edges)))
            around = self.convolutions[1](around, edges)
            known = torch.where(is_linked[:, None], own + around, own)
            return torch.nn.functional.normalize(own), torch.nn.functional.normalize(known)

    return Encoder()


def as_tensor(rows: sparse.csr_array) -> Any:
    """Return rows as a sparse tensor."""
    import torch

    parts = rows.tocoo()
    return torch.sparse_coo_tensor(np.array(parts.coords), parts.data, rows.shape, check_invariants=False).coalesce()


def edges_of(links: sparse.csr_array) -> Any:
    """Return links as PyTorch Geometric takes them."""
    import torch

    return torch.as_tensor(np.array(links.nonzero()), dtype=torch.int64)


class Encoded:
    """Products of embeddings."""

    def __init__(self, model: Any, union: Union) -> None:
        self.model, self.union = model.eval(), union

    def scores(self, network: fs.Network, nodes: np.ndarray) -> np.ndarray:
        """Return the scores of all nodes as candidates."""
        import torch

        links = self.union.known_links(network)
        with torch.no_grad():
            is_linked = torch.as_tensor(np.diff(links.indptr) > 0)
            queries, candidates = self.model(as_tensor(self.union.rows(network)), edges_of(links), is_linked)
            return (queries[nodes] @ candidates.T).numpy()
