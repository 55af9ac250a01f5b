"""Per-sample gradients: ∂ score(f(x_n)) / ∂θ for every sample of a batch, chunk by chunk, never one at a time.

torch.func maps the gradient of one sample's score over a chunk: vmap(jacrev(score ∘ f)), which for a scalar score is
vmap(grad(score ∘ f)), and for a vector of scores runs forward once and back once a score. The network is in evaluation
mode (in training mode batch norm ties samples together, and no gradient belongs to one of them), and its neurons run
their reference loops, since the fused kernel hides its inside from torch.func.

These are plain gradients of backpropagation, through time and surrogate derivatives where there are spikes, whatever
rule trains: projectors, error paths and traces of our synapses stand aside meanwhile. A layer whose backward pass is
written by hand in some other way (DSR's neurons, snnTorch's) is refused by name.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap

from neuro.kernels import reference_kernels
from neuro.lateral import evaluating
from neuro.synapses import Synapse

Score = Callable[..., Tensor]
"""From the logits of one sample [classes], and whatever belongs to that sample, to a scalar or a vector [K]."""

CHUNK_BYTES, LARGEST_CHUNK = 1 << 26, 128
"""Bytes of gradients held at a time, unless one takes more; samples that go through the network at once."""


def per_sample_gradients(
    model: nn.Module,
    names: Sequence[str],
    score: Score,
    inputs: Tensor,
    *extras: Tensor,
    num_scores: int = 1,
    chunk_size: int | None = None,
) -> Iterator[dict[str, Tensor]]:
    """Give the gradients of every sample's score, a chunk of samples at a time, in order.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(3, 2)
        >>> found = per_sample_gradients(model, ["weight"], lambda logits: logits.sum(), torch.rand(5, 3))
        >>> [chunk["weight"].shape for chunk in found]
        [torch.Size([5, 2, 3])]

    Args:
        model: from inputs [B, ...] to logits [B, classes].
        names: of the parameters to differentiate by.
        score: called with one sample's logits [classes] and its slice of every extra; gives a scalar, or a vector [K].
        inputs: [N, ...].
        extras: what the score needs of each sample, [N, ...] each.
        num_scores: K, to choose the size of a chunk by.
        chunk_size: samples at a time; memory is that many times K times the parameters. None keeps it below 64 MiB, or
            at one sample. It decides no digit, unless the network draws random numbers: it then decides who gets which.

    Yields:
        By name, gradients [samples of the chunk, *shape of the parameter], or [samples, K, *shape] of a vector; modes
        and synapses are as before.

    Raises:
        ValueError: if chunk_size is below 1.
    """
    parameters = {name: model.get_parameter(name).detach() for name in names}
    fitting = min(LARGEST_CHUNK, affordable_gradients(model, names) // num_scores)
    size = chunk_size if chunk_size is not None else max(1, fitting)
    if size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {size}.")

    def score_of_one(parameters: dict[str, Tensor], one: Tensor, *own: Tensor) -> Tensor:
        return score(functional_call(model, parameters, (one[None],))[0], *own)

    axes = (None, *(0 for _ in (inputs, *extras)))
    of_chunk = vmap(jacrev(score_of_one), in_dims=axes, randomness="different")
    for chunk in zip(*(tensor.split(size) for tensor in (inputs, *extras)), strict=True):
        with evaluating(model), plain_backward(model), reference_kernels():
            gradients = of_chunk(parameters, *chunk)
        yield gradients


def affordable_gradients(model: nn.Module, names: Sequence[str]) -> int:
    """Give how many gradients by these parameters fit into 64 MiB, at least 1."""
    return max(1, CHUNK_BYTES // max(1, sum(model.get_parameter(name).nbytes for name in names)))


@contextmanager
def plain_backward(model: nn.Module) -> Iterator[None]:
    """Let our synapses go back as torch's own layers do while the context is open."""
    synapses = [module for module in model.modules() if isinstance(module, Synapse)]
    held = [(synapse, synapse.error_path, synapse.presynaptic, synapse.projectors) for synapse in synapses]
    for synapse in synapses:
        synapse.error_path = synapse.presynaptic = synapse.projectors = None
    try:
        yield
    finally:
        for synapse, error_path, presynaptic, projectors in held:
            synapse.error_path, synapse.presynaptic, synapse.projectors = error_path, presynaptic, projectors


def require_per_sample(model: nn.Module, names: Sequence[str], inputs: Tensor) -> None:
    """Refuse a network whose per-sample gradients cannot be had; a single sample is tried.

    Args:
        model: the network.
        names: of the parameters to differentiate by.
        inputs: at least one sample that the network can take, [B, ...].

    Raises:
        ValueError: naming the layer at which torch.func stops.
    """
    running: list[str] = []
    with ExitStack() as stack:
        for name, module in model.named_modules():
            stack.callback(module.register_forward_pre_hook(lambda *_, name=name: running.append(name)).remove)
            stack.callback(module.register_forward_hook(lambda *_: leave(running)).remove)
        try:
            list(per_sample_gradients(model, names, lambda logits: logits.square().sum(), inputs[:1]))
        except RuntimeError as problem:
            layer = running[-1] if running else ""
            where = f"layer {layer!r} ({type(model.get_submodule(layer)).__name__})" if layer else "the network itself"
            text = " ".join(str(problem).split()).partition(". ")[0]
            reason = "its backward pass is written by hand" if "setup_context" in text else text
            raise ValueError(
                f"Per-sample gradients need layers that torch.func sees through, and {where} is not one ({reason}); "
                f"use another layer there, or a strategy that needs none, such as si, lwf or ewc_batch_mean."
            ) from problem


def leave(running: list[str]) -> None:
    """Take the layer that has finished off the stack; a hook that gives None leaves the output as it is."""
    running.pop()
