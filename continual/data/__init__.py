"""Datasets as plain arrays with a checksum; see `arrays` for the types."""

from continual.data.arrays import Dataset, Split, Test, Train, Validation, carve_validation, from_arrays
from continual.data.cifar import cifar10, cifar100
from continual.data.digits import digits
from continual.data.hub import hub
from continual.data.idx import fashion_mnist, mnist, read_idx
from continual.data.image_folders import mini_imagenet, notmnist
from continual.data.inventory import Entry, inventory
from continual.data.japanese_vowels import japanese_vowels
from continual.data.mnist5k import mnist5k, mnist5k_heldout
from continual.data.photo_patches import photo_patches
from continual.data.saccades import mnist5k_saccades_simulated, saccade_events
from continual.data.stratify import stratified_split
from continual.data.svhn import svhn
from continual.data.textures import textures

__all__ = [
    "Dataset",
    "Entry",
    "Split",
    "Test",
    "Train",
    "Validation",
    "carve_validation",
    "cifar10",
    "cifar100",
    "digits",
    "fashion_mnist",
    "from_arrays",
    "hub",
    "inventory",
    "japanese_vowels",
    "mini_imagenet",
    "mnist",
    "mnist5k",
    "mnist5k_heldout",
    "mnist5k_saccades_simulated",
    "notmnist",
    "photo_patches",
    "read_idx",
    "saccade_events",
    "stratified_split",
    "svhn",
    "textures",
]
