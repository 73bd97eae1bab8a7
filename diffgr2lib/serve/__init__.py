"""A trained re-ranker for users and candidates that no list of the world holds."""

from diffgr2lib.serve.reranker import Ranked, Reranker

__all__ = ["Ranked", "Reranker"]
