"""Ports and devices of a fake agent: frames exist only as counts, in virtual time.

The `Forwards` function decides how many frames of a load pass; everything else follows the contract's rules.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from iolab.agent.messages import Json
from iolab.clock import VirtualClock
from iolab.units import NS_PER_S

QUIET_NS = 10_000_000
"""The drain barrier after the last frame [ns]."""
KEPT_BY_A_THREAD = ("delay", "stall")
"""Rules of user-space devices: they hold frames and lose none."""
STALL_STEPS = 8
"""Parts of a stall; all frames that arrive in a part are held for the same time."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Result of a load in one direction."""

    intended_frames: int
    """Scheduled frames."""
    offered_frames: int
    """Sent frames."""
    forwarded_frames: int
    """Received frames."""
    held_ns: int = 0
    """Stall of the sender by the host [ns]; 0: none."""
    parts: Mapping[str, Json] = field(default_factory=dict)
    """Receiver counts by parts of the trial, as in its report; `sent_slices_frames` is the sender's."""


Forwards = Callable[[float, int], Passed]
"""Maps rate [frames/s] and duration [ns] to a result."""


def forwards_all(fps: float, duration_ns: int) -> Passed:
    """Forward every frame."""
    frames = round(fps * duration_ns / NS_PER_S)
    return Passed(frames, frames, frames)


class TrafficRefusal(Exception):
    """A refused request: code, message, data."""

    def __init__(self, code: int, message: str, data: Json) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


@dataclass
class FakeTraffic:
    """Port sets and devices."""

    clock: VirtualClock
    """Clock that advances while frames are sent."""
    forwards: Forwards = forwards_all
    """Result of a load."""
    broken: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Interface to errno and reason of its failure to open."""
    latency_ns: int = 20_000
    """Latency of every frame [ns]."""
    dropped: dict[tuple[str | None, str], int] = field(default_factory=dict)
    """Namespace and interface to the number of frames that the full far ring refused."""
    _sets: dict[str, dict[str, dict[str, Json]]] = field(default_factory=dict)
    _devices: dict[str, dict[str, Json]] = field(default_factory=dict)
    wires: dict[str, list[Json]] = field(default_factory=dict)
    """Impairments of each emulated link per direction, as last changed."""
    draws: list[tuple[str, list[int]]] = field(default_factory=list)
    """Emulated links whose draws were restarted, with their seeds."""

    def handlers(self) -> dict[str, Callable[[dict[str, Json]], Json]]:
        """Return the methods of traffic and devices."""
        return {
            "traffic.open": self._open,
            "traffic.record": self._record,
            "traffic.run": self._run,
            "traffic.close": self._close,
            "device.start": self._start,
            "device.read": self._read,
            "device.stop": self._stop,
            "wire.start": self._start_wire,
            "wire.change": self._change_wire,
            "wire.restart_draws": self._restart_draws,
            "wire.read": self._read_wire,
            "wire.stop": self._stop_wire,
        }

    def interfaces(self, netns: str | None) -> list[dict[str, Json]]:
        """Return the counters of all interfaces that were ever opened in a namespace."""
        zero = dict.fromkeys(
            ("rx_bytes", "rx_packets", "rx_errors", "rx_dropped", "tx_bytes", "tx_packets", "tx_errors"), 0
        )
        return [
            {"name": name, **zero, "tx_dropped": frames}
            for (place, name), frames in self.dropped.items()
            if place == netns
        ]

    def _open(self, params: dict[str, Json]) -> Json:
        if params["id"] in self._sets:
            raise TrafficRefusal(-32602, f"a set of ports {params['id']!r} is open already", {})
        for port in params["ports"]:
            self._refuse_broken(f"opening port {port['name']!r}", port["interface"])
        self._sets[params["id"]] = {port["name"]: port for port in params["ports"]}
        for port in params["ports"]:
            self.dropped.setdefault((port.get("netns"), port["interface"]), 0)
        now_ns = self.clock.now_ns()
        used = {"name": "simulated", "fallbacks": []}
        ports = [
            {
                "name": port["name"],
                "mac": f"02:00:00:00:00:{number:02x}",
                "mtu_bytes": 1500,
                "frame_bytes": port.get("frame_bytes", 1518),
                "queues": 1,
                "send": None if port.get("halves") == "receive" else used,
                "receive": None if port.get("halves") == "send" else used,
            }
            for number, port in enumerate(params["ports"], start=1)
        ]
        return {"ports": ports, "begin_ns": now_ns, "end_ns": now_ns}

    def _close(self, params: dict[str, Json]) -> Json:
        self._set(params)
        del self._sets[params["id"]]
        return {}

    def _set(self, params: dict[str, Json]) -> dict[str, dict[str, Json]]:
        if params["id"] not in self._sets:
            raise TrafficRefusal(-32004, f"no set of ports {params['id']!r}", {"id": params["id"]})
        return self._sets[params["id"]]

    def _record(self, params: dict[str, Json]) -> Json:
        self._set(params)
        return {"bytes": len(params["hex"]) // 2, "frames": 0, "unstamped_frames": 0, "flows": 0}

    def _run(self, params: dict[str, Json]) -> Json:
        ports = self._set(params)
        begin_ns, duration_ns = self.clock.now_ns(), params["duration_ns"]
        passed = [
            self.forwards(sender["rate"]["frames"] * NS_PER_S / sender["rate"]["per_ns"], duration_ns)
            for sender in params["senders"]
        ]
        for sender, one in zip(params["senders"], passed, strict=True):
            port = ports[sender["port"]]
            self.dropped[port.get("netns"), port["interface"]] += one.offered_frames - one.forwarded_frames
        self.clock.advance(duration_ns + QUIET_NS)
        senders = [
            self._sent(sender, one, begin_ns, duration_ns)
            for sender, one in zip(params["senders"], passed, strict=True)
        ]
        receivers = [self._received(receiver, passed[receiver["of"]]) for receiver in params["receivers"]]
        return {
            "begin_ns": begin_ns,
            "end_ns": self.clock.now_ns(),
            "ended_early": False,
            "senders": senders,
            "receivers": receivers,
            "shared_cpus": [],
        }

    def _sent(self, sender: dict[str, Json], one: Passed, begin_ns: int, duration_ns: int) -> Json:
        unsent = one.intended_frames - one.forwarded_frames
        refused = one.offered_frames - one.forwarded_frames
        stall = {
            "begin_ns": begin_ns,
            "end_ns": begin_ns + one.held_ns,
            "late_ns": one.held_ns,
            "slipped_ns": 0,
            "cause": "not_asked",
            "steal_ns": None,
            "wait_ns": one.held_ns,
            "involuntary_switches": 1,
        }
        return {
            "port": sender["port"],
            "tag": sender["tag"],
            "begin_ns": begin_ns,
            "end_ns": begin_ns + duration_ns,
            "intended_frames": one.intended_frames,
            "offered_frames": one.forwarded_frames,
            "unsent_frames": unsent,
            "refused_frames": refused,
            "dropped_by_us_frames": unsent - refused,
            "gap_ns": _histogram(0, 0),
            "lateness_ns": _histogram(100, one.forwarded_frames),
            "bursts": [[1, one.forwarded_frames]],
            "stalls": [stall] if one.held_ns else [],
            "stall_count": 1 if one.held_ns else 0,
            "slices_frames": one.parts.get("sent_slices_frames", []),
            "thread": {"cpu": 0, "run_ns": duration_ns, "wait_ns": 0},
        }

    def _received(self, receiver: dict[str, Json], one: Passed) -> Json:
        counts = dict.fromkeys(
            ("duplicate_frames", "reordered_frames", "late_frames", "corrupted_frames", "foreign_frames"), 0
        )
        return {
            "port": receiver["port"],
            "of": receiver["of"],
            "drained": True,
            "received_frames": one.forwarded_frames,
            **counts,
            "latency_ns": _histogram_of(self._latencies(one.forwarded_frames)),
            "reorder_density": [[0, one.forwarded_frames]] if one.forwarded_frames else [],
            "flows": {"count": 0, "with_loss": 0, "worst": []},
            "socket": {"dropped_frames": 0, "ring_full_frames": 0, "no_buffer_frames": 0},
            "stalls": [],
            "thread": {"cpu": 1, "run_ns": 0, "wait_ns": 0},
            **{name: counts for name, counts in one.parts.items() if name != "sent_slices_frames"},
        }

    def _latencies(self, frames: int) -> dict[int, int]:
        """Return the number of frames per latency [ns], through all devices that hold frames."""
        stages = [stage for device in self._devices.values() for stage in device.get("impairments", ())]
        least_ns = self.latency_ns + sum(stage["delay_ns"] for stage in stages if stage["kind"] == "delay")
        found = {least_ns: frames}
        for stage in stages:
            if stage["kind"] == "stall":
                part = round(frames * stage["length_ns"] / stage["every_ns"]) // STALL_STEPS
                for step in range(STALL_STEPS):  # frames that arrive in a stall leave together at its end
                    held_ns = stage["length_ns"] * (2 * step + 1) // (2 * STALL_STEPS)
                    found[least_ns + held_ns] = found.get(least_ns + held_ns, 0) + part
                    found[least_ns] -= part
        return found

    # Devices ----------------------------------------------------------------------------------------------

    def _start(self, params: dict[str, Json]) -> Json:
        if params["id"] in self._devices:
            raise TrafficRefusal(-32602, f"a device {params['id']!r} runs already", {"seen": params["id"]})
        kept = [stage["kind"] for stage in params.get("impairments", ()) if stage["kind"] in KEPT_BY_A_THREAD]
        if kept and params["action"]["kind"] != "forward":
            message = f"a device with a {kept[0]} forwards; 'action' is {params['action']['kind']!r}"
            raise TrafficRefusal(-32602, message, {"seen": params["action"]["kind"]})
        self._refuse_broken(f"starting device {params['id']!r}", params.get("interface", ""))
        self._devices[params["id"]] = params
        mode, instructions = ("user", 0) if kept else ("native", 1)
        return {"mode": mode, "fallbacks": [], "instructions": instructions, "begin_ns": self.clock.now_ns()}

    def _refuse_broken(self, doing: str, interface: str) -> None:
        if interface in self.broken:
            errno, reason = self.broken[interface]
            message = f"{doing}: interface {interface} {reason}"
            raise TrafficRefusal(-32001, message, {"errno": errno, "path": interface})

    def _read(self, params: dict[str, Json]) -> Json:
        if params["id"] not in self._devices:
            raise TrafficRefusal(-32004, f"no device {params['id']!r}", {"id": params["id"]})
        now_ns = self.clock.now_ns()
        return {"passed_frames": 0, "dropped_frames": 0, "begin_ns": now_ns, "end_ns": now_ns}

    def _start_wire(self, params: dict[str, Json]) -> Json:
        self.wires[params["id"]] = []
        seat: dict[str, Json] = {"cpu": 1} if params.get("apart") else {}
        carried = {"path": "simulated"}
        return {"udp_super_frames": True, "carried": carried, **seat, "begin_ns": self.clock.now_ns()}

    def _change_wire(self, params: dict[str, Json]) -> Json:
        self._read_wire(params)
        self.wires[params["id"]] = params["ways"]
        return {}

    def _restart_draws(self, params: dict[str, Json]) -> Json:
        self._read_wire(params)
        self.draws.append((params["id"], params["seeds"]))
        return {}

    def _read_wire(self, params: dict[str, Json]) -> Json:
        if params["id"] not in self.wires:
            raise TrafficRefusal(-32004, f"no wire {params['id']!r}", {"id": params["id"]})
        now_ns = self.clock.now_ns()
        counts: dict[str, Json] = dict.fromkeys(WIRE_COUNTS, 0) | {"stages": []}
        does = [way["impairments"] for way in self.wires[params["id"]]] or [[], []]
        spent: dict[str, Json] = {"span_ns": 0, "stalls": 0, "stalled_ns": 0}
        stalls: dict[str, Json] = {"waiting": spent, "calls": spent, "sleeps": spent}
        if "stalls_since_ns" in params:
            stalls["log"] = []
        return {
            "ways": [counts, counts],
            "does": does,
            "does_since_ns": now_ns,
            "stalls": stalls,
            "carried": {"path": "simulated"},
            "begin_ns": now_ns,
            "end_ns": now_ns,
        }

    def _stop_wire(self, params: dict[str, Json]) -> Json:
        counts = self._read_wire(params)
        del self.wires[params["id"]]
        return counts

    def _stop(self, params: dict[str, Json]) -> Json:
        counts = self._read(params)
        del self._devices[params["id"]]
        return counts


def _histogram(value: int, count: int) -> dict[str, Json]:
    """Return a histogram of equal values."""
    return _histogram_of({value: count})


def _histogram_of(counts: Mapping[int, int]) -> dict[str, Json]:
    """Return the histogram of values with their counts."""
    values = sorted(value for value, count in counts.items() if count)
    buckets: dict[int, int] = {}
    for value in values:
        power = max(0, value.bit_length() - 8)
        least = value >> power << power
        buckets[least] = buckets.get(least, 0) + counts[value]
    return {
        "count": sum(buckets.values()),
        "sum": sum(value * counts[value] for value in values),
        "min": values[0] if values else None,
        "max": values[-1] if values else None,
        "above": 0,
        "buckets": [list(pair) for pair in buckets.items()],
    }


WIRE_COUNTS = (
    "arrived_frames", "copied_frames", "left_frames", "refused_frames", "no_room_frames", "held_frames",
    "corrupted_frames", "marked_frames", "late_frames", "very_late_frames", "latest_ns", "slipped_ns", "passed_bytes",
    "spared_frames", "paced_ns", "short_ns",
)  # fmt: skip
