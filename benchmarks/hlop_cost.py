"""What HLOP costs beside unprotected training, learning and projecting apart.

    python benchmarks/hlop_cost.py [--learning hebbian_accumulated] [--threads 2]

The network, data, subspace sizes and the samples learned from are those of
configs/experiment/permuted_mnist5k_hlop.yaml. Two copies of the network take turns, a few steps each, so that a change
of the machine's speed meets both; one epoch per task is timed and counts five times, as in the protocol. Learning is
the pass at each task's end.
"""

import argparse
import time

import torch
import torch.nn.functional as F

from continual.compose import compose
from continual.config import build
from continual.data import mnist5k
from continual.scenarios import permuted
from neuro.lateral import Eigen, Hebbian, HebbianAccumulated, Protection

LEARNING = {way.name: way for way in (HebbianAccumulated, Hebbian, Eigen)}
STEPS_A_TURN = 9


def train(model, optimizer, batches, protection=None):
    started = time.perf_counter()
    for inputs, targets in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(inputs), targets).backward()
        if protection is not None:
            protection.after_backward()
        optimizer.step()
    return time.perf_counter() - started


def measure(learning, threads, num_tasks=10):
    torch.set_num_threads(threads)
    torch.set_flush_denormal(True)
    description = compose(["experiment=permuted_mnist5k_hlop", f"scenario.num_tasks={num_tasks}"])
    epochs, batch_size, rate = description["epochs"], description["batch_size"], description["optimizer"]["lr"]
    shape = {"input_shape": (28, 28), "num_classes": 10}
    plain, guarded = (build(description["model"], "model", **shape) for _ in range(2))
    sizes, max_samples = build(description["strategy"]["sizes"], "sizes"), description["strategy"]["max_samples"]
    protection = Protection(guarded, learning, sizes, trace_side=True)
    unprotected = projected = learned = 0.0
    for task in permuted(mnist5k(), num_tasks=num_tasks).tasks:
        inputs, targets = torch.from_numpy(task.train.inputs).float() / 255, torch.from_numpy(task.train.targets)
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(task.index)).split(batch_size)
        batches = [(inputs[chosen], targets[chosen]) for chosen in order]
        optimizers = [torch.optim.SGD(model.parameters(), lr=rate) for model in (plain, guarded)]
        if task.index == 0:
            train(plain, optimizers[0], batches[:STEPS_A_TURN])
            train(guarded, optimizers[1], batches[:STEPS_A_TURN], protection)
        for start in range(0, len(batches), STEPS_A_TURN):
            turn = batches[start : start + STEPS_A_TURN]
            unprotected += epochs * train(plain, optimizers[0], turn)
            projected += epochs * train(guarded, optimizers[1], turn, protection)
        started = time.perf_counter()
        shown = inputs[torch.cat(order)[:max_samples]].split(batch_size)
        protection.end_task(shown, num_batches=len(shown))
        learned += time.perf_counter() - started
    return unprotected, projected, learned


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--learning", choices=tuple(LEARNING), nargs="+", default=["hebbian_accumulated"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print("| learning | unprotected training | projecting adds | learning adds | together |\n|---|---|---|---|---|")
    for name in options.learning:
        unprotected, projected, learned = measure(LEARNING[name](), options.threads)
        projecting = projected - unprotected
        print(
            f"| {name} | {unprotected:.1f} s | {projecting:.1f} s ({projecting / unprotected:.0%}) "
            f"| {learned:.1f} s ({learned / unprotected:.0%}) | {(projecting + learned) / unprotected:.0%} |"
        )


if __name__ == "__main__":
    main()
