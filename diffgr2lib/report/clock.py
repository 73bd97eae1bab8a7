"""The clock of a trajectory: its denoising steps in a row, and the forward passes behind each."""

from dataclasses import dataclass

from diffgr2lib.decode.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class Clock:
    """Denoising steps of all blocks, numbered 1 to S; step 0 is the prefilled prompt.

    step: the step that committed each position, 0 where it was never revealed. last: the last step
    of each block. passes: forward passes (NFE) after each step, S + 1 numbers.
    """

    step: tuple[int, ...]
    last: tuple[int, ...]
    passes: tuple[int, ...]

    @property
    def steps(self) -> int:
        """S, the number of denoising steps."""
        return len(self.passes) - 1

    def block(self, step: int) -> int:
        """The block (from 0) that is being denoised at a step, 0 to S."""
        return next((b for b, last in enumerate(self.last) if step <= last), len(self.last) - 1)

    def at(self, passes: int) -> int:
        """The last step that stands after this many forward passes."""
        return max([s for s, done in enumerate(self.passes) if done <= passes], default=0)


def read_clock(trajectory: Trajectory) -> Clock:
    """Order a trajectory's steps and count their passes.

    A step is one pass after the prefill; at B = 1 the prefill is the first step's pass. Where the
    recorded NFE exceeds that (unfused decoding), every finished block takes one pass more; the last
    step always stands at the recorded NFE.
    """
    B, revealed = trajectory.block_size, trajectory.reveal_step
    last, total = [], 0
    for start in range(0, len(revealed), B):
        total += max(revealed[start : start + B]) + 1
        last.append(total)
    first = [0, *last][:-1]
    step = tuple(
        0 if own < 0 else first[place // B] + own + 1 for place, own in enumerate(revealed)
    )
    prefill = 0 if B == 1 else 1
    commits = trajectory.nfe - total - prefill >= max(1, len(last) - 1)
    passes, block = [min(prefill, trajectory.nfe)], 0
    for number in range(1, total + 1):
        block += number > last[block]
        passes.append(number + prefill + (block if commits else 0))
    passes[-1] = trajectory.nfe
    return Clock(step, tuple(last), tuple(passes))


def block_passes(clock: Clock) -> list[int]:
    """Forward passes spent on each block; the prefill counts towards the first."""
    ends = [clock.passes[last] for last in clock.last]
    return [end - begin for end, begin in zip(ends, [0, *ends], strict=False)]


def block_tpf(trajectory: Trajectory) -> list[float]:
    """TPF of each block: its response tokens (up to the end token) per forward pass."""
    B, kept = trajectory.block_size, []
    for block, passes in enumerate(block_passes(read_clock(trajectory))):
        tokens = min(B, trajectory.length - block * B)
        kept.append(tokens / max(1, passes))
    return kept


def status(trajectory: Trajectory, clock: Clock, step: int) -> str:
    """The counts in words: ``step 5 of 16, block 2 of 5, 11 masked, NFE 7``."""
    block, B = clock.block(step), trajectory.block_size
    canvas = clock.step[block * B : (block + 1) * B]
    masked = sum(own == 0 or own > step for own in canvas)
    return (
        f"step {step} of {clock.steps}, block {block + 1} of {len(clock.last)},"
        f" {masked} masked, NFE {clock.passes[step]}"
    )
