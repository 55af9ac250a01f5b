"""What an attack found, with its books, and the file that keeps it for transfer and for scoring again."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from continual.reports.atomic_file import write_atomically
from continual.robustness.threat import ThreatModel, threat_named


@dataclass(frozen=True)
class Cost:
    """What an attack spent.

    Attributes:
        forward_passes: images that went through the network, checks and decisions included.
        backward_passes: images whose gradient was asked for.
        zero_gradients: share of gradients that were 0 in every pixel, NaN where none was asked for.
        broken_gradients: share of gradients with NaN or infinity, NaN likewise.
    """

    forward_passes: int
    backward_passes: int
    zero_gradients: float
    broken_gradients: float


@dataclass(frozen=True)
class Adversarial:
    """Adversarial images and how the network answers them.

    A sample that the network gets wrong unattacked is kept as it was and counts as a success of the attacker.

    Attributes:
        images: [B, ...], inside the threat.
        origin: what they were made from, [B, ...].
        labels: [B].
        predictions: on `images`, asked afresh after the attack, [B].
        clean_predictions: on `origin`, [B].
        threat: what was allowed.
        attack: its description.
        cost: what it spent.
    """

    images: Tensor
    origin: Tensor
    labels: Tensor
    predictions: Tensor
    clean_predictions: Tensor
    threat: ThreatModel
    attack: str
    cost: Cost

    @property
    def success(self) -> Tensor:
        """Which samples are wrong now, [B] bool."""
        return self.predictions != self.labels

    @property
    def accuracy(self) -> float:
        """Share of samples that are still right."""
        return float((self.predictions == self.labels).double().mean())

    @property
    def clean_accuracy(self) -> float:
        """Share of samples that were right unattacked."""
        return float((self.clean_predictions == self.labels).double().mean())

    @property
    def lengths(self) -> Tensor:
        """‖x' − x‖ in the threat's norm, [B] float64."""
        return self.threat.length(self.images, self.origin)

    def save(self, path: str | Path) -> Path:
        """Write everything to one safetensors file; images keep their dtype, nothing is quantised.

        Args:
            path: of the file; its folder is made when missing.
        """
        fields = ("images", "origin", "labels", "predictions", "clean_predictions")
        tensors = {name: getattr(self, name).detach().cpu().contiguous() for name in fields}
        about = {"threat": self.threat.describe(), "attack": self.attack, "cost": asdict(self.cost)}
        metadata = {"adversarial": json.dumps(about), "torch": torch.__version__}
        return write_atomically(Path(path), save(tensors, metadata))

    @classmethod
    def load(cls, path: str | Path) -> "Adversarial":
        """Read what `save` wrote; the images are checked against their threat.

        Raises:
            ValueError: if the file is none of ours.
            RuntimeError: if its images are outside the threat.
        """
        with safe_open(str(path), framework="pt") as file:
            metadata: dict[str, Any] = file.metadata() or {}
            if "adversarial" not in metadata:
                raise ValueError(f"{path} holds no adversarial images; Adversarial.save writes such a file.")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict
        about = json.loads(metadata["adversarial"])
        threat = threat_named(**about["threat"])
        threat.require(tensors["images"], tensors["origin"], about["attack"])
        return cls(**tensors, threat=threat, attack=about["attack"], cost=Cost(**about["cost"]))
