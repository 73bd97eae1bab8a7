import numpy as np
import pytest

from diffgr2lib.data.semantic_ids import make_unique, residual_codes
from diffgr2lib.errors import DataError


def test_codes_separate_clusters_at_the_first_level_and_repeat():
    rng = np.random.default_rng(0)
    centre = np.repeat(np.eye(4) * 10, 10, axis=0)
    vectors = centre + 0.1 * rng.standard_normal(centre.shape)
    codes = residual_codes(vectors, levels=2, codes=4, seed=3)
    first = [code[0] for code in codes]
    assert [len(set(first[n : n + 10])) for n in range(0, 40, 10)] == [1, 1, 1, 1]
    assert len(set(first)) == 4
    assert codes == residual_codes(vectors, levels=2, codes=4, seed=3)


def test_fewer_distinct_vectors_than_codes():
    codes = residual_codes(np.repeat(np.eye(2), 3, axis=0), levels=2, codes=8, seed=0)
    assert len(set(codes)) == 2


def test_later_holder_moves_to_the_nearest_free_code():
    sids = [(1, 5), (1, 5), (1, 4), (2, 5), (1, 5)]
    unique, moved = make_unique(sids, codes=8)
    assert unique == [(1, 5), (1, 6), (1, 4), (2, 5), (1, 3)]
    assert moved == 2


def test_full_prefix_is_refused():
    with pytest.raises(DataError, match="more codes"):
        make_unique([(0, 0), (0, 1), (0, 0)], codes=2)
