"""Small sequences and a plain training loop in double precision, where what a projection gives can be told exactly."""

import copy

import numpy as np
import torch
from torch import nn

from continual.batches import gather
from continual.data import Test, Train
from continual.objectives import CrossEntropy
from continual.optimizer_state import remembered, take_over
from continual.scenarios import Task, TaskSequence
from continual.seeding import stream
from continual.strategies import Setting
from neuro.lateral import last_linear
from neuro.learning import BPTT

WIDTH = 16
OPTIMISERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.3}),
    "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    "decay": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05}),
    "adam": (torch.optim.Adam, {"lr": 0.02}),
    "adamw": (torch.optim.AdamW, {"lr": 0.02, "weight_decay": 0.05}),
}
LINEAR_IN_GRADIENT = {"sgd", "momentum"}


def samples(seed, pixels=tuple(range(WIDTH)), num=60, num_classes=3):
    """Inputs that live in some pixels, each at a brightness of its own, labelled by the brightest of the first."""
    random = np.random.default_rng(seed)
    inputs = np.zeros((num, WIDTH), np.float32)
    inputs[:, list(pixels)] = random.random((num, len(pixels)), dtype=np.float32) ** np.arange(1, len(pixels) + 1)
    targets = inputs[:, list(pixels)[:num_classes]].argmax(1).astype(np.int64)
    return inputs, targets


def sequence_of(*parts, mode="domain"):
    """Tasks from arrays of inputs and targets; with mode `task` each has rows of the head to itself."""
    tasks, offset = [], 0
    for index, (inputs, targets) in enumerate(parts):
        rows = (0, 1, 2) if mode == "domain" else tuple(range(offset, offset + 3))
        tasks.append(
            Task(index, f"task {index}", Train(inputs, targets + rows[0]), None, Test(inputs, targets + rows[0]), rows)
        )
        offset += 3
    return TaskSequence("toy", tuple(tasks), mode, 3 if mode == "domain" else offset)


def three_tasks(mode="domain"):
    return sequence_of(*(samples(seed, np.roll(np.arange(WIDTH), 5 * seed)) for seed in range(3)), mode=mode)


def relu_network(kind=nn.Linear, hidden=12, num_classes=3, bias=False):
    torch.manual_seed(0)
    return nn.Sequential(kind(WIDTH, hidden, bias=bias), nn.ReLU(), kind(hidden, num_classes, bias=bias)).double()


def linear_network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH, 3, bias=False)).double()


class PlainRun:
    """A strategy on a network, one task at a time.

    `steps` holds of every step of the last task what was applied to each weight, what the optimiser alone would have
    applied from the same weights with the history of the raw gradients, and the strategy's maps at that moment.
    """

    def __init__(self, strategy, model, sequence, seed=0, epochs=1, batch_size=10):
        self.strategy, self.model, self.sequence = strategy, model, sequence
        self.seed, self.epochs, self.batch_size = seed, epochs, batch_size
        self.kept = {}, {}
        objective = CrossEntropy()
        strategy.attach(
            Setting(model, last_linear(model), sequence, seed, BPTT(), objective, epochs=epochs, batch_size=batch_size)
        )

    def data(self, index):
        task = self.sequence.tasks[index]
        reference = next(self.model.parameters())
        return gather([task], task, self.sequence, reference.device, reference.dtype)

    def learn(self, index, optimiser="sgd", keep=False):
        task, data, loss = self.sequence.tasks[index], self.data(index), CrossEntropy()
        twin = copy.deepcopy(self.model)
        for module in twin.modules():
            module.projectors = None
        kind, options = OPTIMISERS[optimiser]
        optimizer, free = (
            kind([p for p in model.parameters() if p.requires_grad], **options) for model in (self.model, twin)
        )
        if keep:
            take_over(optimizer, self.model, self.kept[0])
            take_over(free, twin, self.kept[1])
        self.strategy.before_task(task, optimizer)
        self.steps = []
        for epoch in range(self.epochs):
            for batch in data.batches(self.batch_size, stream(self.seed, "order", index, epoch)):
                batch = self.strategy.mix(batch)
                before = self.weights()
                twin.load_state_dict(self.model.state_dict())
                for model, stepped in ((twin, free), (self.model, optimizer)):
                    stepped.zero_grad()
                    loss.loss(model(batch.inputs), batch).backward()
                    if model is self.model:
                        self.strategy.after_backward(model)
                    stepped.step()
                self.strategy.after_step(self.model)
                wanted = {name: p.detach() - before[name] for name, p in twin.named_parameters()}
                applied = {name: p - before[name] for name, p in self.weights().items()}
                self.steps.append((applied, wanted, self.matrices()))
        self.kept = remembered(optimizer, self.model), remembered(free, twin)

    def end(self, index):
        self.strategy.after_task(self.sequence.tasks[index], self.data(index))

    def learn_all(self, optimiser="sgd"):
        for index in range(len(self.sequence.tasks)):
            self.learn(index, optimiser)
            self.end(index)

    def weights(self):
        return {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}

    def guard(self):
        path = getattr(self.strategy, "_path", None)
        return path.guard if path is not None else getattr(self.strategy, "_protection", None)

    def matrices(self):
        """Every map in force as a matrix M of G → G M, by parameter name."""
        guard = self.guard()
        if guard is None:
            return {}
        found = {name: held for name, held in guard.maps.items() if held is not None}
        widths = {site.name: site.width for site in guard.sites}
        like = next(self.model.parameters()).detach()
        eyes = {name: torch.eye(widths[name], dtype=like.dtype, device=like.device) for name in found}
        return {f"{name}.weight": held(eyes[name]) for name, held in found.items()}

    def inputs_of(self, name, inputs):
        """What stands before a weight."""
        seen = inputs
        for place, layer in self.model.named_children():
            if place == name:
                return seen.detach()
            seen = layer(seen)
        raise KeyError(name)
