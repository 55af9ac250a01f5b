"""What a run cost: time and memory of each phase and task, what passed through the network, operations, energy.

Operations are counts; energy is an estimate from them and stands with its constants beside it.
"""

from continual.energy import PICOJOULES_PER_MAC, PICOJOULES_PER_SYNAPTIC_OPERATION, estimated_energy

from . import markup
from .formatting import MISSING, count, data_size, duration, energy
from .run_folder import RunFolder

_PHASES = (("train", "training"), ("consolidate", "consolidation"), ("evaluate", "evaluation"))


def cost_section(run: RunFolder) -> str:
    """Lay out everything a run recorded about its cost.

    Args:
        run: The run.

    Returns:
        HTML.
    """
    return _phases(run) + _tasks(run) + _operations(run)


def _phases(run: RunFolder) -> str:
    rows = [
        (title, duration(run.number(f"seconds_{phase}")), data_size(run.number(f"peak_bytes_{phase}")))
        for phase, title in _PHASES
    ]
    total = ("whole run", duration(run.number("seconds")), MISSING)
    on_cpu = (run.start.get("conditions") or {}).get("device") == "cpu"
    whose = "; on a CPU that is the whole process's, data and libraries among it" if on_cpu else ""
    caption = f"Wall time and the most memory in use, on the machine of the run{whose}."
    return markup.table(("phase", "time", "peak memory"), [*rows, total], caption)


def _tasks(run: RunFolder) -> str:
    rows = [
        (
            f"{int(record['task']) + 1}  {run.task_names[int(record['task'])]}",
            *(duration(record.get(f"seconds_{phase}")) for phase, _ in _PHASES),
            data_size(record.get("stored_bytes")),
        )
        for record in run.task_ends
    ]
    head = ("task", *(title for _, title in _PHASES), "stored by the strategy")
    return markup.table(head, rows, "Wall time, and bytes kept between tasks.")


def _operations(run: RunFolder) -> str:
    synaptic, macs = run.number("synaptic_operations"), run.number("macs")
    per_mac = run.number("energy_picojoules_per_mac") or PICOJOULES_PER_MAC
    per_synaptic = run.number("energy_picojoules_per_synaptic_operation") or PICOJOULES_PER_SYNAPTIC_OPERATION
    joules = run.number("energy_joules_estimate")
    if joules is None:
        joules = estimated_energy(synaptic, macs, per_mac, per_synaptic)
    passed = [
        (title, count(number))
        for name, title in (
            ("samples_seen", "samples learned from, replayed ones among them"),
            ("optimizer_steps", "optimizer steps"),
            ("forward_passes", "samples passed forward, learned from or scored"),
            ("backward_passes", "samples passed backward"),
        )
        if (number := run.number(name)) is not None
    ]
    rows = [
        *passed,
        ("synaptic operations per test sample", count(synaptic)),
        ("MACs per test sample", count(macs)),
        ("learning operations of the strategy, whole run", count(run.number("learning_operations"))),
        ("energy per test sample, estimate", energy(joules)),
    ]
    note = (
        f"The energy is an estimate from the counts, {per_mac:g} pJ × MAC + {per_synaptic:g} pJ × synaptic operation "
        "(45 nm, 32-bit arithmetic, Horowitz 2014); it leaves out memory and was not measured."
    )
    return markup.table(("operations", "count"), rows, "Operations are counted.") + markup.note(note)
