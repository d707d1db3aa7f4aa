"""Simulate devices with known capacity, queues, noise and stalls, for tests, benches and figures in the documentation.

The device is a model: frames pass through a token bucket and a queue in hundredths of a trial, and the result is
evaluated like an agent's report. Randomness comes from a seed.
"""

from dataclasses import dataclass, field
from random import Random

from iolab.messages.evidence import HeldUp
from iolab.results.search import LoadResult
from iolab.trial.search.steady import Parts, find_steady
from iolab.trial.search.types import LoadTrial
from iolab.units import NS_PER_S

PARTS = 100
"""Number of parts of a trial, as in the agent's reports."""
EXCUSED_RATIO = 0.1
"""Maximum share of a schedule that is excused because of detected stalls of the sender, as on a real host."""
LATENCY_NS = 20_000
"""Latency of a frame with an empty queue [ns]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A simulated forwarder with a generator and a host."""

    capacity_fps: float
    """Sustained forwarding rate [frames/s]."""
    queue_frames: int = 256
    """Queue length [frames]; the default is the size of a veth ring."""
    burst_frames: int = 0
    """Burst beyond the capacity [frames]: the credit of a token bucket, which is full at the start of the first
    trial."""
    noise_ratio: float = 0.0
    """Standard deviation of the capacity between trials, relative to the capacity [ratio]."""
    drift_ratio_per_s: float = 0.0
    """Change of the capacity per second, relative to the capacity [1/s]."""
    loss_ratio: float = 0.0
    """Share of frames lost at random at any load [ratio]."""
    onset_ratio: float = 0.0
    """Scale of the loss below capacity: the loss ratio is 1e-2 at capacity, and ten times lower for each `onset_ratio`
    below capacity; 0: no such loss."""
    livelock: float = 0.0
    """Number by which each excess frame reduces the forwarded frames; 0: not at all."""
    stalls_per_s: float = 0.0
    """Rate of host stalls [1/s]."""
    stall_ns: int = 5_000_000
    """Duration of a stall [ns]."""
    detected_ratio: float = 0.95
    """Share of stalls that the stall log shows [ratio]."""
    sender_stalls_ratio: float = 0.0
    """Share of stalls that stop the generator, which then sends no frames; the other stalls stop the device."""
    generator_fps: float = 1.488e6
    """Maximum rate of the generator [frames/s]."""
    shortage_ratio: float = 0.0
    """Share of every load that the generator omits [ratio]."""
    overhead_ns: int = 50_000_000
    """Time between the end of a trial and the start of the next [ns]."""

    def rate_fps(self, loss_ratio: float) -> float:
        """Return the highest sustained load with a loss of at most `loss_ratio` [frames/s]."""
        if self.loss_ratio > loss_ratio:
            return 0.0
        return min(self.capacity_fps / (1 - loss_ratio), self.generator_fps)


@dataclass
class Flow:
    """Frame counts of one trial, per part."""

    sent: list[int]
    """Frames sent."""
    received: list[int]
    """Number of the frames sent in each part that were forwarded at any time."""
    arrived: list[int]
    """Frames that arrived in each part."""
    least_ns: list[int | None]
    """Minimum latency of the frames that arrived in each part [ns]."""
    late: int = 0
    """Frames that arrived after the end of the trial."""


@dataclass
class Bench:
    """A simulated device under measurement, whose age increases with every trial."""

    device: Device
    """Device under measurement."""
    seed: int
    """Seed of the device's noise and stalls."""
    age_ns: int = 0
    """Time since the first trial started [ns]."""
    chance: Random = field(init=False)
    """Random generator of the noise."""
    credit: float = field(init=False)
    """Tokens in the bucket [frames]."""
    flow: Flow = field(init=False)
    """Frame counts of the last trial."""

    def __post_init__(self) -> None:
        """Create the random generator and fill the bucket."""
        self.chance = Random(self.seed)
        self.credit = float(self.device.burst_frames)

    def measure(self, trial: LoadTrial) -> LoadResult:
        """Return the simulated result of a trial."""
        device = self.device
        seconds = trial.duration_ns / NS_PER_S
        intended = round(trial.intended_fps * seconds)
        load = min(trial.intended_fps * (1 - device.shortage_ratio), device.generator_fps)
        capacity = device.capacity_fps * (1 + device.noise_ratio * self.chance.gauss())
        capacity *= 1 + device.drift_ratio_per_s * self.age_ns / NS_PER_S
        of_sender = self.stalls_in(seconds, device.sender_stalls_ratio)
        of_device = self.stalls_in(seconds, 1 - device.sender_stalls_ratio)
        sent = self.schedule(min(intended, round(load * seconds)), of_sender, trial.duration_ns)
        self.flow = flow = self.forward(sent, capacity, of_device, trial.duration_ns)
        noticed = [at for at in of_sender if self.chance.random() < device.detected_ratio]
        seen = [*noticed, *(at for at in of_device if self.chance.random() < device.detected_ratio)]
        calm, calm_lost = self.calm(flow, seen, trial.duration_ns)
        self.age_ns += trial.duration_ns + device.overhead_ns
        self.credit = min(device.burst_frames, self.credit + capacity * device.overhead_ns / NS_PER_S)
        return LoadResult(
            intended_fps=trial.intended_fps,
            duration_ns=trial.duration_ns,
            intended_frames=intended,
            offered_frames=sum(flow.sent),
            forwarded_frames=sum(flow.received),
            perturbations=(
                HeldUp(code="sender-held-up", port="simulated", times=len(seen), longest_ns=device.stall_ns),
            )
            if seen
            else (),
            overhead_ns=device.overhead_ns + round(flow.late / max(1.0, capacity) * NS_PER_S),
            held_ns=len(seen) * device.stall_ns,
            calm_frames=calm,
            calm_lost_frames=calm_lost,
            steady=find_steady([Parts(flow.sent, flow.received, flow.arrived, flow.least_ns)]),
            late_frames=flow.late,
            excused_frames=round(
                intended * min(EXCUSED_RATIO, sum(self.held(noticed, trial.duration_ns)) / PARTS)
            ),
        )

    def stalls_in(self, seconds: float, share: float) -> list[float]:
        """Return the start times of stalls, relative to the trial's duration [ratio]."""
        count = self.draw_count(share * self.device.stalls_per_s * seconds)
        return [self.chance.random() for _ in range(count)]

    def held(self, begins: list[float], duration_ns: int) -> list[float]:
        """Return the share of each part that is covered by stalls."""
        length = self.device.stall_ns / duration_ns
        shares = [0.0] * PARTS
        for begin in begins:
            at, end = begin * PARTS, min(1.0, begin + length) * PARTS
            while at < end - 1e-9:
                part = min(PARTS - 1, int(at))
                until = min(end, part + 1.0)
                shares[part] = min(1.0, shares[part] + until - at)
                at = max(until, at + 1e-6)
        return shares

    def schedule(self, frames: int, stalls: list[float], duration_ns: int) -> list[int]:
        """Return the frames sent in each part; frames due in a stall are never sent."""
        held = self.held(stalls, duration_ns)
        due = [frames * (at + 1) // PARTS - frames * at // PARTS for at in range(PARTS)]
        return [round(each * (1 - share)) for each, share in zip(due, held, strict=True)]

    def forward(self, sent: list[int], capacity_fps: float, stalls: list[float], duration_ns: int) -> Flow:
        """Return the frame counts after the device's token bucket and queue."""
        device = self.device
        part_s = duration_ns / NS_PER_S / PARTS
        load = sum(sent) / (PARTS * part_s)
        capacity = max(0.0, capacity_fps - device.livelock * max(0.0, load - capacity_fps))
        served, early = capacity * part_s, self.early_loss(load, capacity_fps)
        held = self.held(stalls, duration_ns)
        flow = Flow(sent, [], [], [])
        waiting = 0
        for frames, stall in zip(sent, held, strict=True):
            lost = self.draw_count(frames * early) if early else 0
            # In a stall, frames arrive at the offered rate and overflow the queue; none is served.
            lost += max(0, min(frames - lost, round(frames * stall) - device.queue_frames)) if stall else 0
            credit = self.credit + served * (1 - stall)
            before, waiting = waiting, waiting + frames - lost
            out = min(waiting, int(credit))
            self.credit = min(credit - out, device.burst_frames + 1.0)
            waiting -= out
            dropped = max(0, waiting - device.queue_frames)
            waiting -= dropped
            flow.received.append(frames - lost - dropped)
            flow.arrived.append(out)
            wait_s = min(before, waiting) / capacity if capacity else 0.0
            flow.least_ns.append(LATENCY_NS + round(wait_s * NS_PER_S) if out else None)
        flow.late = waiting
        self.credit = max(0.0, self.credit - waiting)
        return flow

    def calm(self, flow: Flow, seen: list[float], duration_ns: int) -> tuple[int, int]:
        """Return the number of frames sent in parts that neither have a stall nor follow a part with one, and how many
        of these frames were lost."""
        held = self.held(seen, duration_ns)
        frames = lost = 0
        for at in range(PARTS):
            if not any(held[max(0, at - 1) : at + 1]):
                frames += flow.sent[at]
                lost += flow.sent[at] - flow.received[at]
        return frames, lost

    def early_loss(self, load_fps: float, capacity_fps: float) -> float:
        """Return the loss ratio without queue losses."""
        early = 0.0
        if self.device.onset_ratio:
            below = max(0.0, 1 - load_fps / capacity_fps)
            early = min(0.01, 0.01 * 10 ** (-below / self.device.onset_ratio))
        return self.device.loss_ratio + early

    def draw_count(self, expected: float) -> int:
        """Return a Poisson-distributed number."""
        if expected > 500:
            return max(0, round(self.chance.gauss(expected, expected**0.5)))
        count, waited = 0, self.chance.expovariate(1.0) if expected > 0 else 1.0
        while waited < expected:
            count += 1
            waited += self.chance.expovariate(1.0)
        return count
