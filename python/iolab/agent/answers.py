"""Types of an agent's answers that have methods and are written by hand; the module `messages` has the generated
types."""

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
    """An error answer; the defaults cover missing fields, so that an incomplete answer is still reported."""

    code: int = 0
    """Error code."""
    message: str = ""
    """Error message."""
    data: Json = None
    """Additional data for programs."""


class CommandResult(CommandEnded):
    """The result of a program that ran to its end."""

    __slots__ = ()

    @property
    def succeeded(self) -> bool:
        """Whether the program exited with status 0 in time."""
        return self.exit_status == 0 and not self.timed_out

    @property
    def complaint(self) -> Text:
        """Error message of the program; if there is none, the program's exit status."""
        if said := (self.stderr or self.stdout).strip()[:500]:
            return said
        if self.timed_out:
            return Phrase("agent.did-not-end-in-time")
        if self.signal:
            return Phrase("agent.signal", signal=self.signal)
        return Phrase("agent.status", status=self.exit_status)


@frozen(kw_only=True)
class Observation:
    """The reading of one sampler.

    Only the fields that the controller uses are typed; the raw reading is stored whole.
    """

    sampler: str
    """Name of the sampler."""
    netns: str | None = None
    """Namespace of the reading."""
    begin_ns: Count
    """Time at which the reading started [ns, monotonic]."""
    end_ns: Count
    """Time at which the reading ended [ns, monotonic]."""
    cpus: tuple[dict[str, int], ...] = ()
    """Rows of the samplers `cpu` and `softnet`."""
    interfaces: tuple[InterfaceCounters, ...] = ()
    """Rows of the sampler `interfaces`."""
    qdiscs: tuple[QdiscCounters, ...] = ()
    """Rows of the sampler `qdiscs`."""
    drops: tuple[DropCounters, ...] = ()
    """Rows of the sampler `drops`."""
    threads: tuple[ThreadTimes, ...] = ()
    """Rows of the sampler `threads`."""
    sockets: tuple[SocketCounters, ...] = ()
    """Rows of the sampler `sockets`."""
    settings: tuple[SettingValues, ...] = ()
    """Rows of the samplers `settings` and `processors`."""


@frozen
class Reading:
    """The readings of several samplers at one time."""

    observations: tuple[Observation, ...]
    """One observation per sampler and namespace."""
    raw: Json = field(default=None, compare=False)
    """The observations as received."""
    agent: str = ""
    """Machine of the agent; empty: the local host."""

    def cpu_times(self) -> tuple[CpuTimes, ...]:
        """Return the times of every CPU."""
        rows = [row for seen in self.observations if seen.sampler == "cpu" for row in seen.cpus]
        return tuple(decode(CpuTimes, row, Phrase("agent.cpu-times"), agent=self.agent) for row in rows)

    def threads(self) -> tuple[ThreadTimes, ...]:
        """Return the times of every thread."""
        return tuple(row for seen in self.observations for row in seen.threads)

    def setting(self, netns: str | None, place: str, name: str = "") -> Mapping[str, str]:
        """Return the value of a setting at a place; empty if the setting was not read."""
        for seen in self.observations:
            if seen.sampler == "settings" and seen.netns == netns:
                for row in seen.settings:
                    if (row.place, row.name) == (place, name):
                        return row.values
        return {}

    def interface(self, netns: str | None, name: str) -> InterfaceCounters | None:
        """Return the counters of one interface, or None if they were not read."""
        for seen in self.observations:
            if seen.sampler == "interfaces" and seen.netns == netns:
                return next((row for row in seen.interfaces if row.name == name), None)
        return None


def counted_since(before: WayCounts, now: WayCounts) -> WayCounts:
    """Return the counts since an earlier reading of the same direction.

    `held_frames` and `latest_ns` are not counters, so they keep their current values.
    """
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
