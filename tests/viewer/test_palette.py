"""Text contrast is at least 4.5:1 on every colour of both themes (WCAG 2.1, 1.4.3)."""

import pytest

from diffgr2lib.report import palette


def luminance(colour):
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


THEMES = {
    "light": (palette.LIGHT, palette.STEPS + palette.CONFIDENCE + palette.AGREEMENT),
    "dark": (palette.DARK, palette.STEPS_DARK + palette.CONFIDENCE_DARK + palette.AGREEMENT_DARK),
}


@pytest.mark.parametrize("theme", THEMES)
def test_text_is_legible_on_every_ground(theme):
    named, cells = THEMES[theme]
    grounds = [named[name] for name in ("paper", "raised", "trough", "good", "poor")]
    assert all(contrast(named["ink"], ground) >= 4.5 for ground in (*grounds, *cells))
    assert all(
        contrast(named["soft"], named[name]) >= 4.5 for name in ("paper", "raised", "trough")
    )
    assert all(contrast(named[name], named["paper"]) >= 3 for name in ("edge", "accent", "warn"))


def test_both_themes_have_the_same_names_and_bins():
    assert set(palette.LIGHT) == set(palette.DARK)
    assert all(f"--{name}:" in palette.style_sheet() for name in palette.LIGHT)
