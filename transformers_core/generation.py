"""Let a decoder write: one token at a time, each read once.

greedy     the most probable token
sampled    softmax(logits / temperature), cut to the k most probable tokens where wanted
"""

from collections.abc import Callable

import torch
from torch import Tensor

from transformers_core.cache import Cache

Choose = Callable[[Tensor], Tensor]
"""From logits [B, V] to token ids [B]."""


def greedy(logits: Tensor) -> Tensor:
    """Choose the most probable token, [B] of [B, V]; the first of equals."""
    return logits.argmax(-1)


class Sample:
    """Draw tokens.

    Args:
        generator: every draw comes from it.
        temperature: above 0; below 1 sharpens.
        top_k: only the k most probable tokens are drawn; None draws from all.

    Raises:
        ValueError: if the temperature is not above 0 or k is below 1.
    """

    def __init__(self, generator: torch.Generator, temperature: float = 1.0, top_k: int | None = None) -> None:
        if temperature <= 0:
            raise ValueError(f"The temperature must be above 0, got {temperature}; for the limit 0 choose `greedy`.")
        if top_k is not None and top_k < 1:
            raise ValueError(f"At least one token must remain, got top_k = {top_k}.")
        self.generator, self.temperature, self.top_k = generator, temperature, top_k

    def __call__(self, logits: Tensor) -> Tensor:
        """Draw token ids [B] by logits [B, V]."""
        logits = logits / self.temperature
        if self.top_k is not None and self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, -1).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        return torch.multinomial(logits.softmax(-1), 1, generator=self.generator)[:, 0]


@torch.no_grad()
def generate(
    decoder: Callable[..., Tensor],
    prompt: Tensor,
    num_tokens: int,
    choose: Choose = greedy,
    stop: int | None = None,
) -> Tensor:
    """Continue prompts.

    Args:
        decoder: called as decoder(tokens, cache=cache), gives logits [B, L, V]; bind a memory with functools.partial.
        prompt: ids [B, L], at least one token, no padding.
        num_tokens: how many tokens to add.
        choose: picks a token by its logits.
        stop: id after which a row is finished and filled up with that id; None never stops early.

    Returns:
        ids [B, L + num_tokens], or fewer where all rows stopped.

    Raises:
        ValueError: if the prompt has no token.
    """
    if prompt.dim() != 2 or prompt.shape[1] == 0:
        raise ValueError(f"A prompt has the shape [B, L] with L at least 1, got {list(prompt.shape)}.")
    cache, text, fresh = Cache(), prompt, prompt
    finished = torch.zeros(len(prompt), dtype=torch.bool, device=prompt.device)
    for _ in range(num_tokens):
        chosen = choose(decoder(fresh, cache=cache)[:, -1])
        if stop is not None:
            chosen = torch.where(finished, stop, chosen)
            finished = finished | (chosen == stop)
        fresh = chosen[:, None]
        text = torch.cat((text, fresh), 1)
        if stop is not None and bool(finished.all()):
            break
    return text
