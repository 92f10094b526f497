"""Does it help to learn from several networks together?

Seven sections of Debian are seven tasks. SPML learns each section alone, pooled SPML one metric from all, and MT-SPML a
common metric plus one per section. A fifth of the packages is hidden; the table shows how well their links are ranked.
"""

from __future__ import annotations

import numpy as np

import fastspml as fs


def main() -> None:
    splits = fs.split_networks([net.undirected() for net in fs.datasets.debian()], test_size=0.2, seed=0)
    train = [split.train for split in splits]
    model = fs.SPML()

    alone = [model.fit(net).metric_ for net in train]
    pooled = model.fit(train).metric_
    together = fs.MTSPML().fit(train)

    print("mean AUC   alone  pooled  together")
    rows = []
    for q, split in enumerate(splits):
        metrics = alone[q], pooled, together.metric_for(q)
        rows.append([np.nanmean(fs.link_auc(metric, split.network, split.test_nodes)) for metric in metrics])
        print(f"{split.network.name:<9} {rows[-1][0]:>6.3f}  {rows[-1][1]:>6.3f}  {rows[-1][2]:>8.3f}")
    print("{:<9} {:>6.3f}  {:>6.3f}  {:>8.3f}".format("mean", *np.mean(rows, axis=0)))
    print("\nWords with the largest common weight:", ", ".join(together.common_metric_.top_features(8).feature))


if __name__ == "__main__":
    main()
