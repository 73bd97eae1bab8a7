"""Explore: change a prompt or the decoding, decode now, and see the ranking move."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from diffgr2lib.config import DecodeConfig
from diffgr2lib.data.types import Example
from diffgr2lib.errors import ConfigError, KitError
from diffgr2lib.model.policy import Policy
from diffgr2lib.report.live import trajectories
from diffgr2lib.report.viewer import TrajectoryViewer
from diffgr2lib.text.grammar import LABELS, Grammar


def parse_order(text: str, count: int) -> tuple[int, ...]:
    """``"C A B"`` to (2, 0, 1). Raises `ConfigError` unless each of count labels is there once."""
    allowed = LABELS[:count]
    names = [name for name in re.split(r"[\s,;]+", text.strip().upper()) if name]
    if len(names) == 1 and len(names[0]) == count:
        names = list(names[0])
    for name in names:
        if len(name) != 1 or name not in allowed:
            raise ConfigError(f"{name!r} is no candidate; name each of A to {allowed[-1]} once.")
        if names.count(name) > 1:
            raise ConfigError(
                f"The order names {name} more than once; name each of A to {allowed[-1]} once."
            )
    missing = [name for name in allowed if name not in names]
    if missing:
        raise ConfigError(
            f"The order leaves out {', '.join(missing)}; name all of A to {allowed[-1]}."
        )
    return tuple(allowed.index(name) for name in names)


def reorder(example: Example, order: Sequence[int]) -> Example:
    """The same example with its candidates (and so their labels) in another order."""
    target = list(order).index(example.target) if example.target >= 0 else -1
    return replace(example, candidates=tuple(example.candidates[k] for k in order), target=target)


def number(text: Any, name: str, low: float, high: float, whole: bool = False) -> float:
    """A number within bounds. Raises `ConfigError` that says which are allowed."""
    kind = "a whole number" if whole else "a number"
    try:
        value = float(str(text).strip())
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give {kind} from {low:g} to {high:g}.") from None
    if not low <= value <= high or (whole and value != int(value)):
        raise ConfigError(f"{name} is {text}; give {kind} from {low:g} to {high:g}.")
    return value


class Explorer:
    """Decoding with controls, for a live kernel; the result is an ordinary viewer.

    policies: system name -> a function that loads it (called once, when first chosen). ar: the name
    of the one to compare with, "" for none. Every wrong value gives a sentence.
    """

    def __init__(
        self,
        policies: Mapping[str, Callable[[], Policy]],
        examples: Sequence[Example],
        grammar: Grammar,
        decode: DecodeConfig,
        ar: str = "",
    ) -> None:
        self.examples, self.grammar, self.config, self.ar = examples, grammar, decode, ar
        self.loaders, self._policies = dict(policies), dict[str, Policy]()
        self.message = ""
        self.viewer: TrajectoryViewer | None = None

    def policy(self, system: str) -> Policy:
        """A system's policy. Raises `ConfigError` for a name that is not offered."""
        if system not in self.loaders:
            raise ConfigError(f"There is no system {system!r}; choose {', '.join(self.loaders)}.")
        if system not in self._policies:
            self._policies[system] = self.loaders[system]()
        return self._policies[system]

    def decode(
        self, system: str, user: Any = 1, order: str = "", tau: Any = "", block_size: Any = ""
    ) -> TrajectoryViewer:
        """Decode one prompt now; "" keeps the list's order, the preset's tau, the model's blocks.

        user: 1 to the number of examples. Raises `ConfigError` (or the decoder's `ModelError`).
        """
        policy = self.policy(system)
        place = int(number(user, "user", 1, len(self.examples), whole=True))
        example = self.examples[place - 1]
        if order.strip():
            example = reorder(example, parse_order(order, len(example.candidates)))
        config = self.config
        if str(tau).strip():
            config = replace(config, tau=number(tau, "tau", 0, 1))
        if str(block_size).strip() and policy.block_size > 1:
            size = int(number(block_size, "block size", 2, 64, whole=True))
            policy = replace(policy, block_size=size)
        made = trajectories(policy, self.grammar, [example], config)[0]
        other = None
        if self.ar and self.ar != system:
            other = trajectories(self.policy(self.ar), self.grammar, [example], config)[0]
        title = f"User {example.user}, {system}, tau {config.tau:g}, blocks of {policy.block_size}"
        return TrajectoryViewer(
            made, policy, example, other, self.grammar, name=system, ar_name=self.ar or "AR",
            title=title, log=False,
        )  # fmt: skip

    def attempt(self, **values: Any) -> bool:
        """`decode` into `viewer`; False where a value was wrong, with the sentence in `message`."""
        try:
            self.viewer = self.decode(**values)
        except KitError as error:
            self.message = str(error)
            return False
        self.message = ""
        return True

    def show(self, system: str) -> None:
        """Display the controls, and below them the viewer, which Decode replaces.

        Without ipywidgets, or without a front end, the first result stands there all the same.
        """
        from IPython.display import display

        self.attempt(system=system)
        controls = self._controls(system)
        if controls is not None:
            display(controls["box"])
        shown = display(self.viewer, display_id=True)
        if controls is None or shown is None:
            return

        def decode(button: Any = None) -> None:
            values = {
                name: controls[name].value
                for name in ("system", "user", "order", "tau", "block_size")
            }
            controls["button"].disabled = True
            done = self.attempt(**values)
            controls["button"].disabled = False
            controls["said"].value = alert(self.message)
            if done:
                shown.update(self.viewer)

        controls["button"].on_click(decode)

    def _controls(self, system: str) -> dict[str, Any] | None:
        try:
            import ipywidgets as widgets
        except ModuleNotFoundError:
            return None
        K, wide = len(self.examples[0].candidates), {"description_width": "initial"}
        made: dict[str, Any] = {
            "system": widgets.Dropdown(
                options=list(self.loaders), value=system, description="system", style=wide
            ),
            "user": widgets.Text("1", description=f"user (1 to {len(self.examples)})", style=wide),
            "order": widgets.Text(
                "", description="order", placeholder=" ".join(LABELS[:K]), style=wide
            ),
            "tau": widgets.Text(
                "", description="tau", placeholder=f"{self.config.tau:g}", style=wide
            ),
            "block_size": widgets.Text(
                "", description="block size", placeholder="the model's", style=wide
            ),
            "button": widgets.Button(description="Decode", button_style="primary"),
            "said": widgets.HTML(alert("")),
        }
        row = widgets.Layout(flex_flow="row wrap", display="flex")
        for name, width in (
            ("system", "200px"),
            ("user", "170px"),
            ("order", "260px"),
            ("tau", "120px"),
            ("block_size", "190px"),
        ):
            made[name].layout.width = width
        parts = [made[name] for name in ("system", "user", "order", "tau", "block_size", "button")]
        made["box"] = widgets.VBox([widgets.Box(parts, layout=row), made["said"]])
        return made


def alert(message: str) -> str:
    """A sentence for the reader, announced by screen readers; nothing where there is none."""
    from html import escape

    return f'<p role="alert" style="margin:2px 0;font-weight:600">{escape(message)}</p>'
