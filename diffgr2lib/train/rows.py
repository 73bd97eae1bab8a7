"""Training rows: a prompt, a response and a weight a response token, as token ids."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from diffgr2lib.data.scorecard import Trace
from diffgr2lib.data.types import Example
from diffgr2lib.errors import GrammarError
from diffgr2lib.text.grammar import START, Grammar


@dataclass(frozen=True, slots=True)
class Row:
    """One supervised row of token ids; the response includes its end token.

    weights: one a response token, 0 where it is not supervised. key: what the row was made from,
    for error messages.
    """

    prompt: list[int]
    response: list[int]
    weights: list[float]
    key: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows side by side: prompt [N, P] padded left, response and weights [N, L] padded right.

    masks: bool [N, C, L], the corruption of each noisy copy, or None for AR training.
    """

    prompt: Tensor
    prompt_mask: Tensor
    response: Tensor
    response_mask: Tensor
    weights: Tensor
    keys: tuple[str, ...]
    masks: Tensor | None = None

    @property
    def report(self) -> dict[str, float]:
        """Nothing to log beside the loss."""
        return {}

    def part(self, rows: slice, device: torch.device) -> "Batch":
        """Some of its rows, on a device, without the padding that only the others needed."""
        P = int(self.prompt_mask[rows].sum(1).max())
        L = int(self.response_mask[rows].sum(1).max())
        first = self.prompt.shape[1] - P
        return Batch(
            self.prompt[rows, first:].to(device),
            self.prompt_mask[rows, first:].to(device),
            self.response[rows, :L].to(device),
            self.response_mask[rows, :L].to(device),
            self.weights[rows, :L].to(device),
            self.keys[rows],
            None if self.masks is None else self.masks[rows, :, :L].to(device),
        )


def encode_prompt(
    tokenizer: PreTrainedTokenizerFast, grammar: Grammar, example: Example
) -> list[int]:
    """Token ids of the prompt; in the full form through the tokenizer's own chat template."""
    if grammar.form == "compact":
        text = grammar.prompt(example)
    else:
        text = str(
            tokenizer.apply_chat_template(
                grammar.messages(example), tokenize=False, add_generation_prompt=True
            )
        )
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if tokenizer.unk_token_id is not None and tokenizer.unk_token_id in ids:
        raise GrammarError(
            f"The prompt of user {example.user} has a word that the tokenizer does not know;"
            " train the tokenizer on this catalogue, or use the checkpoint's own."
        )
    return list(ids)


def encode_row(
    tokenizer: PreTrainedTokenizerFast,
    grammar: Grammar,
    example: Example,
    trace: Trace,
    trace_weight: float,
    answer_weight: float,
) -> Row:
    """Prompt and teacher response of one example; trace and answer tokens weighted apart."""
    text = grammar.response(example, trace.order, trace.theme, trace.points)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    start = text.rindex(START[:-2])  # the answer's opening brace
    ids = [*encoded["input_ids"], tokenizer.eos_token_id]
    weights = [
        answer_weight if end > start else trace_weight for _, end in encoded["offset_mapping"]
    ]
    key = f"user {example.user}"
    prompt = encode_prompt(tokenizer, grammar, example)
    return Row(prompt, ids, [*weights, answer_weight], key)


def answer_weights(
    tokenizer: PreTrainedTokenizerFast, tokens: list[int], trace_weight: float, answer_weight: float
) -> list[float]:
    """A weight for each token of a decoded response: the answer begins at its last opening brace.

    A response without an answer is all trace.
    """
    text = str(tokenizer.decode(tokens))
    start = text.rfind(START[:-2])
    if start < 0:
        return [trace_weight] * len(tokens)
    low, high = 0, len(tokens)  # the number of tokens that end at or before the brace
    while low < high:
        middle = (low + high + 1) // 2
        if len(str(tokenizer.decode(tokens[:middle])).rstrip()) <= start:
            low = middle
        else:
            high = middle - 1
    return [trace_weight] * low + [answer_weight] * (len(tokens) - low)


def collate(rows: Sequence[Row], pad: int, end: int, block_size: int) -> Batch:
    """Pad rows to one batch, and fill each response with end tokens to the end of its last block.

    The filled end tokens are supervised like the real one (block diffusion decodes whole blocks);
    with block_size 1 there are none. Nothing after that block is real, masked or supervised.
    """
    filled = []
    for row in rows:
        extra = -len(row.response) % block_size
        filled.append((row.response + [end] * extra, row.weights + row.weights[-1:] * extra))
    N, P = len(rows), max(len(row.prompt) for row in rows)
    L = max(len(response) for response, _ in filled)
    prompt = torch.full((N, P), pad)
    response = torch.full((N, L), pad)
    weights = torch.zeros(N, L)
    prompt_mask = torch.zeros(N, P, dtype=torch.bool)
    response_mask = torch.zeros(N, L, dtype=torch.bool)
    for n, (row, (ids, weight)) in enumerate(zip(rows, filled, strict=True)):
        prompt[n, P - len(row.prompt) :] = torch.tensor(row.prompt)
        prompt_mask[n, P - len(row.prompt) :] = True
        response[n, : len(ids)] = torch.tensor(ids)
        response_mask[n, : len(ids)] = True
        weights[n, : len(ids)] = torch.tensor(weight)
    keys = tuple(row.key for row in rows)
    return Batch(prompt, prompt_mask, response, response_mask, weights, keys)
