"""Training: Algorithm 1 (SPML) and Algorithm 2 (MT-SPML) of the paper, their state, shards and model files."""
