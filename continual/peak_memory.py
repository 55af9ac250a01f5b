"""The most memory that was held since a moment, on the device that computes.

On CUDA it is what torch's allocator held in tensors (weights, data and activations; not the context, not what the
allocator keeps in reserve). On a CPU it is the resident size of the whole process, interpreter and data among it, as
Linux keeps it (`VmHWM`, begun anew through `/proc/self/clear_refs`); so compare it only between runs of one machine,
each in a process of its own. Elsewhere there is no number, only the reason. Reading and resetting touch no tensor and
no random stream; on CUDA they do reset the process's own peak statistics.
"""

from pathlib import Path
from typing import Protocol

import torch

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class PeakMemory(Protocol):
    """The role: how much memory was held at most."""

    @property
    def undefined(self) -> str | None:
        """Why there is no number, or None where there is one."""
        ...

    def reset(self) -> None:
        """Begin anew from what is held now."""
        ...

    def read(self) -> int | None:
        """Give the most bytes held since the last reset."""
        ...


class AllocatedOnCuda:
    """Bytes in tensors on a CUDA device.

    Args:
        device: which one.
    """

    undefined = None

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> None:
        """Begin anew from what is held now."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def read(self) -> int:
        """Give the most bytes held since the last reset."""
        return torch.cuda.max_memory_allocated(self._device)


class ResidentOnLinux:
    """Bytes of the process that lay in main memory."""

    undefined = None

    def reset(self) -> None:
        """Begin anew from what is held now."""
        RESET.write_text("5")

    def read(self) -> int:
        """Give the most bytes held since the last reset."""
        return resident_peak(STATUS.read_text())


class Unmeasured:
    """No number.

    Args:
        reason: why.
    """

    def __init__(self, reason: str) -> None:
        self.undefined: str | None = reason

    def reset(self) -> None:
        """Do nothing."""

    def read(self) -> None:
        """Give nothing."""


def peak_memory_of(device: torch.device) -> PeakMemory:
    """Give what measures a device's peak memory here."""
    if device.type == "cuda":
        return AllocatedOnCuda(device)
    if device.type != "cpu":
        return Unmeasured(f"torch keeps no peak of the memory of a {device.type} device")
    try:
        meter = ResidentOnLinux()
        meter.reset()
        meter.read()
    except (OSError, ValueError) as problem:
        return Unmeasured(f"the system does not tell a process's peak memory ({type(problem).__name__})")
    return meter


def resident_peak(status: str) -> int:
    """Read the peak of the resident size out of the text of `/proc/self/status`, in bytes.

    Raises:
        ValueError: if it is not there.
    """
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise ValueError("The status of the process must have a line VmHWM, but it has none.")
