"""What the phases of a run cost: wall seconds and peak memory of training, consolidation and evaluation.

A phase may open inside another (an evaluation inside a task): the outer one then stands still, so that every second and
every peak belongs to exactly one phase. Beside them stands what fair comparison asks for (samples seen, optimiser
steps, passes forward and backward).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from continual.peak_memory import PeakMemory, peak_memory_of

PHASES: tuple[str, ...] = ("train", "consolidate", "evaluate")


@dataclass
class Ledger:
    """What training and scoring passed through the network, in samples.

    What a strategy passes through it besides is counted in its own operations.

    Attributes:
        samples_seen: learned from, each as often as it was; replayed ones among them.
        optimizer_steps: made.
        forward_passes: of samples, to learn from them or to score them.
        backward_passes: of samples.
    """

    samples_seen: int = 0
    optimizer_steps: int = 0
    forward_passes: int = 0
    backward_passes: int = 0

    def learned(self, samples: int, steps: int, passes: int = 1) -> None:
        """Count samples that were learned from, in so many steps, each passed forward and back so often."""
        self.samples_seen += samples
        self.optimizer_steps += steps
        self.forward_passes += passes * samples
        self.backward_passes += passes * samples

    def scored(self, samples: int) -> None:
        """Count samples that were scored."""
        self.forward_passes += samples


class Costs:
    """Seconds and peak bytes per phase, of the run and of its current task, and the ledger.

    Attributes:
        ledger: what went through the network.
        seconds: wall time per phase, without what other phases took inside it.
        peak_bytes: the most memory held in a phase; None where nothing tells.
        undefined: why there is no peak, or None.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.peak_bytes: dict[str, int | None] = dict.fromkeys(PHASES)
        self.undefined: str | None = None
        self._latest_seconds = dict.fromkeys(PHASES, 0.0)
        self._latest_peaks: dict[str, int | None] = dict.fromkeys(PHASES)
        self._current: str | None = None
        self._since = 0.0
        self._meter: PeakMemory | None = None

    @contextmanager
    def phase(self, name: str, device: torch.device) -> Iterator[None]:
        """Charge what happens in the context to a phase, waiting for the device at both ends."""
        if self._meter is None:
            self._meter = peak_memory_of(device)
            self.undefined = self._meter.undefined
        outer = self._current
        self._switch(name, device, self._meter)
        yield
        self._switch(outer, device, self._meter)

    def _switch(self, name: str | None, device: torch.device, meter: PeakMemory) -> None:
        """Charge the time and the peak since the last switch, and begin to charge to another phase."""
        synchronise(device)
        current = self._current
        if current is not None:
            elapsed, peak = time.perf_counter() - self._since, meter.read()
            self.seconds[current] += elapsed
            self._latest_seconds[current] += elapsed
            self.peak_bytes[current] = _larger(self.peak_bytes[current], peak)
            self._latest_peaks[current] = _larger(self._latest_peaks[current], peak)
        meter.reset()
        self._current, self._since = name, time.perf_counter()

    def task_report(self) -> dict[str, Any]:
        """Give seconds and peaks since the last report, for the records."""
        seconds, peaks = self._latest_seconds, self._latest_peaks
        self._latest_seconds, self._latest_peaks = dict.fromkeys(PHASES, 0.0), dict.fromkeys(PHASES)
        return _named("seconds", seconds) | _named("peak_bytes", peaks)

    def summary(self) -> dict[str, Any]:
        """Give everything about the whole run, flat."""
        named = _named("seconds", self.seconds) | {"seconds": sum(self.seconds.values())}
        return asdict(self.ledger) | _named("peak_bytes", self.peak_bytes) | named

    def reasons(self) -> dict[str, str]:
        """Give for each peak that is None the reason."""
        missing = [name for name, peak in _named("peak_bytes", self.peak_bytes).items() if peak is None]
        return dict.fromkeys(missing, self.undefined or "the run had no such phase")

    def as_json(self) -> dict[str, Any]:
        """Give what a resumed run needs."""
        return {"seconds": self.seconds, "peak_bytes": self.peak_bytes, "ledger": asdict(self.ledger)}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "Costs":
        """Take back what `as_json` gave."""
        costs = cls()
        costs.ledger = Ledger(**saved["ledger"])
        costs.seconds, costs.peak_bytes = dict(saved["seconds"]), dict(saved["peak_bytes"])
        return costs


def synchronise(device: torch.device) -> None:
    """Wait for the work queued on an accelerator; a CPU has none."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def _larger(one: int | None, other: int | None) -> int | None:
    known = [value for value in (one, other) if value is not None]
    return max(known, default=None)


def _named(prefix: str, phases: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{phase}": value for phase, value in phases.items()}
