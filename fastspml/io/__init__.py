"""Files in and out: HDF5 networks, and one reader per foreign format. Only this package imports h5py."""

from fastspml.io.network_files import file_checksum, file_kind, read_networks, write_h5ad, write_networks

__all__ = ["file_checksum", "file_kind", "read_networks", "write_h5ad", "write_networks"]
