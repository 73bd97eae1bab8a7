"""The toy world: a generated shop whose users' tastes are known, so that the best answer is too.

A user is brand-loyal, category-focused or follow-up (buys what goes with the last purchase:
shampoo, then conditioner), and has a favourite brand, category and price tier. The next item is
drawn from a softmax over all items not yet bought: popularity plus the kind's `TASTE` for each
feature that the item has. The tastes can be enumerated: `Oracle` knows P(next | history) exactly.
Items and users are drawn before anything looks at candidate lists.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from diffgr2lib.config import DataConfig
from diffgr2lib.data.semantic_ids import make_unique, residual_codes
from diffgr2lib.data.types import Catalogue, Dataset, Example, Item

CATEGORIES = (
    "Shampoo Conditioner Hair-Mask Hair-Oil Cleanser Toner Serum Moisturizer Primer Foundation"
    " Concealer Powder Mascara Eyeliner Lipstick Nail-Polish"
).split()
BRANDS = (
    "Alba Bryn Calla Dova Elan Fior Gaia Halo Iris Juno Kora Lumi Mira Nolo Oria Pura Quil Rhea"
    " Sana Tavi Ursa Vela Wren Zora"
).split()
PRICES = 4
KINDS = ("brand-loyal", "category-focused", "follow-up")
KIND_SHARES = np.array([0.35, 0.25, 0.4])
# nats for a match of brand, category, complement, price: one row a kind
TASTE = np.array([[5.0, 0.0, 0.0, 4.0], [0.0, 5.0, 0.0, 4.0], [0.0, 0.0, 5.5, 4.0]])
POPULARITY_SPREAD = 0.4  # standard deviation of an item's popularity, in nats
SHORTEST, LONGEST = 5, 9  # purchases; all but the last fit into a prompt that shows 8
START = len(CATEGORIES)  # stands for the last category before the first purchase
VECTOR = 16  # dimensions of the item vectors that the semantic ids are made from


@dataclass(frozen=True, slots=True)
class Shop:
    """Items as arrays [items]: brand, category, price (indices), popularity (nats); and follows
    [categories + 1]: the category that goes with each, none (-1) at the START."""

    brand: np.ndarray
    category: np.ndarray
    price: np.ndarray
    popularity: np.ndarray
    follows: np.ndarray


@dataclass(frozen=True, slots=True)
class Tastes:
    """Latent tastes as index arrays [T]: kind, favourite brand, category and price tier."""

    kind: np.ndarray
    brand: np.ndarray
    category: np.ndarray
    price: np.ndarray

    def utility(self, shop: Shop, items: np.ndarray, last: np.ndarray | int) -> np.ndarray:
        """Nats [T, n] of items (indices [n]) after a purchase of category `last` ([T, 1] or 1)."""
        weight = TASTE[self.kind].T[..., None]  # [4, T, 1]
        return (
            shop.popularity[items]
            + weight[0] * (shop.brand[items] == self.brand[:, None])
            + weight[1] * (shop.category[items] == self.category[:, None])
            + weight[2] * (shop.category[items] == shop.follows[last])
            + weight[3] * (shop.price[items] == self.price[:, None])
        )


class Oracle:
    """Exact probabilities of the next purchase, by enumeration of all tastes."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        sizes = (len(KINDS), len(BRANDS), len(CATEGORIES), PRICES)
        self.tastes = Tastes(*(axis.ravel() for axis in np.indices(sizes)))
        self.items = np.arange(len(shop.brand))
        self.log_prior = np.log(KIND_SHARES / np.prod(sizes[1:]))[self.tastes.kind]
        self.total = [  # sums of exp utility [T] over all items, by the last category
            np.exp(self.tastes.utility(shop, self.items, last)).sum(1) for last in range(START + 1)
        ]

    def _log_p(self, bought: np.ndarray, last: int, items: np.ndarray) -> np.ndarray:
        """log P(items [n] | taste, item indices bought so far) [T, n]."""
        utility = self.tastes.utility(self.shop, np.concatenate([bought, items]), last)
        gone = np.exp(utility[:, : len(bought)]).sum(1)
        return utility[:, len(bought) :] - np.log(self.total[last] - gone)[:, None]

    def log_posterior(self, history: Sequence[int]) -> np.ndarray:
        """Log posterior [T] of the tastes after a whole history (item ids, oldest first)."""
        bought = np.asarray(history, dtype=np.int64) - 1
        log_p, last = self.log_prior.copy(), START
        for n, item in enumerate(bought):
            log_p += self._log_p(bought[:n], last, bought[n : n + 1])[:, 0]
            last = int(self.shop.category[item])
        return log_p - logsumexp(log_p)

    def log_probs(self, history: Sequence[int], items: Sequence[int] | None = None) -> np.ndarray:
        """log P(next item | history) of item ids, by default of all; -inf for those bought."""
        bought = np.asarray(history, dtype=np.int64) - 1
        asked = self.items if items is None else np.asarray(items, dtype=np.int64) - 1
        last = int(self.shop.category[bought[-1]]) if len(bought) else START
        log_p = self._log_p(bought, last, asked) + self.log_posterior(history)[:, None]
        return np.where(np.isin(asked, bought), -np.inf, logsumexp(log_p, axis=0))

    def recall_at_1(self, examples: Sequence[Example]) -> float:
        """Recall@1 of the most probable candidate: no re-ranker can expect more.

        The examples must show whole histories.
        """
        right = [
            int(
                self.log_probs(
                    [i.id for i in e.history], [c.item.id for c in e.candidates]
                ).argmax()
            )
            == e.target
            for e in examples
        ]
        return float(np.mean(right))


@dataclass(frozen=True, slots=True)
class ToyWorld:
    """A generated dataset and what only its maker can know."""

    dataset: Dataset
    oracle: Oracle


def make_toy(config: DataConfig) -> ToyWorld:
    """Generate `config.items` items and `config.users` users; deterministic in `config.seed`."""
    rng = np.random.default_rng((config.seed, 0))
    shop = make_shop(config.items, rng)
    catalogue = make_catalogue(shop, config, rng)
    users = config.users
    kinds = rng.choice(len(KINDS), users, p=KIND_SHARES)
    sizes = (len(BRANDS), len(CATEGORIES), PRICES)
    tastes = Tastes(kinds, *(rng.integers(size, size=users) for size in sizes))
    lengths = rng.integers(SHORTEST, LONGEST + 1, users)
    items, everyone = np.arange(config.items), np.arange(users)
    last, gone = np.full((users, 1), START), np.zeros((users, config.items))
    drawn = np.empty((users, LONGEST), dtype=np.int64)
    for step in range(LONGEST):
        gumbel = rng.gumbel(
            size=(users, config.items)
        )  # argmax of utility + Gumbel samples a softmax
        chosen = (tastes.utility(shop, items, last) + gone + gumbel).argmax(1)
        gone[everyone, chosen] = -np.inf
        drawn[:, step], last = chosen + 1, shop.category[chosen][:, None]
    sequences = {
        user + 1: tuple(int(item) for item in drawn[user, : lengths[user]]) for user in range(users)
    }
    return ToyWorld(Dataset("toy", catalogue, sequences), Oracle(shop))


def make_shop(items: int, rng: np.random.Generator) -> Shop:
    """Every brand and category equally often, in random pairs; complements form one cycle."""
    cycle = rng.permutation(len(CATEGORIES))
    follows = np.full(len(CATEGORIES) + 1, -1)
    follows[cycle] = np.roll(cycle, -1)
    return Shop(
        brand=rng.permutation(np.arange(items) % len(BRANDS)),
        category=rng.permutation(np.arange(items) % len(CATEGORIES)),
        price=rng.integers(PRICES, size=items),
        popularity=POPULARITY_SPREAD * rng.standard_normal(items),
        follows=follows,
    )


def make_catalogue(shop: Shop, config: DataConfig, rng: np.random.Generator) -> Catalogue:
    """Items with titles and semantic ids: residual k-means of category + brand + price + noise."""
    category, brand = (rng.standard_normal((n, VECTOR)) for n in (len(CATEGORIES), len(BRANDS)))
    price = rng.standard_normal(VECTOR)
    vectors = 2 * category[shop.category] + brand[shop.brand] + 0.3 * np.outer(shop.price, price)
    vectors += 0.3 * rng.standard_normal(vectors.shape)
    codes = residual_codes(vectors, config.sid_levels, config.codes, config.seed)
    sids, _ = make_unique(codes, config.codes)
    items = tuple(
        Item(
            n + 1, sids[n], f"{BRANDS[b]} {CATEGORIES[c]} {n + 1}", BRANDS[b], CATEGORIES[c], int(p)
        )
        for n, (b, c, p) in enumerate(zip(shop.brand, shop.category, shop.price, strict=True))
    )
    return Catalogue(items, (config.codes,) * config.sid_levels)
