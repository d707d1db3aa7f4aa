"""Faults of known size: one or two injected faults, and the right conclusion."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from benches.truth.truth_devices import BACK, FRAME_BYTES, OUT, bits, hook, tbf_command
from benches.truth.truth_lab import ALONE, STOPPED, Company

PATHS = ("af_xdp", "af_packet")
BOTH, FLOWS = ", direction: both-ways", ", flows: 8"
LOSE = "numgen random mod 100 0 counter drop"
"""A rule with 1 % random loss."""
CHANGE = "numgen inc mod 50 0 counter @th,"
"""The beginning of a rule that rewrites every 50th frame; an offset from the UDP header follows [bit]."""
SLOW_CLASS = "1:20"


@dataclass(frozen=True, slots=True)
class FaultCase:
    """One or two faults at one load."""

    name: str
    """Description; its parts select cases."""
    places: tuple[str, ...]
    """Accepted places: a right verdict names one of them; empty: nothing may be blamed."""
    commands: tuple[str, ...] = ()
    """Commands in the device's namespace before the trial."""
    during: dict[float, str] = field(default_factory=dict)
    """Commands with their delay after the start of the trial [s]."""
    fps: float = 20_000.0
    """Load, over all directions [frames/s]."""
    path: str = "af_xdp"
    """Sending path."""
    options: str = ""
    """Further keys of the measure."""
    words: tuple[str, ...] = ()
    """Words that the verdict must contain."""
    machine: str = "forward: bridge"
    """Keys of the device's machine."""
    needs: str = "nft"
    """Required program."""
    counted: dict[str, str] = field(default_factory=dict)
    """Figure of the trial (lost_frames, reordered_frames, duplicate_frames) to the port whose first nft rule must have
    counted the same number of frames."""
    company: Company = ALONE
    """Concurrent foreign work."""
    doubled: bool = False
    """Whether the far port also counts other frames: duplicated, changed or foreign frames."""

    @property
    def measure(self) -> str:
        """Return the measure of the experiment."""
        return (
            f"kind: latency, path: {self.path}, frame_size: {FRAME_BYTES}, rate: {self.fps:.0f}pps, "
            f"duration: 2s{self.options}"
        )

    @property
    def outs(self) -> tuple[str, ...]:
        """Return the egress ports of the device."""
        return (OUT, BACK) if "both-ways" in self.options else (OUT,)


LOSSES = (
    FaultCase("nothing wrong", ()),
    FaultCase("nothing wrong, both-ways", (), options=BOTH),
    FaultCase("a rule drops 1 %", ("dut.eth0",), (hook(BACK, LOSE),)),
    FaultCase("a rule drops 1 % of both ways", ("dut.eth0", "dut.eth1"), (
        hook(BACK, LOSE), hook(OUT, LOSE)), options=BOTH),
    FaultCase("a rule drops 1 % of the way back", ("dut.eth1",), (hook(OUT, LOSE),), options=BOTH),
    FaultCase("a rule drops 100 in a row of 5000", ("dut.eth0",), (
        hook(BACK, "numgen inc mod 5000 < 100 counter drop"),)),
    FaultCase("one flow of 8 is dropped", ("dut.eth0",), (
        hook(BACK, "udp sport and 7 == 3 counter drop"),), options=FLOWS),
    FaultCase("a blackhole", ("dut.eth0",), (hook(BACK, "counter drop"),)),
    FaultCase("a blackhole for 0.3 s", ("dut.eth1", "dut.eth0"), during={
        1.0: "bridge link set dev eth1 state 0; sleep 0.3; bridge link set dev eth1 state 3"}, needs="bridge"),
    FaultCase("a token bucket at half of the load", ("dut.eth1",), (tbf_command(OUT, 10_000, 64, 64),), needs="tc"),
    FaultCase("a bucket with room for the trial", (), (tbf_command(OUT, 15_000, 30_000, 64),), needs="tc"),
    FaultCase("a bucket that is slow one way of two", ("dut.eth0",), (
        tbf_command(OUT, 20_000, 64, 64), tbf_command(BACK, 8_000, 64, 64)), options=BOTH, needs="tc"),
    FaultCase("a rule drops 1 % before a bucket that drops half", ("dut.eth1",), (
        hook(BACK, LOSE), tbf_command(OUT, 10_000, 64, 64))),
    FaultCase("two rules drop 1 % each", ("dut.eth0", "dut.eth1", "unexplained"), (
        hook(BACK, LOSE), hook(OUT, LOSE, at="egress"))),
    FaultCase("a device that stands still half of the time", ("dut.eth0",), fps=100_000, needs="tc",
              machine="forward: xdp, device: {stall: {length: 50ms, every: 100ms}}"),
    FaultCase("more than a bridge forwards", ("dut.eth0", "generator", "receiver"), fps=900_000, needs="tc"),
)  # fmt: skip
"""Devices that lose frames."""

DAMAGES = (
    FaultCase("every 50th frame is rewritten", ("damage", "dut.eth0"), (
        hook(BACK, f"{CHANGE}512,32 set 0xdeadbeef"),), counted={"lost_frames": BACK}, doubled=True),
    FaultCase("every 50th stamp is rewritten", ("damage", "dut.eth0"), (
        hook(BACK, f"{CHANGE}160,32 set 0xdeadbeef"),), counted={"lost_frames": BACK}, doubled=True),
    FaultCase("every 50th frame goes to another UDP port", ("damage", "dut.eth0"), (
        hook(BACK, f"{CHANGE}16,16 set 4242"),), counted={"lost_frames": BACK}, doubled=True),
    FaultCase("every 20th frame comes twice", (), (
        hook(BACK, "numgen inc mod 20 0 counter dup to eth1"),), counted={"duplicate_frames": BACK}, doubled=True),
    FaultCase("every 20th frame comes twice, every 20th not at all", ("dut.eth0", "kernel"), (
        hook(BACK, "numgen inc mod 20 7 counter drop", "numgen inc mod 19 0 counter dup to eth1"),),
        counted={"lost_frames": BACK}, doubled=True, words=("NETFILTER_DROP",)),
    FaultCase("every 20th frame is overtaken", (), (
        "tc qdisc add dev eth1 root handle 1: htb default 10",
        f"tc class add dev eth1 parent 1: classid 1:10 htb rate {bits(200_000)}bit burst 64k quantum 1514",
        f"tc class add dev eth1 parent 1: classid {SLOW_CLASS} htb rate {bits(900)}bit burst 1k quantum 1514",
        hook(BACK, f"numgen inc mod 20 0 counter meta priority set {SLOW_CLASS}")),
        counted={"reordered_frames": BACK}),
    FaultCase("every 10th frame is sent back as well", (), (
        hook(BACK, "numgen inc mod 10 0 counter dup to eth0"),), options=BOTH, doubled=True),
)  # fmt: skip
"""Devices that change, duplicate or reorder frames."""

HALVES = tbf_command(OUT, 12_000, 64, 64, "change")
STOPS = f"{tbf_command(OUT, 100, 64, 64, 'change')}; sleep 0.3; {tbf_command(OUT, 30_000, 64, 64, 'change')}"
CHANGES = (
    FaultCase("a bucket that halves in the middle", ("dut.eth1",), (tbf_command(OUT, 30_000, 64, 64),), {
        1.2: HALVES}, needs="tc"),
    FaultCase("a queue whose counter begins again", ("dut.eth1",), (tbf_command(OUT, 10_000, 64, 64),), {
        1.2: f"tc qdisc del dev eth1 root; {tbf_command(OUT, 10_000, 64, 64)}"}, needs="tc"),
    FaultCase("a bucket that stops for 0.3 s", ("dut.eth1",), (tbf_command(OUT, 30_000, 64, 64),), {
        1.0: STOPS}, needs="tc"),
)  # fmt: skip
"""Devices and counters that change during the trial."""

COMPANY = (
    FaultCase("the sender has half of its CPU", (), company=Company("sender"), fps=50_000,
              needs="tc"),
    FaultCase("the sender has half of its CPU, before a bucket at half of the load", ("dut.eth1",), (
        tbf_command(OUT, 25_000, 64, 64),), company=Company("sender"), fps=50_000, needs="tc"),
    FaultCase("the sender has half of its CPU, and a rule drops 1 %", ("dut.eth0",), (
        hook(BACK, LOSE),), company=Company("sender"), fps=20_000),
    FaultCase("the receiver has half of its CPU", ("host", "receiver"), company=Company("receiver"), fps=50_000,
              needs="tc"),
    FaultCase("the agent stands still for a second", (), company=Company(STOPPED), needs="tc"),
    FaultCase("others fill the same bucket", ("dut.eth1",), (tbf_command(OUT, 15_000, 64, 64),),
              company=Company("", 10_000), doubled=True, needs="tc"),
    FaultCase("others send as well", (), company=Company("", 5_000), doubled=True, needs="tc"),
)  # fmt: skip
"""Hosts with other work, and links with foreign frames."""


def fault_cases() -> Iterator[FaultCase]:
    """Yield every fault on every path."""
    for path in PATHS:
        for case in (*LOSSES, *DAMAGES, *CHANGES, *COMPANY):
            yield replace(case, name=f"{case.name}, {path}", path=path)
