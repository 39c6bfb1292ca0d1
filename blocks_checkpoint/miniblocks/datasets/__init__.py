"""Data sets in memory and in HDF5 files."""

from .base import Dataset
from .hdf5 import H5PYDataset
from .memory import IndexableDataset, IterableDataset

__all__ = ["Dataset", "H5PYDataset", "IndexableDataset", "IterableDataset"]
