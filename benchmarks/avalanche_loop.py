"""avalanche-lib's part of throughput.py: naive or EWC over stored tasks; prints seconds as JSON.

Runs in avalanche-lib's own environment, so it imports nothing of ours. Training is the time between the hooks around an
epoch; the Fisher passes are the rest of its training of a task. `default` keeps the loss and the accuracy that the
library measures and prints when nothing is said (our runner records both too), `none` measures nothing.

    python avalanche_loop.py naive|ewc default|none TASKS WIDTH WIDTH BATCH_SIZE EPOCHS LEARNING_RATE THREADS
"""

import json
import statistics
import sys
import time
from itertools import pairwise

import numpy as np
import torch
from avalanche.benchmarks import tensors_benchmark
from avalanche.core import SupervisedPlugin
from avalanche.training.plugins import EvaluationPlugin
from avalanche.training.supervised import EWC, Naive

STRENGTH = 1.0


class Clock(SupervisedPlugin):
    """Seconds of the epochs of the current task."""

    def __init__(self):
        super().__init__()
        self.seconds, self.started = 0.0, 0.0

    def before_training_epoch(self, strategy, *arguments, **keywords):
        """Start the clock."""
        self.started = time.perf_counter()

    def after_training_epoch(self, strategy, *arguments, **keywords):
        """Stop it."""
        self.seconds += time.perf_counter() - self.started


def main():
    name, measured, path = sys.argv[1:4]
    first, second, batch_size, epochs = map(int, sys.argv[4:8])
    torch.set_num_threads(int(sys.argv[9]))
    stored = np.load(path)
    tasks = [
        (torch.from_numpy(images).float() / 255, torch.from_numpy(labels).long())
        for images, labels in zip(stored["inputs"], stored["targets"], strict=True)
    ]
    stream = tensors_benchmark(train_tensors=tasks, test_tensors=tasks, task_labels=[0] * len(tasks)).train_stream
    widths = (784, first, second, 10)
    layers = [torch.nn.Linear(narrow, wide, bias=False) for narrow, wide in pairwise(widths)]
    model = torch.nn.Sequential(layers[0], torch.nn.ReLU(), layers[1], torch.nn.ReLU(), layers[2])
    optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[8]))
    clock = Clock()
    parts = {"model": model, "optimizer": optimizer, "criterion": torch.nn.CrossEntropyLoss(), "plugins": [clock]}
    parts |= {"train_mb_size": batch_size, "train_epochs": epochs}
    if measured == "none":
        parts["evaluator"] = EvaluationPlugin()
    strategy = Naive(**parts) if name == "naive" else EWC(**parts, ewc_lambda=STRENGTH)
    training, fisher = [], []
    for experience in stream:
        clock.seconds, started = 0.0, time.perf_counter()
        strategy.train(experience)
        training.append(clock.seconds)
        fisher.append(time.perf_counter() - started - clock.seconds)
    print(json.dumps({"training": statistics.mean(training[1:]), "fisher": statistics.mean(fisher)}))


if __name__ == "__main__":
    main()
