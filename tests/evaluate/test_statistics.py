"""Claim 30: the paired bootstrap covers the true difference in about 95 % of simulated data sets."""

import numpy as np
import pytest
from scipy import stats

from diffgr2lib.evaluate import statistics
from diffgr2lib.evaluate.statistics import (
    detectable,
    difference,
    holm,
    mean_estimate,
    p_value,
    share_recovered,
)


def test_claim_30_coverage_is_about_95_percent():
    rng = np.random.default_rng(0)
    covered, runs, truth = 0, 400, 0.05
    for run in range(runs):
        ease = rng.random(300)
        noise = rng.random((2, 300))
        b = (noise[0] < 0.2 + 0.5 * ease).astype(float)
        a = (noise[1] < 0.25 + 0.5 * ease).astype(float)
        found = difference(a, b, draws=400, seed=run)
        covered += found.low <= truth <= found.high
    assert 0.92 <= covered / runs <= 0.98


def test_the_interval_equals_scipys_paired_bootstrap():
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 80))
    ours = difference(a, b, draws=20000)
    theirs = stats.bootstrap(
        (a, b),
        lambda x, y, axis=-1: x.mean(axis) - y.mean(axis),
        paired=True,
        vectorized=True,
        n_resamples=20000,
        method="percentile",
        rng=np.random.default_rng(2),
    ).confidence_interval
    assert ours.low == pytest.approx(theirs.low, abs=0.004)
    assert ours.high == pytest.approx(theirs.high, abs=0.004)


def test_pairing_narrows_the_interval():
    rng = np.random.default_rng(3)
    b = rng.random(500)
    paired = difference(b + 0.01 * rng.random(500), b)
    unpaired = mean_estimate(b)
    assert paired.high - paired.low < (unpaired.high - unpaired.low) / 10


def test_seeds_are_resampled_too():
    users = np.random.default_rng(4).random(400)
    same = mean_estimate(np.stack([users, users, users]))
    far = mean_estimate(np.stack([users - 0.3, users, users + 0.3]))
    assert far.seeds == 3 and far.high - far.low > 3 * (same.high - same.low)
    assert far.value == pytest.approx(same.value)


def test_share_recovered():
    floor, ar = np.zeros(200), np.ones(200)
    half = np.tile([0.0, 1.0], 100)
    found = share_recovered(floor, ar, half)
    assert found.value == 0.5 and found.low < 0.5 < found.high
    assert share_recovered(floor, ar, ar).value == 1.0
    assert np.isnan(share_recovered(ar, ar, half).value)


def test_claim_30_coverage_holds_for_the_share_and_over_seeds():
    rng = np.random.default_rng(5)
    share, mean, runs = 0, 0, 300
    for run in range(runs):
        user, seed = rng.normal(size=(1, 150)), rng.normal(size=(12, 1))
        floor = 0.3 + 0.2 * user + 0.1 * rng.normal(size=(1, 150))
        ar = 0.5 + 0.2 * user + 0.1 * rng.normal(size=(12, 150))
        own = 0.46 + 0.2 * user + 0.02 * seed + 0.1 * rng.normal(size=(12, 150))
        found = share_recovered(floor, ar, own, draws=400, seed=run)
        share += found.low <= 0.8 <= found.high
        found = mean_estimate(own, draws=400, seed=run)
        mean += found.low <= 0.46 <= found.high
    assert 0.9 <= share / runs <= 0.985 and 0.9 <= mean / runs <= 0.985


def test_a_share_of_no_certain_gain_has_no_interval():
    rng = np.random.default_rng(6)
    floor, ar = (rng.random((2, 100)) < 0.5).astype(float)
    found = share_recovered(np.minimum(floor, ar), np.maximum(floor, ar), ar)
    assert np.isfinite(found.low)
    found = share_recovered(floor, floor + rng.normal(0.001, 1, 100), ar)
    assert np.isnan(found.low) and np.isnan(found.high)


def test_memory_chunks_change_nothing(monkeypatch):
    users = np.random.default_rng(7).random((2, 90))
    whole = mean_estimate(users)
    monkeypatch.setattr(statistics, "CHUNK", 1000)
    chunked, other = mean_estimate(users), mean_estimate(users, seed=1)
    for name in ("value", "low", "high"):  # a matrix product may round otherwise by its shape
        assert getattr(chunked, name) == pytest.approx(getattr(whole, name), rel=1e-12, abs=0)
    assert abs(other.low - whole.low) > 1e-6


def test_no_users_are_refused():
    with pytest.raises(ValueError, match="no users"):
        mean_estimate(np.zeros((3, 0)))


def test_unequal_users_are_refused():
    with pytest.raises(ValueError, match="same users"):
        difference(np.zeros(3), np.zeros(4))


def test_holm_by_hand_and_its_bounds():
    p = np.array([0.01, 0.04, 0.03, 0.005])
    assert holm(p) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1, 1])
    rng = np.random.default_rng(5)
    many = rng.random(50)
    adjusted = holm(many)
    assert bool((adjusted >= many).all() and (adjusted <= np.minimum(1, 50 * many) + 1e-12).all())
    assert bool((np.diff(adjusted[np.argsort(many)]) >= 0).all())


def test_holm_holds_the_family_wise_error_where_nothing_differs():
    rng = np.random.default_rng(6)
    alarms = sum(bool((holm(rng.random(20)) < 0.05).any()) for _ in range(2000))
    assert alarms / 2000 < 0.07


def test_p_is_level_where_nothing_differs_and_agrees_with_the_interval():
    rng = np.random.default_rng(7)
    below = 0
    for run in range(200):
        a, b = rng.normal(size=(2, 120))
        p, found = p_value(a, b, draws=1000, seed=run), difference(a, b, draws=1000, seed=run)
        below += p < 0.05
        if not 0.04 < p < 0.06:
            assert (p < 0.05) == (found.low > 0 or found.high < 0)
    assert 2 <= below <= 24
    assert p_value(b + 1, b, draws=1000) == pytest.approx(2 / 1001)
    assert p_value(b, b, draws=1000) == 1


def test_what_is_called_detectable_is_detected_four_times_in_five():
    rng = np.random.default_rng(8)
    size = detectable(*rng.normal(size=(2, 4000))) * np.sqrt(4000 / 150)
    hits = 0
    for run in range(300):
        a, b = rng.normal(size=(2, 150))
        found = difference(a + size, b, draws=300, seed=run)
        hits += found.low > 0
    assert 0.72 <= hits / 300 <= 0.88
