"""Item alignment for a language model that knows words but no semantic ids (the full form).

GR2's first stage (arXiv 2602.07774, after OneRec-Think) interleaves semantic ids with titles and
categories, so that the new tokens mean something. Here each row asks one of the two for the other.
"""

import numpy as np
from transformers import PreTrainedTokenizerFast

from diffgr2lib.data.types import Catalogue
from diffgr2lib.text.grammar import Grammar
from diffgr2lib.train.rows import Row

NAME, DESCRIBE = "Which item is this? ", "Describe the item "


class AlignmentRows:
    """Draws rows `semantic id -> title, category, brand` and the other way round."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, grammar: Grammar, catalogue: Catalogue
    ) -> None:
        self.tokenizer, self.grammar, self.catalogue = tokenizer, grammar, catalogue

    def draw(self, rng: np.random.Generator, key: str) -> Row:
        """One row about one item of the catalogue, through the chat template."""
        item = self.catalogue.items[int(rng.integers(len(self.catalogue.items)))]
        name = self.grammar.sid_text(item.sid)
        text = self.grammar.described(item).removeprefix(name).strip()
        asked, answer = (NAME + text, name) if rng.random() < 0.5 else (DESCRIBE + name, text)
        prompt = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": asked}], tokenize=False, add_generation_prompt=True
        )
        response = [*self._ids(answer), self._end()]
        return Row(self._ids(str(prompt)), response, [1.0] * len(response), f"item {item.id} {key}")

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _end(self) -> int:
        end = self.tokenizer.eos_token_id
        assert isinstance(end, int)
        return end
