"""How tokens look at each other: attention, positions, norms, blocks, models, and papers as presets of them."""
