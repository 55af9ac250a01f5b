"""Attacks: each a frozen dataclass, called with a network, images, labels, a threat and a generator."""

from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.cw import CarliniWagner
from continual.robustness.attacks.fgsm import FGSM
from continual.robustness.attacks.mi_fgsm import MIFGSM
from continual.robustness.attacks.pgd import PGD

__all__ = ["FGSM", "MIFGSM", "PGD", "Attack", "CarliniWagner"]
