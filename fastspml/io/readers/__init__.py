"""Readers: one file a source format, each a function from files to a list of Network."""
