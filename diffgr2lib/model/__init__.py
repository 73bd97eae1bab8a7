"""The policy, its attention masks, its training columns and its key/value cache."""

from diffgr2lib.model.checkpoint import load, load_checkpoint, save
from diffgr2lib.model.columns import Columns, build_columns
from diffgr2lib.model.policy import Policy, Scorer, build_policy, convert

__all__ = [
    "Columns",
    "Policy",
    "Scorer",
    "build_columns",
    "build_policy",
    "convert",
    "load",
    "load_checkpoint",
    "save",
]
