"""Decoding: block-diffusion and autoregressive loops, commit rules, filters, trajectories."""

from diffgr2lib.decode.ar import decode_ar
from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.decode.constrain import AnswerGrammar, CandidateTable
from diffgr2lib.decode.remask import decode_again
from diffgr2lib.decode.speculative import decode_speculative
from diffgr2lib.decode.trajectory import Decoded, Trajectory

__all__ = [
    "AnswerGrammar",
    "CandidateTable",
    "Decoded",
    "Trajectory",
    "decode_again",
    "decode_ar",
    "decode_blocks",
    "decode_speculative",
]
