"""How fast, side by side: python -m bench.speed [--quick] [--only part] [-o folder].

`cases` is the table of what is measured, over the shapes in `networks`; `timing` says how. `limit` has the same loop in
C and what the memory can do, `kernels` sets the cases beside it. `peers` does the same work with other libraries,
`objective` shows who gets where first, `growth` and `threads` vary sizes and threads. `bars`, `page` and `figures` make
of it what is read. Only ratios within one run can be compared.
"""
