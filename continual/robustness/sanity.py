"""Can the number be believed? A battery of checks for masked gradients, with a verdict that a program can read.

An attack that fails says nothing about a network if the attack is broken on it. The signs are known (Athalye, Carlini
and Wagner 2018; Carlini et al. 2019): gradients that are exactly zero, a gradient-free attack or mere noise that finds
what gradients miss, steps or radius that do not help, a whole box that does not reach chance, answers that change with
the batch or from call to call. A check that fails makes the verdict "unreliable": the robust accuracy is then an upper
bound of unknown quality, not a result.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from continual.robustness.adversarial import Adversarial
from continual.robustness.attacks.attack import Attack
from continual.robustness.attacks.fgsm import FGSM
from continual.robustness.attacks.noise import RandomNoise
from continual.robustness.attacks.pgd import PGD
from continual.robustness.attacks.square import Square
from continual.robustness.attacks.transfer import Transfer
from continual.robustness.norms import LInfinity
from continual.robustness.streams import SampleStreams
from continual.robustness.target import Model, Target, as_target
from continual.robustness.threat import ThreatModel

LARGEST_SHARE_OF_BAD_GRADIENTS = 0.05
LARGEST_SURPRISE, LARGEST_GAIN = 0.002, 0.005
"""Accuracy by which a weaker attack may win, and by which twice the steps may help, before a check fails."""


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: what was asked.
        passed: None where it does not apply or could not be asked.
        evidence: the numbers it rests on.
        meaning: what it means, and what to do if it failed.
    """

    name: str
    passed: bool | None
    evidence: dict[str, float]
    meaning: str


@dataclass(frozen=True)
class Verdict:
    """All checks together.

    Attributes:
        checks: in the order asked.
    """

    checks: tuple[Check, ...]

    @property
    def status(self) -> str:
        """`reliable`, or `unreliable` if any check failed."""
        return "unreliable" if self.failed else "reliable"

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(check for check in self.checks if check.passed is False)

    def as_dict(self) -> dict[str, Any]:
        """Give the verdict as plain data."""
        return {"status": self.status, "checks": [asdict(check) for check in self.checks]}

    def __str__(self) -> str:
        signs = {True: "passed", False: "FAILED", None: "skipped"}
        lines = [f"verdict: {self.status}"]
        for check in self.checks:
            numbers = ", ".join(f"{name} {value:.4g}" for name, value in check.evidence.items())
            lines.append(f"  {signs[check.passed]:7} {check.name}{f' ({numbers})' if numbers else ''}")
            if check.passed is False:
                lines.append(f"          {check.meaning}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Battery:
    """The checks, and what they attack with.

    Args:
        steps: of the white-box attack; it is also run with twice as many.
        queries: of the gradient-free attack.
        noise_draws: of random noise.
        source: a network to transfer from; None leaves that check out.
    """

    steps: int = 20
    queries: int = 1000
    noise_draws: int = 100
    source: Model | Target | None = None

    def __call__(
        self, model: Model | Target, images: Tensor, labels: Tensor, threat: ThreatModel, generator: torch.Generator
    ) -> Verdict:
        """Ask everything.

        Args:
            model: any callable from images to logits, or a `Target`.
            images: raw pixels, [B, ...]; a few hundred are enough.
            labels: [B].
            threat: radius and norm that the accuracy is to be reported for.
            generator: on the CPU.

        Returns:
            The verdict.

        Raises:
            TypeError: for images or labels of the wrong type.
            ValueError: for values outside their range or logits that are not finite.
        """
        streams = SampleStreams.drawn(generator, len(images), images.device)
        return Verdict(tuple(_Questions(self, as_target(model), images, labels, threat, streams)))


@dataclass(frozen=True)
class _Questions:
    """One run of the battery: what was found so far, and the questions in order."""

    battery: Battery
    target: Target
    images: Tensor
    labels: Tensor
    threat: ThreatModel
    streams: SampleStreams

    def __iter__(self) -> Iterator[Check]:
        steady = self._same_again()
        yield steady
        later: dict[str, Callable[[str], Check]] = {
            "same answers alone": self._same_alone,
            "gradients": self._gradients,
            "iterations beat one step": self._iterations,
            "steps suffice": self._steps,
            "larger radius helps": self._radius,
            "whole box reaches chance": self._whole_box,
            "black box is not stronger": self._black_box,
            "noise is not as strong": self._noise,
            "transfer is not stronger": self._transfer,
        }
        for name, question in later.items():
            if steady.passed is False:
                yield Check(name, None, {}, "Not asked, since answers change from call to call.")
            else:
                yield question(name)

    @property
    def tolerance(self) -> float:
        """One sample in a small set is no evidence."""
        return max(LARGEST_SURPRISE, 1 / len(self.images) + 1e-9)

    def attacked(self, attack: Attack, threat: ThreatModel | None = None) -> Adversarial:
        """Attack all samples with the streams that every question shares."""
        return attack(self.target, self.images, self.labels, threat or self.threat, self.streams)

    @cached_property
    def white_box(self) -> Adversarial:
        """The attack that the other questions are measured against."""
        return self.attacked(PGD(self.battery.steps, restarts=1))

    def _same_again(self) -> Check:
        meaning = (
            "The same images get other answers at the next call. Declare fresh randomness with "
            "Target(stochastic=True), or name what resets a state with Target(reset=…)."
        )
        if self.target.stochastic:
            return Check("same answers again", None, {}, "Declared stochastic.")
        first, second = self._answers(self.images, self.images)
        drift = float((first - second).abs().max())
        return Check("same answers again", drift <= 1e-6 * _scale(first), {"largest_drift": drift}, meaning)

    def _same_alone(self, name: str) -> Check:
        meaning = (
            "An image gets another answer alone than in a batch; batch statistics or a shared state leak between "
            "samples, and accuracy depends on how images are grouped. Use running statistics."
        )
        if self.target.stochastic:
            return Check(name, None, {}, "Declared stochastic.")
        few = self.images[:16]
        together, *singles = self._answers(few, *few.split(1))
        alone = torch.cat(singles)
        drift = float((together - alone).abs().max())
        passed = drift <= 1e-3 * _scale(together)
        return Check(name, passed, {"largest_drift": drift}, meaning)

    def _gradients(self, name: str) -> Check:
        zero, broken = self.white_box.cost.zero_gradients, self.white_box.cost.broken_gradients
        meaning = (
            "Many input gradients are exactly zero or not finite, so gradient attacks search blindly. Try the margin "
            "as loss, float64, another surrogate (over_surrogates), or a stand-in with Target(backward=…)."
        )
        passed = zero + broken <= LARGEST_SHARE_OF_BAD_GRADIENTS if zero == zero else None  # NaN: nothing to attack
        return Check(name, passed, {"zero": zero, "broken": broken}, meaning)

    def _iterations(self, name: str) -> Check:
        one, many = self.attacked(FGSM()).accuracy, self.white_box.accuracy
        meaning = "One step finds more than many; the loss surface is rough. Take smaller steps or average gradients."
        passed = many <= one + self.tolerance
        return Check(name, passed, {"one_step": one, "many_steps": many}, meaning)

    def _steps(self, name: str) -> Check:
        once, twice = self.white_box.accuracy, self.attacked(PGD(2 * self.battery.steps, restarts=1)).accuracy
        meaning = "Twice the steps still find more; the attack has not converged. Report with more steps."
        passed = once - twice <= max(LARGEST_GAIN, self.tolerance)
        return Check(name, passed, {"steps": once, "twice_the_steps": twice}, meaning)

    def _radius(self, name: str) -> Check:
        radii = [self.threat.epsilon * factor for factor in (1, 2, 4)]
        found = [self.white_box.accuracy, *(self.attacked_within(radius).accuracy for radius in radii[1:])]
        rises = max(later - earlier for earlier, later in pairwise(found))
        evidence = {f"accuracy_at_{radius:.4g}": accuracy for radius, accuracy in zip(radii, found, strict=True)}
        meaning = "A larger radius leaves more samples right; the attack gets lost. Its steps are too large or masked."
        return Check(name, rises <= self.tolerance, evidence, meaning)

    def attacked_within(self, radius: float) -> Adversarial:
        """Run the white-box attack in another ball."""
        return self.attacked(PGD(self.battery.steps, restarts=1), self.threat.with_epsilon(radius))

    def _whole_box(self, name: str) -> Check:
        (logits,) = self._answers(self.images)
        if len(logits.argmax(1).unique()) == 1:
            return Check(name, None, {}, "The network names one class for every image; there is nothing to cross.")
        free = ThreatModel(LInfinity(), self.threat.width, self.threat.lower, self.threat.upper)
        accuracy, chance = self.attacked(PGD(2 * self.battery.steps, restarts=2), free).accuracy, 1 / logits.shape[1]
        limit = chance + 3 * (chance * (1 - chance) / len(self.labels)) ** 0.5
        meaning = (
            "Every image of the box is allowed, the other samples too, and yet more stay right than by guessing. No "
            "network that tells images apart is that robust: the attack does not work on this one."
        )
        return Check(name, accuracy <= limit, {"accuracy": accuracy, "limit": limit}, meaning)

    def _black_box(self, name: str) -> Check:
        square = self.attacked(Square(queries=self.battery.queries))
        meaning = "An attack without gradients finds more than one with them: the gradients mislead."
        return self._weaker(name, square, meaning)

    def _noise(self, name: str) -> Check:
        one, many = (self.attacked(RandomNoise(draws)) for draws in (1, self.battery.noise_draws))
        meaning = "Noise finds what the attack missed, or one draw of it does as much harm: the attack does not search."
        check = self._weaker(name, many, meaning)
        harm = one.clean_accuracy - one.accuracy
        as_strong = harm > self.tolerance and one.accuracy <= self.white_box.accuracy
        return Check(name, bool(check.passed) and not as_strong, check.evidence | {"one_draw": one.accuracy}, meaning)

    def _transfer(self, name: str) -> Check:
        if self.battery.source is None:
            return Check(name, None, {}, "No source network was given.")
        attack = Transfer(self.battery.source, PGD(self.battery.steps, restarts=1))
        meaning = "Images made on another network fool this one more often than its own: its gradients mislead."
        return self._weaker(name, self.attacked(attack), meaning)

    def _weaker(self, name: str, other: Adversarial, meaning: str) -> Check:
        """A weaker attack may not find what the white-box attack missed, but for a sample by luck."""
        missed = float((other.success & ~self.white_box.success).double().mean())
        evidence = {"accuracy": other.accuracy, "white_box": self.white_box.accuracy, "missed_by_white_box": missed}
        return Check(name, other.accuracy >= self.white_box.accuracy - self.tolerance, evidence, meaning)

    def _answers(self, *batches: Tensor) -> list[Tensor]:
        with self.target.left_as_found(0), torch.no_grad():
            return [self.target.ask(images) for images in batches]


def _scale(logits: Tensor) -> float:
    return max(1.0, float(logits.abs().max()))
