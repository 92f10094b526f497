"""Mutation testing of everything outside the kernels: `python -m bench.mutation`."""
