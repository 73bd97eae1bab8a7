"""A trajectory: what one row's decoding committed, where, when, and how surely."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from diffgr2lib.errors import ModelError


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Everything that an exact replay of one row needs; the lists run over whole blocks.

    prompt: token ids without padding. tokens: committed ids; positions after the end token that
    were never revealed hold the mask token. reveal_step: denoising step within the block, from 0
    (-1: never revealed). confidence: top-1 plain softmax in [0, 1]. log_probability: nats, under
    the law that the token was drawn from (its temperature, the mask token and disallowed tokens
    excluded; at temperature 0 the law at temperature 1). length: response tokens up to and
    including the end token. nfe: forward passes, prefill and commit passes included.
    """

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    reveal_step: tuple[int, ...]
    confidence: tuple[float, ...]
    log_probability: tuple[float, ...]
    block_size: int
    temperature: float
    length: int
    nfe: int

    @property
    def block(self) -> tuple[int, ...]:
        """Block number of each position, from 0."""
        return tuple(place // self.block_size for place in range(len(self.tokens)))

    def canvas(self, step: int, mask_token_id: int) -> tuple[int, ...]:
        """Tokens as every block's step number `step` saw them: later commits are masked again."""
        return tuple(
            token if 0 <= revealed < step else mask_token_id
            for token, revealed in zip(self.tokens, self.reveal_step, strict=True)
        )

    def to_json(self) -> dict[str, Any]:
        """A plain dict of lists and numbers."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`. Raises `ModelError` where a field is missing or unknown."""
        if set(data) != set(cls.__slots__):
            odd = ", ".join(sorted(set(data) ^ set(cls.__slots__)))
            raise ModelError(f"This is no trajectory: missing or unknown fields {odd}.")
        fields: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in data.items()
        }
        return cls(**fields)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a decoding call returns, row by row in the order of the prompts.

    tokens: up to and including the end token (or max_new_tokens). trajectories: empty unless
    recorded.
    nfe: forward passes that the row took part in.
    """

    tokens: list[list[int]]
    trajectories: list[Trajectory]
    nfe: list[int]

    @property
    def tpf(self) -> float:
        """Response tokens per forward pass, over all rows."""
        return sum(map(len, self.tokens)) / max(1, sum(self.nfe))


def cut(tokens: Sequence[int], end_token_id: int, limit: int) -> list[int]:
    """Tokens up to and including the first end token, `limit` at most."""
    kept = list(tokens[:limit])
    return kept[: kept.index(end_token_id) + 1] if end_token_id in kept else kept
