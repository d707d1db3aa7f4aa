"""Devices of known truth, created by commands in a bridge without iolab's knowledge: shapers, policers, nft rules.

A shaper counts the bytes of a frame with the Ethernet header and without the checksum (`qdisc_skb`), so its rate in
frames/s is exact for frames of one size. The rate of an nft limit is in frames. The effect of a device is read from the
kernel's counters only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

FRAME_BYTES = 512
"""Size of all frames, with checksum (RFC 2544)."""
COUNTED_BYTES = FRAME_BYTES - 4
"""Size that a qdisc counts for such a frame."""
OUT, BACK = "eth1", "eth0"
"""The device's egress port of the first direction, and of the second."""
AT_THE_END: Mapping[str, tuple[str, ...]] = {OUT: ("dut.eth1",), BACK: ("dut.eth0",)}
"""Place of losses of a shaper: the egress port."""
SHALLOW = 64
"""Length of a short queue [frames]."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device with its truth."""

    name: str
    """Description; its parts select cases."""
    fps: Mapping[str, float]
    """Sustained rate of each direction, by egress port [frames/s]."""
    commands: tuple[str, ...]
    """Commands in the device's namespace, run by a shell once the lab exists."""
    places: Mapping[str, tuple[str, ...]]
    """Places where frames of each direction are lost, by egress port: right verdicts name one of these."""
    marks: tuple[str, ...] = ()
    """Warnings that are right for this device if the rate is wrong."""
    needs: str = "tc"
    """Required program."""
    shape: str = ""
    """Shaper of the lab: the `shape` of the link to the far port."""
    machine: str = "forward: bridge"
    """Keys of the device's machine."""
    burst_frames: float = 0
    """Number of frames that pass beyond the rate at first."""
    during: Mapping[float, str] = field(default_factory=dict)
    """Commands with their delay after the start of the search [s]."""
    shared: bool = True
    """Whether foreign frames on the same egress port count against its rate."""


def bits(fps: float) -> int:
    """Return the rate of a shaper [bit/s]."""
    return round(fps * COUNTED_BYTES * 8)


def tbf_command(port: str, fps: float, queue: int, burst: int, verb: str = "add") -> str:
    """Return the command for a token bucket of a size with a queue of a size."""
    room = f"burst {burst * COUNTED_BYTES}b limit {queue * COUNTED_BYTES}b"
    return f"tc qdisc {verb} dev {port} root handle 1: tbf rate {bits(fps)}bit {room}"


def tbf(fps: float, queue: int, burst: int = 64, back_fps: float | None = None) -> Device:
    """Return a bridge with a token bucket on each port."""
    both = {OUT: fps, BACK: fps if back_fps is None else back_fps}
    uneven = "" if back_fps is None else f", {back_fps:.0f} back"
    return Device(
        name=f"tbf {fps:.0f}{uneven} queue {queue} burst {burst}",
        fps=both,
        commands=tuple(tbf_command(port, rate, queue, burst) for port, rate in both.items()),
        places=AT_THE_END,
        burst_frames=burst,
    )


def htb(fps: float, queue: int) -> Device:
    """Return a bridge with one class and a queue of a size on each port."""
    rate = (
        f"rate {bits(fps)}bit burst {SHALLOW * COUNTED_BYTES}b cburst {SHALLOW * COUNTED_BYTES}b quantum 1514"
    )
    commands = tuple(
        command
        for port in (OUT, BACK)
        for command in (
            f"tc qdisc add dev {port} root handle 1: htb default 1",
            f"tc class add dev {port} parent 1: classid 1:1 htb {rate}",
            f"tc qdisc add dev {port} parent 1:1 handle 10: pfifo limit {queue}",
        )
    )
    both = {OUT: fps, BACK: fps}
    return Device(f"htb {fps:.0f} queue {queue}", both, commands, AT_THE_END, burst_frames=SHALLOW)


def halving(fps: float) -> Device:
    """Return a token bucket that halves its rate in the third second of a search."""
    whole = tbf(fps, SHALLOW)
    half = dict.fromkeys((OUT, BACK), fps / 2)
    commands = "; ".join(tbf_command(port, rate, SHALLOW, SHALLOW, "change") for port, rate in half.items())
    return replace(
        whole,
        name=f"tbf {fps:.0f} that halves after 3 s",
        fps=half,
        during={3.0: commands},
        marks=("device-changed",),
    )


def hook(port: str, *rules: str, at: str = "ingress") -> str:
    """Return the command for rules on the ingress or egress traffic of a port."""
    chain = f"type filter hook {at} device {port} priority 0;"
    lines = "; ".join(f"add rule netdev {port} it {rule}" for rule in rules)
    return f"nft 'add table netdev {port}; add chain netdev {port} it {{ {chain} }}; {lines}'"


def policer(fps: int, burst: int) -> Device:
    """Return a bridge whose ports police ingress traffic."""
    rule = f"limit rate over {fps}/second burst {burst} packets counter drop"
    return Device(
        name=f"policer {fps} burst {burst}",
        fps={OUT: fps, BACK: fps},
        commands=(hook(BACK, rule), hook(OUT, rule)),
        places={OUT: ("dut.eth0",), BACK: ("dut.eth1",)},
        needs="nft",
        burst_frames=burst,
        shared=False,
    )


def own_shape(kind: str, fps: float, options: str = "") -> Device:
    """Return a bridge that is shaped by the lab itself, one way."""
    shape = f", shape: {{at: dut.eth1, qdisc: {kind}, rate: {bits(fps)}bit{options}}}"
    name = f"own {kind} {fps:.0f}{options.replace(': ', ' ').replace(',', '')}"
    return Device(name, {OUT: fps}, (), AT_THE_END, shape=shape, burst_frames=SHALLOW)


def reference(fps: int, burst: int = 256) -> Device:
    """Return iolab's reference device; its rate is the configured one, checked by the kernel's counters."""
    machine = f"forward: xdp, device: {{rate: {fps}pps, burst: {burst}}}"
    return Device(
        name=f"reference {fps} burst {burst}",
        fps={OUT: fps, BACK: fps},
        commands=(),
        places={OUT: ("device dut.eth0", "dut.eth0"), BACK: ("device dut.eth1", "dut.eth1")},
        machine=machine,
        burst_frames=burst,
    )
