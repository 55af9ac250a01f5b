"""Train a spiking network and its ReLU twin on the small digits, attack both, and print what a report holds.

python examples/robustness_digits.py OUTPUT        a minute on one core; writes OUTPUT/spiking and OUTPUT/relu
"""

import sys
from pathlib import Path

import torch
from torch import nn

from continual.data import digits
from continual.robustness import (
    APGD,
    PGD,
    Battery,
    Margin,
    Square,
    Transfer,
    WorstCase,
    corruption_accuracy,
    evaluate,
    linf,
    over_surrogates,
    standard,
)
from continual.seeding import seeded
from neuro.models import spiking_mlp

SAMPLES, RADIUS = 100, 0.1


def tensors(part):
    return torch.as_tensor(part.inputs), torch.as_tensor(part.targets)


def trained(neuron, time_steps):
    with seeded(0, "init"):
        model = spiking_mlp((8, 8), 10, [64], neuron=neuron, time_steps=time_steps)
    images, labels = tensors(digits().train)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    order = torch.Generator().manual_seed(0)
    for _ in range(30):
        for rows in torch.randperm(len(images), generator=order).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
    return model


def main(output):
    torch.set_num_threads(1)
    spiking, relu = trained(None, 6), trained(nn.ReLU(), 1)
    images, labels = tensors(digits().test)
    data = images[:SAMPLES], labels[:SAMPLES]
    threat, attack = linf(RADIUS), APGD(steps=30, loss=Margin())
    report = evaluate(
        relu, data, threat, standard(10, 30, 500, 3), (0.025, 0.05, 0.2), Battery(20, 500, 50, source=spiking)
    )
    print("ReLU twin\n" + report.table())
    report.save(output / "relu")

    single = attack(spiking, *data, threat, torch.Generator().manual_seed(0)).accuracy
    attacks = [attack, WorstCase(over_surrogates(attack)), Transfer(relu, PGD(20, restarts=1)), Square(500)]
    report = evaluate(spiking, data, threat, attacks, (0.025, 0.05, 0.2), Battery(20, 500, 50, source=relu))
    print(f"\nSpiking network; Auto-PGD with the training surrogate alone leaves {single:.3f}\n" + report.table())
    report.save(output / "spiking")

    for name, model in (("ReLU twin", relu), ("spiking network", spiking)):
        kinds = ["gaussian_noise", "impulse_noise", "contrast", "gaussian_blur", "jpeg"]
        print(f"\n{name}\n" + corruption_accuracy(model, images, labels, kinds).table())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
