"""The file of a certification: JSON lines, the first says what decides them, each further one is one image's.

Lines are appended and flushed to the disk as images are finished, in order, so an interrupted certification loses the
images it was working on and nothing else; a torn last line is cut off. Going on is refused where a line would not
mean the same: another budget, another network, other noise (device, number format, version of torch), another image
under an index.
"""

import json
import os
from pathlib import Path
from typing import Any

from continual.reports.atomic_file import write_atomically
from continual.robustness.smoothing.budget import Budget
from continual.robustness.smoothing.certificates import Certificates, Row
from continual.robustness.smoothing.goals import AboveRadii, AllDraws, WithinTolerance
from continual.robustness.smoothing.rules import FixedSample, Looks, MixtureSequence

FORMAT = 1
_RULES = {rule.__name__: rule for rule in (FixedSample, Looks, MixtureSequence)}
_GOALS = {goal.__name__: goal for goal in (AllDraws, AboveRadii, WithinTolerance)}


class CertificateFile:
    """The writer.

    Args:
        path: of the file; made with its folder when missing.
        head: what decides the lines, plain data; `versions` may differ from what the file holds.

    Attributes:
        rows: certificates that the file holds, by index.

    Raises:
        ValueError: if the file is none of ours, or was made under another head.
    """

    def __init__(self, path: str | Path, head: dict[str, Any]) -> None:
        self.path = Path(path)
        self.rows: dict[int, Row] = {}
        if self.path.exists() and self.path.stat().st_size:
            self._go_on(head)
        else:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._append([{"certificates": FORMAT, **head}])

    def write(self, rows: list[Row]) -> None:
        """Append certificates."""
        self._append([row._asdict() for row in rows])
        self.rows |= {row.sample: row for row in rows}

    def _go_on(self, head: dict[str, Any]) -> None:
        whole = self.path.read_bytes()
        kept = whole[: whole.rfind(b"\n") + 1]
        if not kept and _line({"certificates": FORMAT, **head}).startswith(whole):  # interrupted at the first line
            os.truncate(self.path, 0)
            return self._append([{"certificates": FORMAT, **head}])
        found, self.rows = _read(kept, self.path)
        _require_same(found, head, self.path)
        if len(kept) < len(whole):
            os.truncate(self.path, len(kept))
        return None

    def _append(self, lines: list[dict[str, Any]]) -> None:
        with self.path.open("ab") as file:
            file.write(b"".join(map(_line, lines)))
            file.flush()
            os.fsync(file.fileno())


def head_of(budget: Budget, network: str | None, noise: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Give the first line of a file."""
    return {"budget": budget.describe(), "network": network, "noise": noise, "versions": versions}


def load_certificates(path: str | Path) -> Certificates:
    """Read a file of certificates, whole or interrupted.

    Raises:
        ValueError: if it is none of ours.
    """
    path = Path(path)
    content = path.read_bytes()
    head, rows = _read(content[: content.rfind(b"\n") + 1], path)
    budget, certified = budget_from(head["budget"]), tuple(rows.values())
    return Certificates(budget, head["network"], head["noise"], certified, head["versions"])


def save_certificates(certificates: Certificates, path: str | Path) -> Path:
    """Write the file that `certify` would have made of these certificates.

    Args:
        certificates: of any images.
        path: of the file, replaced if it is there.
    """
    head = head_of(certificates.budget, certificates.network, certificates.noise, certificates.versions)
    lines = [{"certificates": FORMAT, **head}, *(row._asdict() for row in certificates.rows)]
    return write_atomically(Path(path), b"".join(map(_line, lines)))


def _line(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, allow_nan=False) + "\n").encode()


def budget_from(described: dict[str, Any]) -> Budget:
    """Build a budget from what its `describe` gave."""
    rule_type, goal_type = _RULES[described["rule"]], _GOALS[described["goal"]]
    rule = rule_type(**{name: described[name] for name in rule_type.__dataclass_fields__})
    goal = goal_type(**{name: described[name] for name in goal_type.__dataclass_fields__})
    return Budget(described["sigma"], rule, goal, described["n0"], described["seed"])


def _read(content: bytes, path: Path) -> tuple[dict[str, Any], dict[int, Row]]:
    try:
        head, *lines = [json.loads(line) for line in content.splitlines()]
        if head["certificates"] != FORMAT:
            raise ValueError(f"format {head['certificates']} where {FORMAT} is read")
        rows = [Row(**line) for line in lines]
    except (ValueError, KeyError, TypeError) as problem:
        raise ValueError(f"{path} is no file of certificates, or a damaged one ({problem}); give another.") from problem
    return head, {row.sample: row for row in rows}


def _require_same(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    """Refuse to mix lines that were made in different ways."""
    if found["network"] != wanted["network"]:
        raise ValueError(
            f"{path} holds certificates of another network (its weights and settings hash to {found['network']}, "
            f"those of this network to {wanted['network']}); give a new file."
        )
    for part in ("budget", "noise"):
        names = sorted(found[part].keys() | wanted[part].keys())
        other = [name for name in names if found[part].get(name) != wanted[part].get(name)]
        if other:
            differences = ", ".join(f"{n} {found[part].get(n)} there, {wanted[part].get(n)} now" for n in other)
            raise ValueError(f"{path} was made with another {part} ({differences}); give a new file.")


def require_same_image(row: Row, checksum: str, path: Path) -> None:
    """Refuse a certificate that stands under the index of another image.

    Raises:
        ValueError: naming the index.
    """
    if row.checksum != checksum:
        raise ValueError(
            f"{path} holds under index {row.sample} the certificate of another image or label; give a new file, or "
            f"indices= that name each image by its place in the whole set."
        )
