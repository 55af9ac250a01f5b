"""Models that need both engines or neither."""

from continual.models.relu_mlp import relu_mlp

__all__ = ["relu_mlp"]
