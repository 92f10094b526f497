"""Short scripts, each of which answers one question on data that is bundled or made on the spot.

Run one with ``python -m fastspml.examples.NAME``:

- `new_package`: which packages should a new package depend on, and why?
- `several_sections`: does it help to learn from several networks together?
- `own_csv`: how do I get from my own CSV files to predicted links?
- `watch_training`: how do I watch training, and stop it early?
- `larger_than_memory`: how do I train on a network that does not fit into memory?
- `nearest_neighbours`: how do I use a learned metric in a scikit-learn pipeline?
- `serving`: how do I serve predictions to other programs?
- `vector_search`: how do I search learned embeddings with FAISS or hnswlib?
- `two_threads`: how do I train on all cores, and get the same result on any number of them?
"""
