"""Decode a policy over a list of examples and judge every answer."""

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from tqdm import tqdm

from diffgr2lib import processes
from diffgr2lib.config import DecodeConfig
from diffgr2lib.data.types import Example
from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.constrain import AnswerGrammar, CandidateTable
from diffgr2lib.decode.prepare import pad_left
from diffgr2lib.decode.remask import decode_again
from diffgr2lib.model.policy import Policy
from diffgr2lib.text.grammar import CLOSE, FAILURES, LABELS, MISSING, NEXT, OPEN, START, Grammar
from diffgr2lib.train.rows import encode_prompt


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Per-user results, in the order of the examples.

    ranks: 1-based rank of the true item, the retriever's where the answer is invalid.
    floor_ranks: the retriever's. failures: for each user the failure types, empty when valid.
    nfe: forward passes. lengths: response tokens up to and including the end token. texts: the
    responses. seconds: wall time.
    """

    users: list[int]
    ranks: list[int]
    floor_ranks: list[int]
    failures: list[list[str]]
    nfe: list[int]
    lengths: list[int]
    texts: list[str]
    seconds: float

    @property
    def valid(self) -> np.ndarray:
        """Float [N], 1 where the answer is a permutation of the candidates."""
        return np.array([not failed for failed in self.failures], dtype=float)

    @property
    def tpf(self) -> float:
        """Response tokens per forward pass over all users."""
        return sum(self.lengths) / max(1, sum(self.nfe))

    def failed(self, kind: str) -> np.ndarray:
        """Float [N], 1 where the answer has this failure type."""
        if kind not in FAILURES:
            raise ValueError(f"{kind!r} is no failure type; they are {', '.join(FAILURES)}.")
        return np.array([kind in failed for failed in self.failures], dtype=float)

    def write(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        """Inverse of `write`."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def evaluate(
    policy: Policy,
    grammar: Grammar,
    examples: list[Example],
    config: DecodeConfig,
    batch: int,
    title: str,
    seed: int = 0,
) -> Evaluation:
    """Decode and judge. A policy with block_size 1 goes through the AR loop, others through blocks.

    Examples are decoded in batches of like length; a row's result does not depend on its batch.
    Of several processes each decodes its share of the batches, and all return everything.
    """
    tokenizer = policy.tokenizer
    assert tokenizer is not None
    prompts = [encode_prompt(tokenizer, grammar, example) for example in examples]
    order = sorted(range(len(examples)), key=lambda n: len(prompts[n]))
    found: dict[int, tuple[int, list[str], int, int, str]] = {}
    began = time.perf_counter()
    batches = [order[first : first + batch] for first in range(0, len(order), batch)]
    share = [batches[n] for n in processes.mine(len(batches))]
    bar = tqdm(
        total=sum(map(len, share)), desc=title, mininterval=15, delay=5,
        disable=not processes.is_main(),
    )  # fmt: skip
    for chosen in share:
        prompt, mask = pad_left([prompts[n] for n in chosen], policy.pad_token_id)
        generators = None
        if config.temperature > 0:
            generators = [torch.Generator().manual_seed(seed * 1_000_003 + n) for n in chosen]
        if policy.block_size == 1:
            decoded = decode_ar(policy, prompt, mask, config, generators, record=False)
        else:
            table = None
            if config.distinct or config.constrained:
                table = candidate_table(policy, grammar, [examples[n] for n in chosen])
            decoded = decode_blocks(policy, prompt, mask, config, generators, False, table)
            if config.remask_once:
                asked = [examples[n] for n in chosen]
                blocks = faulty_blocks(policy, grammar, asked, decoded.tokens)
                decoded = decode_again(
                    policy, prompt, mask, config, decoded, blocks, generators, table
                )
        for n, tokens, nfe in zip(chosen, decoded.tokens, decoded.nfe, strict=True):
            text = response_text(policy, tokens)
            parsed = grammar.parse(text, examples[n])
            ranking = parsed.ranking(len(examples[n].candidates))
            rank = ranking.index(examples[n].target) + 1
            found[n] = (rank, sorted(parsed.failures), nfe, len(tokens), text)
        bar.update(len(chosen))
    bar.close()
    found = dict(processes.gathered(list(found.items())))
    seconds = time.perf_counter() - began
    judged = [found[n] for n in range(len(examples))]
    return Evaluation(
        users=[example.user for example in examples],
        ranks=[one[0] for one in judged],
        floor_ranks=[example.target + 1 for example in examples],
        failures=[one[1] for one in judged],
        nfe=[one[2] for one in judged],
        lengths=[one[3] for one in judged],
        texts=[one[4] for one in judged],
        seconds=seconds,
    )


def response_text(policy: Policy, tokens: list[int]) -> str:
    """The response's text without its end token; unknown or special tokens stay visible."""
    assert policy.tokenizer is not None
    kept = tokens[:-1] if tokens and tokens[-1] == policy.eos_token_id else tokens
    return str(policy.tokenizer.decode(kept, skip_special_tokens=False))


def faulty_blocks(
    policy: Policy, grammar: Grammar, examples: list[Example], answers: list[list[int]]
) -> list[int | None]:
    """Where each invalid answer begins: its block, the last one where none does; None: valid."""
    B = policy.block_size
    found: list[int | None] = []
    for example, tokens in zip(examples, answers, strict=True):
        if not grammar.parse(response_text(policy, tokens), example).failures:
            found.append(None)
            continue
        ends = range(B, len(tokens), B)
        texts = (response_text(policy, tokens[:end]) for end in ends)
        found.append(next((n for n, text in enumerate(texts) if START in text), len(ends)))
    return found


def candidate_table(policy: Policy, grammar: Grammar, examples: list[Example]) -> CandidateTable:
    """Token ids of the compact answer for `distinct` and `constrained` decoding."""
    from diffgr2lib.data.scorecard import THEMES

    assert policy.tokenizer is not None
    ids: dict[str, Any] = policy.tokenizer.get_vocab()
    themes = (*THEMES, MISSING)
    answer = AnswerGrammar(
        header=((ids[START],), tuple(ids[theme] for theme in themes), (ids[OPEN],)),
        separator=ids[NEXT],
        close=ids[CLOSE],
        end=policy.eos_token_id,
    )
    K = len(examples[0].candidates)
    labels = [[ids[label] for label in LABELS[:K]] for _ in examples]
    with_sid = grammar.answer == "sid"
    sids = [
        [[ids[w] for w in grammar.sid_words(c.item.sid)] if with_sid else [] for c in e.candidates]
        for e in examples
    ]
    return CandidateTable(torch.tensor(labels), torch.tensor(sids, dtype=torch.long), answer)
