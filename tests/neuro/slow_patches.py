"""Patches of a convolution cut value by value, without `unfold`: what fast presynaptic rows are held against.

Position p of an axis of size n lies in the image, or in the margin that the padding mode fills.
"""

from itertools import product

import torch


def margins(layer, axis):
    """Positions before and after an axis that a layer pads."""
    if layer.padding == "same":
        total = layer.dilation[axis] * (layer.kernel_size[axis] - 1)
        return total // 2, total - total // 2
    return (0, 0) if layer.padding == "valid" else (layer.padding[axis],) * 2


def source(position, size, mode):
    """Which position of the image stands at `position`; None for a zero."""
    if 0 <= position < size:
        return position
    if mode == "zeros":
        return None
    if mode == "circular":
        return position % size
    if mode == "replicate":
        return 0 if position < 0 else size - 1
    return -position if position < 0 else 2 * (size - 1) - position  # reflect: the border itself is not repeated


def windows(layer, shape):
    """Per axis, every window as the list of positions it looks at."""
    found = []
    for axis, size in enumerate(shape):
        before, after = margins(layer, axis)
        own, start = [], -before
        while start + layer.dilation[axis] * (layer.kernel_size[axis] - 1) < size + after:
            offsets = range(layer.kernel_size[axis])
            own.append([source(start + layer.dilation[axis] * k, size, layer.padding_mode) for k in offsets])
            start += layer.stride[axis]
        found.append(own)
    return found


def slow_rows(layer, inputs, group=0):
    """Every patch that a group of a convolution sees, images in order, then positions as the output counts them."""
    channels = inputs.shape[1] // layer.groups
    values = inputs[:, group * channels : (group + 1) * channels].tolist()
    rows = []
    for image in values:
        for window in product(*windows(layer, inputs.shape[2:])):
            places = list(product(*window))
            rows.append([0.0 if None in place else at(channel, place) for channel in image for place in places])
    return torch.tensor(rows, dtype=inputs.dtype)


def at(values, place):
    """Read a nested list."""
    for index in place:
        values = values[index]
    return values


def flat_errors(errors, group=0, groups=1):
    """δ of a group, one row per patch, in the order of `slow_rows`."""
    return errors.chunk(groups, 1)[group].flatten(2).transpose(1, 2).flatten(0, 1)
