"""How far a Fisher through surrogate gradients is from what weights really do, beside networks that are smooth.

    python benchmarks/surrogate_fisher.py --seeds 3

A network's answer p to an image moves, for small independent changes δ of its weights of size σ, by

    E KL(p(θ) ‖ p(θ + δ)) ≈ ½ σ² Σ_p F_p

with F the exact diagonal Fisher: that is what EWC's importances promise. The table gives the left side, measured, over
the right side, layer by layer: 1 where the gradients are those of the network. A ReLU network and a spiking one whose
step is replaced by the logistic function are smooth; the spiking one has the derivative of that function for its
surrogate. A step answers to a small change rarely and then wholly, so its KL shrinks like σ, not σ².

784-100-100-10, T = 4, three epochs on MNIST-5k, Fisher and KL on the same 200 test digits in double precision, 32 draws
of δ a layer. The mean over seeds stands before its 95 % interval.
"""

import argparse
import tempfile
from functools import partial

import torch
from permuted_mnist5k import interval
from torch import Tensor, nn

import continual
from continual.batches import TrainingData, as_tensors
from continual.data import mnist5k
from continual.importance import Exact
from continual.models import relu_mlp
from neuro import StepNeuron
from neuro.models import Normalise, spiking_mlp
from neuro.neurons import LIF
from neuro.surrogate import Sigmoid

HIDDEN, TICKS, DRAWS, SAMPLES = (100, 100), 4, 32, 200
MNIST = Normalise(0.1307, 0.3081)
SCALES = (1e-4, 1e-3, 1e-2)
SLOPES = (1.0, 4.0, 16.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print("| network | layer | " + " | ".join(f"σ = {scale:g}" for scale in SCALES) + " |\n|---|---|---|---|---|")
    for name, make in networks().items():
        found = [ratios(make, seed) for seed in range(options.seeds)]
        for layer in found[0]:
            cells = [interval([one[layer][scale] / 100 for one in found]) for scale in SCALES]
            print(f"| {name} | {layer} | {' | '.join(cells)} |", flush=True)


def networks() -> dict:
    found = {"ReLU": lambda: relu_mlp((28, 28), 10, HIDDEN, normalise=MNIST)}
    for slope in SLOPES:
        found[f"logistic, slope {slope:g}"] = lambda slope=slope: spiking(StepNeuron(partial(smooth_step, slope), 1))
        found[f"spiking, surrogate slope {slope:g}"] = lambda slope=slope: spiking(LIF(surrogate=Sigmoid(slope)))
    return found


def spiking(neuron: nn.Module) -> nn.Module:
    return spiking_mlp((28, 28), 10, HIDDEN, neuron=neuron, time_steps=TICKS, normalise=MNIST)


def smooth_step(slope: float, current: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Tick a LIF neuron of τ = 2 and threshold 1 whose step is the logistic function; nothing is detached."""
    membrane = state[0] / 2 + current
    activity = torch.sigmoid(slope * (membrane - 1))
    return activity, (membrane - activity,)


def ratios(make, seed: int) -> dict[str, dict[float, float]]:
    torch.manual_seed(seed)
    model = make().double()
    with tempfile.TemporaryDirectory() as output:
        few = ("scenario.num_tasks=1", "epochs=3", f"seed={seed}", "dtype=float64", f"output={output}")
        continual.run(few, model=model, strategy="naive")
    model.eval()
    inputs, targets = as_tensors(mnist5k(seed).test.select(range(SAMPLES)), torch.device("cpu"), torch.float64)
    everything = torch.ones(10, dtype=torch.bool)
    data = TrainingData(inputs, targets, everything, torch.zeros(len(targets), dtype=torch.int64))
    names = [name for name, _ in model.named_parameters()]
    fisher = Exact(max_samples=None).estimate(model, names, data, seed, 0).importance
    draws = torch.Generator().manual_seed(seed)
    return {
        name: {scale: measured(model, name, inputs, scale, draws) / predicted(fisher[name], scale) for scale in SCALES}
        for name in names
    }


def predicted(fisher: Tensor, scale: float) -> float:
    return 0.5 * scale**2 * float(fisher.sum())


@torch.no_grad()
def measured(model: nn.Module, name: str, inputs: Tensor, scale: float, draws: torch.Generator) -> float:
    weight, before = model.get_parameter(name), model(inputs).log_softmax(1)
    kept, total = weight.clone(), 0.0
    for _ in range(DRAWS):
        weight.copy_(kept + scale * torch.randn(kept.shape, generator=draws, dtype=kept.dtype))
        after = model(inputs).log_softmax(1)
        total += float((before.exp() * (before - after)).sum(1).mean())
    weight.copy_(kept)
    return total / DRAWS


if __name__ == "__main__":
    main()
