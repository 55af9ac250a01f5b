"""How tokens look at each other: attention, positions, norms, blocks.

The package is empty in this release; the import contract already guards its place in the house.
"""
