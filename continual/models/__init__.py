"""Models that need both engines or neither."""

from continual.models.convolutional import alexnet_style, lenet
from continual.models.defective import defective_cnn
from continual.models.relu_mlp import relu_mlp
from continual.models.vision_transformer import vision_transformer

__all__ = ["alexnet_style", "defective_cnn", "lenet", "relu_mlp", "vision_transformer"]
