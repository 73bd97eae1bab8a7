"""Diffusion-GR2's research kit: an autoregressive re-ranker converted to block diffusion.

Words: a *block* is B consecutive response positions; a *canvas* the active block, part masked; to
*commit* is to fix a masked position's token; *context* the clean columns a canvas sees (`block`
or `causal`); the *shift*: the hidden state at t-1 scores token t; *reveal step*: when a position
was committed; *NFE*: forward passes; *TPF*: response tokens per forward pass; *ladder*: floor, AR,
naive, CFT; *floor*: the retriever's order.

Folders follow the flow: data -> text -> model -> decode -> train -> evaluate -> report; `stages`
ties them to artifacts, `run` to notebooks, `reproduce` to papermill.
"""

import os

# PyTorch's OpenMP threads spin while they wait; on a machine that does anything else beside, that
# made a training step seven times slower. It must be set before torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__version__ = "0.1.0"
