"""The paper's experiments, repeated over many random splits: python -m bench.paper wikipedia|circles|debian|recipe|all.

`data` finds the networks, `methods` is the table of what is compared, `protocol` and `circles` hide nodes, fit and
evaluate, `tables` and `figures` show their records.
"""
