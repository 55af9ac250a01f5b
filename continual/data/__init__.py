"""Datasets as plain arrays with a checksum; see `arrays` for the types."""

from continual.data.arrays import Dataset, Split, Test, Train, Validation, carve_validation, from_arrays
from continual.data.digits import digits
from continual.data.idx import fashion_mnist, mnist, read_idx
from continual.data.inventory import Entry, inventory
from continual.data.mnist5k import mnist5k, mnist5k_heldout
from continual.data.stratify import stratified_split

__all__ = [
    "Dataset",
    "Entry",
    "Split",
    "Test",
    "Train",
    "Validation",
    "carve_validation",
    "digits",
    "fashion_mnist",
    "from_arrays",
    "inventory",
    "mnist",
    "mnist5k",
    "mnist5k_heldout",
    "read_idx",
    "stratified_split",
]
