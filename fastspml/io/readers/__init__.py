"""Readers of other programs' files, one file per format.

To add a format: write ``read_<format>`` in ``io/readers/<format>.py``, which returns networks, and register it in
``FORMATS`` of ``cli/import_networks.py`` with its options, which are named like the parameters of the function; "-" in
the name of a format is "_" in Python. `lines`, `bounds`, `counts` and `npy` are helpers.
"""
