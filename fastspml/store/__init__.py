"""HDF5 for networks and models: complete files or none, nothing trusted that is read. Only this package knows h5py."""

from fastspml.store.models import load_checkpoint, load_model, save_checkpoint, save_model
from fastspml.store.networks import file_checksum, file_kind, read_networks, write_h5ad, write_networks

__all__ = [
    "file_checksum",
    "file_kind",
    "load_checkpoint",
    "load_model",
    "read_networks",
    "save_checkpoint",
    "save_model",
    "write_h5ad",
    "write_networks",
]
