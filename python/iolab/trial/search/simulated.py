"""Devices that exist only as numbers, for tests, benches and figures in docs: known capacity, noise, stalls, livelock.

The device is a model, not a measurement: it answers whole trials at once. Randomness comes with its seed.
"""

from dataclasses import dataclass, field
from random import Random

from .types import NS_PER_S, LoadResult, LoadTrial

SLICE_RATIO = 0.01
"""A trial is looked at in parts so long: a stall takes two of them beside its own time from the calm part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A forwarder with a generator before it and a host around it."""

    capacity_fps: float
    """What it forwards without end [frames/s]."""
    queue_frames: int = 256
    """Frames that wait before one is lost; the size of a veth ring [frames]."""
    noise_ratio: float = 0.0
    """Standard deviation of the capacity from trial to trial, per capacity [ratio]."""
    drift_ratio_per_s: float = 0.0
    """Change of the capacity per second, per capacity [1/s]."""
    loss_ratio: float = 0.0
    """Share of frames that is lost at any load, at random [ratio]."""
    onset_ratio: float = 0.0
    """Loss that begins below capacity: 1e-2 at capacity, ten times less each `onset_ratio` below it; 0: none."""
    livelock: float = 0.0
    """Forwarding that is lost per frame of overload; 0: none, 1: one frame not forwarded for each one too many."""
    stalls_per_s: float = 0.0
    """Stalls of the host [1/s]."""
    stall_ns: int = 5_000_000
    """Length of a stall [ns]."""
    detected_ratio: float = 0.95
    """Share of stalls that the stall log shows."""
    sender_stalls_ratio: float = 0.0
    """Share of stalls that hold up the generator: frames are not sent; the others hold up the device."""
    generator_fps: float = 1.488e6
    """The most that can be sent [frames/s]."""
    overhead_ns: int = 50_000_000
    """Time between the end of a trial and the start of the next [ns]."""

    def rate_fps(self, loss_ratio: float) -> float:
        """Return the highest load without end at which no more than `loss_ratio` is lost [frames/s]."""
        if self.loss_ratio > loss_ratio:
            return 0.0
        return min(self.capacity_fps / (1 - loss_ratio), self.generator_fps)


@dataclass
class Bench:
    """A device under measurement; it ages with every trial."""

    device: Device
    """What is measured."""
    seed: int
    """Of the device's noise and stalls."""
    age_ns: int = 0
    """Time since the first trial began [ns]."""
    chance: Random = field(init=False)
    """The noise."""

    def __post_init__(self) -> None:
        """Start the noise."""
        self.chance = Random(self.seed)

    def measure(self, trial: LoadTrial) -> LoadResult:
        """Return what a trial of this load gives."""
        device = self.device
        seconds = trial.duration_ns / NS_PER_S
        intended = round(trial.intended_fps * seconds)
        offered = min(intended, round(device.generator_fps * seconds))
        capacity = device.capacity_fps * (1 + device.noise_ratio * self.chance.gauss())
        capacity *= 1 + device.drift_ratio_per_s * self.age_ns / NS_PER_S
        of_sender = self.draw_count(device.sender_stalls_ratio * device.stalls_per_s * seconds)
        sent_s = max(1e-3, seconds - of_sender * device.stall_ns / NS_PER_S)
        offered = round(offered * sent_s / seconds)
        passed = min(offered, self.served(offered, capacity, sent_s))
        stalls = self.draw_count((1 - device.sender_stalls_ratio) * device.stalls_per_s * seconds)
        # While the device stands still frames come in at the offered rate and overflow the queue.
        at_once = max(0, round(offered / sent_s * device.stall_ns / NS_PER_S) - device.queue_frames)
        in_stalls = min(passed, stalls * at_once)
        passed -= in_stalls
        passed -= self.draw_count(passed * self.early_loss(offered / sent_s, capacity))
        seen = [self.chance.random() < device.detected_ratio for _ in range(stalls + of_sender)]
        noticed, unnoticed = sum(seen), stalls - sum(seen[:stalls])
        calm_ratio = max(0.0, 1 - noticed * (2 * device.stall_ns / trial.duration_ns + 2 * SLICE_RATIO))
        spread = offered - max(0, passed) - in_stalls
        self.age_ns += trial.duration_ns + device.overhead_ns
        return LoadResult(
            intended_fps=trial.intended_fps,
            duration_ns=trial.duration_ns,
            intended_frames=intended,
            offered_frames=offered,
            forwarded_frames=max(0, passed),
            perturbations=(f"{noticed} stalls of {device.stall_ns} ns",) if noticed else (),
            overhead_ns=device.overhead_ns,
            held_ns=noticed * device.stall_ns,
            calm_frames=round(calm_ratio * offered),
            calm_lost_frames=min(
                round(calm_ratio * spread) + unnoticed * at_once, round(calm_ratio * offered)
            ),
        )

    def served(self, offered: int, capacity_fps: float, seconds: float) -> int:
        """Return the frames that the device has time and queue for."""
        excess = max(0.0, offered / seconds - capacity_fps)
        slowed = max(0.0, capacity_fps - self.device.livelock * excess)
        return round(slowed * seconds) + self.device.queue_frames

    def early_loss(self, load_fps: float, capacity_fps: float) -> float:
        """Return the loss ratio that has nothing to do with the queue."""
        early = 0.0
        if self.device.onset_ratio:
            below = max(0.0, 1 - load_fps / capacity_fps)
            early = min(0.01, 0.01 * 10 ** (-below / self.device.onset_ratio))
        return self.device.loss_ratio + early

    def draw_count(self, expected: float) -> int:
        """Return a Poisson number."""
        if expected > 500:
            return max(0, round(self.chance.gauss(expected, expected**0.5)))
        count, waited = 0, self.chance.expovariate(1.0) if expected > 0 else 1.0
        while waited < expected:
            count += 1
            waited += self.chance.expovariate(1.0)
        return count
