"""Mid-training rows: labelled items, asked for by label in random order, or ranked by given points.

GR2's first stage aligns the item vocabulary with the language model (GR2, arXiv 2602.07774; item
alignment after OneRec-Think). What a small model needs of it are look-ups: label -> SID, item ->
category and brand, and counting matches in the history. The items are made up for each row, so
nothing can be memorised, and the lengths of history and list vary, so positions give nothing away.
"""

from dataclasses import replace

import numpy as np
import torch
from transformers import PreTrainedTokenizerFast

from diffgr2lib.data.scorecard import THEMES, promote
from diffgr2lib.data.types import Candidate, Catalogue, Example, Item
from diffgr2lib.model.columns import build_columns
from diffgr2lib.model.policy import Policy
from diffgr2lib.text.grammar import LABELS, LEVELS, Grammar
from diffgr2lib.train.rows import Row, collate

SHORT = 4  # half of the rows have at most this many candidates: there the look-up forms first


class DictionaryRows:
    """Draws mid-training rows over a catalogue's codes, categories and brands (compact form).

    candidates: most a row may have. history: most purchases. ranking: share of rows that rank
    by given points, as the end of a trace does. asks: names asked for in any other row.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerFast,
        grammar: Grammar,
        catalogue: Catalogue,
        candidates: int,
        history: int,
        ranking: float = 0.25,
        asks: int = 16,
    ) -> None:
        self.vocabulary = tokenizer.get_vocab()
        self.grammar, self.catalogue = grammar, catalogue
        self.candidates, self.history = candidates, history
        self.ranking, self.asks = ranking, asks

    def draw(self, rng: np.random.Generator, key: str, count: int | None = None) -> Row:
        """One row; `count` fixes the number of candidates (probes use the full list)."""
        most = self.candidates if rng.random() < 0.5 else min(SHORT, self.candidates)
        K = count or int(rng.integers(2, most + 1))
        example = self._example(rng, K)
        if count is None and rng.random() < self.ranking:
            return self._ranked(rng, example, key)
        prompt = self.grammar.prompt(example).split()
        response, weights = [], []
        lines = count is None and rng.random() < 0.5
        for k in self._asked(rng, K, K if lines else self.asks):
            words = self._line(example, k) if lines else self._name(example, k)
            response += words
            weights += [0.0, *[1.0] * (len(words) - 1)]  # which label comes next is chance
        return Row(self._ids(prompt), self._ids(response), weights, f"dictionary {key}")

    def _ranked(self, rng: np.random.Generator, example: Example, key: str) -> Row:
        """Labelled items with random points, then their order and the answer."""
        K = len(example.candidates)
        points = tuple(rng.integers(0, rng.integers(K, 50), K).tolist())
        lines = [
            f"{LABELS[k]} {self.grammar.sid_text(candidate.item.sid)} ={points[k]}"
            for k, candidate in enumerate(example.candidates)
        ]
        order = promote(points)
        response = [
            *self.grammar.trace_parts(example, THEMES[0], points)[-1].split(),
            *replace(self.grammar, trace=False).response(example, order).split(),
        ]
        prompt = self._ids(["candidates", *" ".join(lines).split(), "rank"])
        return Row(prompt, self._ids(response), [1.0] * len(response), f"ranking {key}")

    def _asked(self, rng: np.random.Generator, K: int, asks: int) -> list[int]:
        asked: list[int] = []
        while len(asked) < asks:
            asked += rng.permutation(K).tolist()
        return asked[:asks]

    def _name(self, example: Example, k: int) -> list[str]:
        """Label and SID, whatever the answer shows: the trace cites both."""
        return [LABELS[k], *self.grammar.sid_words(example.candidates[k].item.sid)]

    def _line(self, example: Example, k: int) -> list[str]:
        """The candidate's line of a trace, its points left out."""
        return self.grammar.trace_parts(example, "balanced", ())[k + 1].split()

    def _example(self, rng: np.random.Generator, K: int) -> Example:
        items = [self._item(rng) for _ in range(K)]
        history = []
        for _ in range(int(rng.integers(1, self.history + 1))):
            made, like = self._item(rng), items[int(rng.integers(K))]
            share = rng.random(2) < 0.4
            category = like.category if share[0] else made.category
            brand = like.brand if share[1] else made.brand
            history.append(Item(made.id, made.sid, "", brand, category, -1))
        candidates = tuple(
            Candidate(item, int(s), int(f), int(k), int(p))
            for item, s, f, k, p in zip(
                items, rng.integers(0, 6, K), *rng.integers(0, 4, (3, K)), strict=True
            )
        )
        return Example(0, tuple(history), candidates, -1, "train")

    def _item(self, rng: np.random.Generator) -> Item:
        """Random codes with the category of one catalogue item and the brand of another."""
        sid = tuple(int(rng.integers(codes)) for codes in self.catalogue.sid_levels)
        first, second = (
            self.catalogue.items[i] for i in rng.integers(0, len(self.catalogue.items), 2)
        )
        return Item(1, sid, "", second.brand, first.category, -1)

    def _ids(self, words: list[str]) -> list[int]:
        return [self.vocabulary[word] for word in words]


PROBE_ROWS, PROBE_SEED = 24, 7


@torch.inference_mode()
def lookup_accuracy(policy: Policy, dictionary: DictionaryRows) -> dict[str, float]:
    """Share of SID tokens copied right, by level (`sid_a`, `sid_b`, ..), on fixed full lists."""
    rng = np.random.default_rng(PROBE_SEED)
    rows = [dictionary.draw(rng, "probe", dictionary.candidates) for _ in range(PROBE_ROWS)]
    batch = collate(rows, policy.pad_token_id, policy.eos_token_id, 1)
    batch = batch.part(slice(0, PROBE_ROWS), policy.device)
    columns = build_columns(
        batch.prompt, batch.prompt_mask, batch.response, batch.response_mask, None, 1, "causal"
    )
    logits = policy.forward(
        columns.input_ids, columns.position_ids, columns.attention, columns=columns.clean_from
    )
    right = (logits.argmax(-1) == batch.response).double()  # [N, asks * (1 + levels)]
    width = 1 + len(dictionary.catalogue.sid_levels)
    by_place = right.view(len(rows), -1, width).mean((0, 1))
    return {f"sid_{LEVELS[level]}": float(by_place[level + 1]) for level in range(width - 1)}
