"""Canonical CSR arrays, in memory and memory-mapped."""
