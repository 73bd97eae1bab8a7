"""Still pictures are drawn for any token, without a warning."""

import warnings

import numpy as np
import pytest
from matplotlib import pyplot as plt

from diffgr2lib.decode.block import decode_blocks
from diffgr2lib.report.alternatives import alternatives
from diffgr2lib.report.denoising import canvas_figure, drawable, heatmap, replay_error, tpf_by_block
from diffgr2lib.report.lane import make_lane
from tests.tiny import ragged_prompts, settings
from tests.viewer.samples import hostile


@pytest.mark.parametrize("colour", ["step", "confidence", "agreement"])
def test_a_canvas_of_hostile_tokens_is_drawn_without_a_warning(colour):
    lane = make_lane("x", *hostile())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in (0, 7, lane.clock.steps):
            figure = canvas_figure(lane, step, colour, "<b> $x$")
            figure.canvas.draw()
            plt.close(figure)


def test_long_and_unknown_words_are_shortened_and_spelt():
    assert drawable("😀") == "U+1F600" and len(drawable("x" * 99)) == 11


def test_the_heatmap_holds_every_masked_confidence(make_policy):
    policy = make_policy(4)
    one = decode_blocks(policy, *ragged_prompts(), settings(tau=0.4)).trajectories[0]
    found = alternatives(policy, one)
    assert replay_error(one, found) < 2e-5
    figure = heatmap(one, found)
    image = figure.axes[0].images[1].get_array().filled(np.nan)
    assert image.shape[1] == len(one.tokens)
    assert np.isfinite(image).sum() == np.isfinite(found.confidence).sum()
    plt.close(figure)
    plt.close(tpf_by_block({"a": one, "b": one}))
