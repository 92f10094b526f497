"""How fast, side by side: python -m bench.speed [--quick] [--only part] [-o folder].

`cases` lists what is measured, on the networks of `networks`; `timing` has the clock. `limit` runs the same loop in C
and measures the memory, `kernels` compares the cases with it. `peers` does the same work with other libraries,
`objective` compares the time to reach an objective, `growth` and `threads` vary sizes and threads. `bars`, `page` and
`figures` present the results. Only ratios within one run can be compared.
"""
