"""Measurements: one command repeats each figure of the README."""
