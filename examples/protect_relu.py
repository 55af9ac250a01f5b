"""Three lines protect an ordinary PyTorch network in an ordinary training loop.

    python examples/protect_relu.py

A ReLU network with biases and batch norm, trained with Adam, learns three permutations of MNIST-5k one after another;
once as it is, once protected. The lines marked 1, 2 and 3 are all that differs.
"""

import torch
import torch.nn.functional as F
from torch import nn

from continual.data import mnist5k
from continual.scenarios import permuted
from neuro.lateral import protect


def train_on_all(tasks, protected, seed=0):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(784, 256),
        nn.BatchNorm1d(256),
        nn.ReLU(),
        nn.Linear(256, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
    protection = protect(model) if protected else None  # 1
    for task in tasks:
        inputs, targets = as_tensors(task.train)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        model.train()
        for _ in range(3):
            for chosen in torch.randperm(len(inputs)).split(64):
                optimizer.zero_grad()
                F.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
                optimizer.step()
                if protection is not None:
                    protection.after_step()  # 2
        if protection is not None:
            protection.end_task(inputs)  # 3
        print(
            f"  after {task.name}: "
            + "  ".join(f"{100 * accuracy(model, old):5.1f}" for old in tasks[: task.index + 1])
        )


def as_tensors(split):
    return torch.from_numpy(split.inputs).float() / 255, torch.from_numpy(split.targets)


@torch.no_grad()
def accuracy(model, task):
    inputs, targets = as_tensors(task.test)
    return float((model.eval()(inputs).argmax(1) == targets).float().mean())


def main():
    tasks = permuted(mnist5k(), num_tasks=3).tasks
    for protected in (False, True):
        print("protected" if protected else "as it is")
        train_on_all(tasks, protected)


if __name__ == "__main__":
    main()
