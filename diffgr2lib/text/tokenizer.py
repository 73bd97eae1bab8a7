"""A word-level tokenizer for the compact form, trained with `tokenizers` on the grammar's words."""

from collections.abc import Iterable

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from diffgr2lib.data.evidence import EVIDENCE_LEVELS
from diffgr2lib.data.scorecard import MAX_POINTS, THEMES
from diffgr2lib.data.types import Catalogue
from diffgr2lib.text.grammar import CLOSE, LABELS, LEVELS, MISSING, NEXT, OPEN, START, Grammar

PAD, END, MASK, UNKNOWN = "<pad>", "<end>", "<mask>", "<unk>"


def train_tokenizer(catalogue: Catalogue, grammar: Grammar) -> PreTrainedTokenizerFast:
    """One token a word: grammar, labels, every SID code, categories, brands, evidence and points.

    The vocabulary is closed: any prompt or response rendered in the compact form over this
    catalogue encodes without `<unk>` and decodes to the same string.
    """
    tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words = sorted(set(_words(catalogue, grammar)))
    trainer = trainers.WordLevelTrainer(
        vocab_size=len(words) + 4,
        special_tokens=[PAD, END, MASK, UNKNOWN],
        show_progress=False,
    )
    tokenizer.train_from_iterator(words, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        mask_token=MASK,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
    )


def _words(catalogue: Catalogue, grammar: Grammar) -> Iterable[str]:
    yield from (
        "history",
        "candidates",
        "rank",
        "theme",
        "best",
        START,
        OPEN,
        NEXT,
        CLOSE,
        MISSING,
    )
    yield from THEMES
    yield from LABELS
    yield from (f"={value}" for value in range(MAX_POINTS + 1))
    for prefix, column in zip(
        "sfkpnm",
        ("score", "follow", "complement", "popularity", "category_count", "brand_count"),
        strict=True,
    ):
        yield from (f"{prefix}{level}" for level in range(EVIDENCE_LEVELS[column]))
    for level, codes in enumerate(catalogue.sid_levels):
        yield from (f"<{LEVELS[level]}_{code}>" for code in range(codes))
    for item in catalogue.items:
        yield from grammar.item_words(item)[len(item.sid) :]
