"""What every printed name means, in words a reader of the report needs no paper for.

Symbols: R[i, j] = accuracy on task j after training on task i, T tasks, b_j = accuracy of the untrained network on task
j, n_j = test samples of task j. The same formulas, with their sources, are in :mod:`continual.metrics`.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """One entry of the glossary.

    Attributes:
        title: As printed in tables.
        meaning: One or two sentences.
        formula: In plain characters, or empty.
    """

    title: str
    meaning: str
    formula: str = ""


GLOSSARY: dict[str, Entry] = {
    "acc_final": Entry(
        "final accuracy",
        "Mean over tasks of the accuracy at the end of the whole sequence; every task counts the same.",
        "(1/T) Σ_j R[T, j]",
    ),
    "acc_final_weighted": Entry(
        "final accuracy, weighted",
        "The same, every test sample counting the same. Some libraries print this one as final accuracy.",
        "Σ_j n_j R[T, j] / Σ_j n_j",
    ),
    "acc_learning": Entry(
        "learning accuracy",
        "Mean accuracy on each task right after learning it. Read backward transfer beside it: a network that learns "
        "nothing forgets nothing.",
        "(1/T) Σ_j R[j, j]",
    ),
    "acc_inc_avg_taskmean": Entry(
        "incremental accuracy, task mean",
        "Mean over the sequence of the mean accuracy on the tasks seen so far.",
        "(1/T) Σ_i (1/i) Σ_{j≤i} R[i, j]",
    ),
    "acc_inc_avg_weighted": Entry(
        "incremental accuracy, weighted",
        "The same, with every test sample of the tasks seen counting the same.",
        "(1/T) Σ_i (Σ_{j≤i} n_j R[i, j] / Σ_{j≤i} n_j)",
    ),
    "acc_a": Entry(
        "triangular accuracy",
        "Mean of all accuracies measured on tasks already learnt; early tasks are in it more often.",
        "2/(T(T+1)) Σ_{i≥j} R[i, j]",
    ),
    "bwt": Entry(
        "backward transfer",
        "What learning later tasks did to earlier ones, in percentage points. Negative is forgetting.",
        "(1/(T−1)) Σ_{j<T} (R[T, j] − R[j, j])",
    ),
    "fwt": Entry(
        "forward transfer",
        "What earlier tasks gave to a task not yet trained, over the untrained network. Undefined where the output "
        "rows of a task are untrained before it.",
        "(1/(T−1)) Σ_{j≥2} (R[j−1, j] − b_j)",
    ),
    "forgetting": Entry(
        "forgetting",
        "The best accuracy a task had before the last one, less its accuracy at the end, averaged over old tasks. "
        "Positive is forgetting.",
        "(1/(T−1)) Σ_{j<T} (max_{j≤l≤T−1} R[l, j] − R[T, j])",
    ),
    "wc_acc": Entry(
        "worst-case accuracy",
        "The newest task's accuracy with the lowest that each older task had after its own: at the ends of tasks, and "
        "within tasks where the run was evaluated there (evaluate_every).",
        "R[T, T]/T + (1 − 1/T) mean_{j<T} min_acc_j",
    ),
    "min_acc": Entry(
        "lowest accuracy",
        "The lowest accuracy that each older task had after its own, over all evaluations of the run.",
        "min_acc_j = min over evaluations after task j",
    ),
    "stability_gap": Entry(
        "stability gap",
        "How far accuracy on old tasks falls within a later task below what it was before, in points. It depends on "
        "how often one evaluates.",
    ),
    "intransigence": Entry(
        "intransigence",
        "What the sequence cost each task when it was learnt, against a network trained from the initial weights on "
        "all tasks up to it. Positive is harder to learn; needs a reference run.",
        "(1/T) Σ_k (a*_k − R[k, k])",
    ),
    "plasticity": Entry(
        "plasticity",
        "What the earlier tasks gave each task when it was learnt, against a network trained on it alone. Negative is "
        "lost plasticity; needs a reference run.",
        "(1/T) Σ_k (R[k, k] − s_k)",
    ),
    "synaptic_operations": Entry(
        "synaptic operations",
        "Additions caused by spikes, for one test sample, mean over the test samples: a spike costs one for every "
        "connection it leaves through.",
        "Σ_layers spikes in × fan-out",
    ),
    "macs": Entry(
        "multiply-accumulates",
        "Multiplications with addition for one test sample, where the input of a weight is not spikes.",
    ),
    "learning_operations": Entry(
        "learning operations",
        "Multiply-accumulates spent by the strategy itself over the whole run (lateral learning and projection), on "
        "top of training.",
    ),
    "stored_bytes": Entry(
        "stored bytes", "What the strategy keeps besides the network: memory, importance, subspaces."
    ),
    "energy_joules_estimate": Entry(
        "energy, estimate",
        "Not measured: computed from the counts of operations with the constants printed beside it (45 nm); without "
        "memory traffic.",
        "4.6 pJ × MAC + 0.9 pJ × synaptic operation",
    ),
    "peak_bytes_train": Entry("peak memory, training", "Most memory in use while training, of the whole process."),
    "peak_bytes_consolidate": Entry("peak memory, consolidation", "The same during the strategy's work at task ends."),
    "peak_bytes_evaluate": Entry("peak memory, evaluation", "The same while measuring the accuracy matrices."),
    "samples_seen": Entry("samples seen", "Samples learned from, each as often as it was; replayed ones among them."),
    "optimizer_steps": Entry("optimizer steps", "Updates of the weights, all tasks."),
    "forward_passes": Entry(
        "forward passes", "Passes of one sample through the network, to learn from it or to score it."
    ),
    "backward_passes": Entry("backward passes", "Passes of one sample back through the network, to learn from it."),
    "seconds": Entry("seconds", "Wall time of the run on the machine it ran on; compare only within one machine."),
    "seconds_train": Entry("training seconds", "Wall time of the training loops, all tasks."),
    "seconds_consolidate": Entry("consolidation seconds", "Wall time of the strategy's work at the ends of tasks."),
    "seconds_evaluate": Entry("evaluation seconds", "Wall time of measuring the accuracy matrices."),
    "rate": Entry("firing rate", "Spikes per neuron and time step, mean over test samples."),
    "rank": Entry(
        "rank and width",
        "Directions of a layer's input that are protected, of as many as there are. At full rank the weight can no "
        "longer learn.",
    ),
    "captured_energy": Entry(
        "captured energy",
        "Share of the squared length of the layer's inputs that lies in the protected directions.",
    ),
    "interval": Entry(
        "± after a mean",
        "Half width of the 95 % t-interval over the runs, that is over seeds and orders of tasks. It says how well the "
        "mean is known, for these tasks, not how well the method does elsewhere.",
    ),
    "paired_difference": Entry(
        "paired difference",
        "Mean over the seeds both strategies ran of their difference seed by seed; an interval that holds zero does "
        "not tell them apart.",
    ),
    "task_aware": Entry(
        "… task aware, … task agnostic",
        "Task aware: the network is told the task of a test sample and answers among its classes. Task agnostic: it "
        "answers among all rows of the head. Names without either are from the way the scenario is judged: task aware "
        "in mode task, task agnostic in modes domain and class.",
    ),
}


def title_of(name: str) -> str:
    """Return how a metric is called in tables.

    Args:
        name: As in ``metrics.json``, with or without a suffix.

    Returns:
        Its title, or the name itself where the glossary has none.
    """
    for suffix, words in (("_task_aware", ", task aware"), ("_task_agnostic", ", task agnostic")):
        if name.endswith(suffix):
            return title_of(name.removesuffix(suffix)) + words
    return GLOSSARY[name].title if name in GLOSSARY else name
