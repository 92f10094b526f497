"""Every compiled function of fastspml, one file per role.

Arguments are flat arrays, numbers and named tuples of them; there is no I/O. `algorithms` has the loop of training,
`draws` its triplets, `diagonal`, `full` and `factored` the arithmetic of each form of metric, `search` and `scoring`
rank nodes, and `auc` measures rankings.
"""
