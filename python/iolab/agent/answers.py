"""Answers of an agent with more than their fields, by hand: the generated ones are in `messages`."""

from collections.abc import Mapping
from dataclasses import field, fields, replace

from iolab.agent.decoding import Count, decode
from iolab.agent.messages import (
    CommandEnded,
    CpuTimes,
    DropCounters,
    InterfaceCounters,
    Json,
    QdiscCounters,
    SettingValues,
    SocketCounters,
    ThreadTimes,
    WayCounts,
)
from iolab.frozen import frozen
from iolab.locale import Phrase, Text


@frozen
class Refusal:
    """An answer that is an error; whatever it lacks, that it is one is reported."""

    code: int = 0
    """Which."""
    message: str = ""
    """In words."""
    data: Json = None
    """What a program may want to know."""


class CommandResult(CommandEnded):
    """A program that ran to its end."""

    __slots__ = ()

    @property
    def succeeded(self) -> bool:
        """Whether it ended with status 0 in time."""
        return self.exit_status == 0 and not self.timed_out

    @property
    def complaint(self) -> Text:
        """What it said of its failure; of one that said nothing, how it ended."""
        if said := (self.stderr or self.stdout).strip()[:500]:
            return said
        if self.timed_out:
            return Phrase("agent.did-not-end-in-time")
        if self.signal:
            return Phrase("agent.signal", signal=self.signal)
        return Phrase("agent.status", status=self.exit_status)


@frozen(kw_only=True)
class Observation:
    """What one sampler read; only the fields that this side uses are typed, the raw reading is stored whole."""

    sampler: str
    """Which sampler."""
    netns: str | None = None
    """Namespace it read."""
    begin_ns: Count
    """Start of reading [ns, monotonic]."""
    end_ns: Count
    """End of reading [ns, monotonic]."""
    cpus: tuple[dict[str, int], ...] = ()
    """Rows of `cpu` and `softnet`."""
    interfaces: tuple[InterfaceCounters, ...] = ()
    """Rows of `interfaces`."""
    qdiscs: tuple[QdiscCounters, ...] = ()
    """Rows of `qdiscs`."""
    drops: tuple[DropCounters, ...] = ()
    """Rows of `drops`."""
    threads: tuple[ThreadTimes, ...] = ()
    """Rows of `threads`."""
    sockets: tuple[SocketCounters, ...] = ()
    """Rows of `sockets`."""
    settings: tuple[SettingValues, ...] = ()
    """Rows of `settings` and `processors`."""


@frozen
class Reading:
    """What was read together."""

    observations: tuple[Observation, ...]
    """One per sampler and namespace."""
    raw: Json = field(default=None, compare=False)
    """The same, as received."""
    agent: str = ""
    """The machine whose agent read it; empty: this computer."""

    def cpu_times(self) -> tuple[CpuTimes, ...]:
        """Return the time of every CPU."""
        rows = [row for seen in self.observations if seen.sampler == "cpu" for row in seen.cpus]
        return tuple(decode(CpuTimes, row, Phrase("agent.cpu-times"), agent=self.agent) for row in rows)

    def threads(self) -> tuple[ThreadTimes, ...]:
        """Return the time of every thread."""
        return tuple(row for seen in self.observations for row in seen.threads)

    def setting(self, netns: str | None, place: str, name: str = "") -> Mapping[str, str]:
        """Return what is in effect at a place; empty where it was not read."""
        for seen in self.observations:
            if seen.sampler == "settings" and seen.netns == netns:
                for row in seen.settings:
                    if (row.place, row.name) == (place, name):
                        return row.values
        return {}

    def interface(self, netns: str | None, name: str) -> InterfaceCounters | None:
        """Return the counters of one interface, or None where it was not read."""
        for seen in self.observations:
            if seen.sampler == "interfaces" and seen.netns == netns:
                return next((row for row in seen.interfaces if row.name == name), None)
        return None


def counted_since(before: WayCounts, now: WayCounts) -> WayCounts:
    """Return what was counted since an earlier reading; frames on their way, and the longest time, are as now."""
    earlier = {stage.kind: stage.lost_frames for stage in before.stages}
    stages = tuple(
        replace(stage, lost_frames=stage.lost_frames - earlier.get(stage.kind, 0)) for stage in now.stages
    )
    kept = ("stages", "held_frames", "latest_ns")
    counts = {
        one.name: getattr(now, one.name) - getattr(before, one.name)
        for one in fields(now)
        if one.name not in kept
    }
    return replace(now, stages=stages, **counts)
