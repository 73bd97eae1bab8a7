"""Text: the one grammar of prompts and responses, and the small tokenizer trained on it."""

from diffgr2lib.text.grammar import Grammar, Parsed

__all__ = ["Grammar", "Parsed"]
