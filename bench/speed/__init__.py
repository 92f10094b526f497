"""How fast, side by side: python -m bench.speed [--quick] [-o folder].

`networks` has the shapes that are measured, `timing` says how, `limit` has the same loop in C, and what the memory can
do. Times are medians of interleaved repeats; only ratios within one run can be compared.
"""
