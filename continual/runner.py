"""The loop: tasks → epochs → batches → updates, readable on one screen.

Everything that varies is a part: the rule says how gradients arise, the objective what is minimised, the strategy
what protects old tasks. A run can stop at any moment and go on from the last task boundary with identical numbers,
because every random draw comes from a stream named by seed, purpose, task and epoch.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from continual.batches import TrainingData, as_tensors, gather
from continual.checkpoint import Checkpoint, write_checkpoint, write_tensors
from continual.confusion import store_confusion
from continual.divergence import check_finite, is_seen_to_fail
from continual.evaluation import EvaluationPart, Scores, evaluate, part_of
from continual.objectives import begin_epoch, cost_of, masked_logits
from continual.optimizer_state import remembered, take_over
from continual.progress import Silent
from continual.records import Records
from continual.robust_matrices import Measurement, measure_robustness
from continual.scenarios import Task, TaskSequence
from continual.schedules import watch_validation
from continual.seeding import apart, derive_seed, reseed_modules, seeded, stream
from continual.state import RunState, conditions
from continual.strategies import Strategy
from continual.validation_loss import validation_loss
from continual.within import Watch
from neuro.learning import Rule
from neuro.statistics import measure_activity


@dataclass
class Parts:
    """What a run is made of.

    Attributes:
        model: from raw inputs to logits; its first parameter says where and in which precision the run happens.
        sequence: the tasks.
        strategy: attached already.
        rule: how gradients arise.
        objective: what is minimised.
        make_optimizer: from parameters to a new optimiser, once a task.
        make_schedule: from an optimiser to a learning-rate schedule stepped once an epoch, or None.
        epochs: per task.
        batch_size: samples a batch.
        seed: root of the named random streams.
        part: what is scored: test, or validation for selection.
        evaluate_future: score tasks before they are learned too; forward transfer needs it.
        keep_optimizer_state: let each task's optimiser go on with what the one before remembered.
        evaluate_every: optimiser steps between evaluations inside a task; None evaluates at the ends alone.
        robustness: measurements by name, each a matrix beside the clean one.
        robustness_every_task: measure them on all tasks so far after each, not the new one alone.
        keep_checkpoints: of every task boundary, not of the last one alone.
    """

    model: nn.Module
    sequence: TaskSequence
    strategy: Strategy
    rule: Rule
    objective: Any
    make_optimizer: Callable[[Any], torch.optim.Optimizer]
    make_schedule: Callable[[torch.optim.Optimizer], Any] | None
    epochs: int
    batch_size: int
    seed: int
    part: EvaluationPart = "test"
    evaluate_future: bool = True
    keep_optimizer_state: bool = False
    evaluate_every: int | None = None
    robustness: Mapping[str, Measurement] = field(default_factory=dict)
    robustness_every_task: bool = False
    keep_checkpoints: bool = False


def run_sequence(parts: Parts, state: RunState, folder: Path, records: Records, progress: Silent) -> RunState:
    """Train on the tasks that are still to come, score all tasks after each, and checkpoint.

    Args:
        parts: the run's parts; model and strategy hold the state of the last task boundary.
        state: what was measured so far; extended in place.
        folder: run folder, for weights and checkpoints.
        records: where every number goes.
        progress: is told what happens.

    Returns:
        The state.

    Raises:
        DivergedError: if a loss is not finite.
    """
    for notice in parts.strategy.notices():
        progress.notice(notice)
    for task in parts.sequence.tasks[state.tasks_done :]:
        history = parts.sequence.tasks[: task.index]
        chosen = parts.strategy.training_data(task, history, parts.sequence)
        progress.start_task(task, bool(chosen))
        if chosen:
            reference = next(parts.model.parameters())
            data = gather(chosen, task, parts.sequence, reference.device, reference.dtype)
            with seeded(parts.seed, "noise", task.index):
                reseed_modules(parts.model, parts.seed, "noise", task.index)
                with state.costs.phase("train", reference.device):
                    train_task(parts, state, task, data, folder, records, progress)
                with state.costs.phase("consolidate", reference.device):
                    parts.strategy.after_task(task, data)
            with state.costs.phase("evaluate", reference.device):
                scores = score(parts, task)
                attack(parts, state, task)
            state.store(task, scores)
            known = sum(counts for index, counts in scores.answers.items() if index <= task.index)
            store_confusion(folder, parts.sequence, task.index, np.asarray(known))
        write_tensors(folder / "weights" / f"task_{task.index:02d}.safetensors", parts.model.state_dict())
        records.write("task_end", task=task.index, **state.report(task), **measure(parts, task))
        state.tasks_done += 1
        saved = Checkpoint(
            state.tasks_done,
            parts.model.state_dict(),
            parts.strategy.state_dict(),
            state.as_json(records.length),
            conditions(parts.model),
            state.optimizer,
        )
        write_checkpoint(folder / "checkpoint", saved, parts.keep_checkpoints)
        own = state.task_aware if parts.sequence.mode == "task" else state.task_agnostic
        progress.end_task(task, own[task.index, : task.index + 1].tolist())
        for notice in parts.strategy.notices():
            progress.notice(notice)
    return state


def train_task(
    parts: Parts, state: RunState, task: Task, data: TrainingData, folder: Path, records: Records, progress: Silent
) -> None:
    """Train on one task's data; where the optimiser's state is kept, go on with it and leave it in the run's."""
    parts.model.train()
    optimizer = parts.make_optimizer([p for p in parts.model.parameters() if p.requires_grad])
    if parts.keep_optimizer_state:
        take_over(optimizer, parts.model, state.optimizer)
    schedule = parts.make_schedule(optimizer) if parts.make_schedule is not None else None
    watch_validation(schedule, lambda: validation_loss(parts.model, parts.sequence, task, parts.seed))
    parts.strategy.before_task(task, optimizer)
    watch = Watch(parts.evaluate_every, lambda step: score_seen(parts, task, step), state, records, task)
    for epoch in range(parts.epochs):
        started, losses, hits, scored = time.perf_counter(), [], [], 0
        order = stream(parts.seed, "order", task.index, epoch)
        begin_epoch(parts.objective, epoch, stream(parts.seed, "objective", task.index, epoch))
        for update in train_epoch(parts, optimizer, data, order, progress):
            losses.append(update.loss)
            competing = masked_logits(update.outputs, update.batch.active)
            hits.append((competing.argmax(1) == update.batch.targets).sum())
            scored += len(update.outputs)
            watch.step(epoch, update.loss.device)
        rows, passes = cost_of(parts.objective)
        state.costs.ledger.learned(scored // rows // parts.rule.updates_per_batch(parts.model), len(losses), passes)
        check_finite(torch.stack(losses), parts.model, data.inputs[: parts.batch_size], task, epoch, folder)
        records.write(
            "epoch",
            task=task.index,
            epoch=epoch,
            loss=float(torch.stack(losses).mean()),
            accuracy=float(torch.stack(hits).sum()) / scored,
            learning_rate=optimizer.param_groups[0]["lr"],
            seconds=time.perf_counter() - started,
        )
        if schedule is not None:
            schedule.step()
    if parts.keep_optimizer_state:
        state.optimizer = remembered(optimizer, parts.model)


def train_epoch(
    parts: Parts, optimizer: torch.optim.Optimizer, data: TrainingData, generator: torch.Generator, progress: Silent
) -> Iterator[Any]:
    """Go once over the data: gradients, protection, step, protection."""
    optimizer.zero_grad(set_to_none=True)
    for batch in data.batches(parts.batch_size, generator):
        mixed = parts.strategy.mix(batch)
        for update in parts.rule.updates(parts.model, mixed, parts.objective, parts.strategy.terms):
            if is_seen_to_fail(update.loss):
                yield update
                return
            parts.strategy.after_backward(parts.model)
            optimizer.step()
            parts.strategy.after_step(parts.model)
            optimizer.zero_grad(set_to_none=True)  # the next update may be another tick of the same batch
            yield update
        progress.step()


def steps_per_task(parts: Parts) -> int:
    """Count the optimiser steps of the first task."""
    return parts.epochs * -(-len(parts.sequence.tasks[0].train) // parts.batch_size)


def score(parts: Parts, task: Task | None) -> Scores:
    """Score the tasks after `task`, or the untrained network when it is None (then among all rows)."""
    sequence, strategy = parts.sequence, parts.strategy
    seen = tuple(range(sequence.num_classes)) if task is None else sequence.classes_seen(task.index)
    index = -1 if task is None else task.index
    tasks = sequence.tasks if parts.evaluate_future else sequence.tasks[: index + 1]
    seed = derive_seed(parts.seed, "evaluation", index)
    needs_task_id = strategy.needs_task_id_in_test
    return evaluate(strategy.predict, parts.model, sequence, tasks, seen, parts.part, needs_task_id, seed)


def attack(parts: Parts, state: RunState, task: Task) -> None:
    """Measure robustness after a task, where the run asks for it."""
    if parts.robustness:
        network = parts.strategy, parts.model, parts.sequence
        every = parts.robustness_every_task
        measure_robustness(parts.robustness, state.robust, *network, task, parts.part, every, parts.seed)


def score_seen(parts: Parts, task: Task, step: int) -> Scores:
    """Score the tasks seen so far, the one being learned among them, inside it."""
    sequence, strategy = parts.sequence, parts.strategy
    tasks, seen = sequence.tasks[: task.index + 1], sequence.classes_seen(task.index)
    seed = derive_seed(parts.seed, "evaluation within", task.index, step)
    needs_task_id = strategy.needs_task_id_in_test
    return evaluate(strategy.predict, parts.model, sequence, tasks, seen, parts.part, needs_task_id, seed)


def measure(parts: Parts, task: Task) -> dict[str, Any]:
    """Measure operations, rates and ranks on at most 500 held-out samples of a task."""
    reference = next(parts.model.parameters())
    split = part_of(task, parts.part)
    inputs, _ = as_tensors(split.select(np.arange(min(500, len(split)))), reference.device, reference.dtype)  # pyright: ignore[reportAttributeAccessIssue]
    with apart(parts.model, parts.seed, "statistics", task.index):
        layers = measure_activity(parts.model, inputs)
    return {
        "layers": [layer._asdict() for layer in layers],
        "subspaces": [layer._asdict() for layer in parts.strategy.ranks()],
        "stored_bytes": parts.strategy.stored_bytes,
        "learning_operations": parts.strategy.operations,
    }
