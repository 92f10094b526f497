"""Which packages should a new package depend on, and why?

The packages of one Debian section are the network: words of the description, and links to dependencies. The new package
has a description only.
"""

from __future__ import annotations

import numpy as np

import fastspml as fs

DESCRIPTION = "graphical editor for music scores with playback of midi files through a synthesizer and export to audio"


def main() -> None:
    sound = next(net for net in fs.datasets.debian() if net.name == "sound")
    model = fs.SPML().fit(sound)

    assert sound.vocabulary is not None
    words = DESCRIPTION.split()
    counts = np.array([[words.count(word) for word in sound.vocabulary.tolist()]])
    nodes, scores = fs.LinkIndex(model.metric_, sound).query(counts, k=5)

    print(f"New package: {DESCRIPTION}\n")
    print("candidate              score  because of (new package ~ candidate)")
    for node, score in zip(nodes[0], scores[0], strict=True):
        pairs = model.metric_.explain_pairs(counts, sound.features[[node]], k=3)
        reasons = ", ".join(f"{pair.feature_x} ~ {pair.feature_y}" for pair in pairs)
        print(f"{sound.nodes[node]:<22} {score:>5.2f}  {reasons}")


if __name__ == "__main__":
    main()
