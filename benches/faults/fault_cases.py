"""Faults that are injected without iolab's knowledge, each with the right verdict."""

from dataclasses import dataclass, field, replace

LAB = """
title: Faults
lab:
  machines:
    tester: {{kind: netns}}
    a: {{kind: netns, forward: {a}}}
    b: {{kind: netns, forward: {b}{device}}}
  links:
    west: {{ends: [tester.p0, a.eth0], mtu: 1500}}
    mid: {{ends: [a.eth1, b.eth0], mtu: 1500{shape}}}
    east: {{ends: [b.eth1, tester.p1], mtu: 1500}}
measure:
  load: {{{measure}, from: tester.p0, to: tester.p1{more}}}
"""
LATENCY = "kind: latency, frame_size: 512, rate: 20kpps, duration: 1s"
SEARCH = "kind: forwarding, frame_size: 64, loss_ratio: 0.1%, width: 2%, trial: 200ms, limit: 15s, search: "
GUEST_LAB = """
title: Faults of a guest
lab:
  machines:
    tester: {{kind: netns}}
    dut: {{kind: vm, memory: 256M, nic: {nic}, pin: {pin}, forward: bridge}}
  links:
    west: {{ends: [tester.p0, dut.eth0], mtu: 1500}}
    east: {{ends: [dut.eth1, tester.p1], mtu: 1500}}
measure:
  load: {{kind: latency, from: tester.p0, to: tester.p1, frame_size: 512, rate: 5kpps, duration: 1s}}
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """An injected fault."""

    name: str
    """Description."""
    expected: tuple[str, ...]
    """Accepted texts: the verdict must contain one of them; the first text is the place."""
    commands: tuple[tuple[str, str], ...] = ()
    """Pairs of a machine (empty: the local host) and a command to run after the lab is created."""
    lab: dict[str, str] = field(default_factory=dict)
    """Keys of a different lab."""
    fps: float = 20_000.0
    """Load [frames/s]."""
    hog: tuple[str, float, float] | None = None
    """Part of the trial (send, device, receive) whose CPU is occupied, and the busy and idle time of a turn [s]."""
    nic: str = ""
    """NIC type of the guest that is the device; empty: the devices are two namespaces."""
    duration_ns: int = 1_000_000_000
    """Duration of sending [ns]."""
    foreign_fps: float = 0.0
    """Rate of foreign frames sent from the tester's first port during the trial [frames/s]."""
    stopped_s: tuple[float, float] | None = None
    """Stop of the guest's hypervisor: its start after the beginning of the trial, and its duration [s]."""


def nft(interface: str, rule: str) -> tuple[tuple[str, str], ...]:
    """Return the command for a rule on all ingress traffic of a port of machine a."""
    return (
        ("a", "nft add table netdev faults"),
        (
            "a",
            f"nft add chain netdev faults in {{ type filter hook ingress device {interface} priority 0 ; }}",
        ),
        ("a", f"nft add rule netdev faults in {rule}"),
    )


def shaped(qdisc: str, search: str) -> Fault:
    """Return a case with a shaper of the lab at 100 000 frames/s, with the verdict of a whole search."""
    shape = f", shape: {{at: a.eth1, qdisc: {qdisc}, rate: 48mbit}}"
    name = f"a shaper at the found rate: {qdisc}, {search}"
    return Fault(name, ("shaper a.eth1",), lab={"shape": shape, "measure": SEARCH + search})


FAULTS = (
    Fault("a slow hop: tbf at a.eth1", ("a.eth1",), (
        ("a", "tc qdisc add dev eth1 root tbf rate 30mbit burst 4k limit 8k"),)),
    Fault("a slow hop: htb at b.eth1", ("b.eth1",), (
        ("b", "tc qdisc add dev eth1 root handle 1: htb default 1"),
        ("b", "tc class add dev eth1 parent 1: classid 1:1 htb rate 20mbit burst 4k quantum 1514"),
        ("b", "tc qdisc add dev eth1 parent 1:1 pfifo limit 20"))),
    Fault("a qdisc that drops everything at b.eth1", ("b.eth1",), (
        ("b", "tc qdisc add dev eth1 root bfifo limit 100"),)),
    Fault("a short queue: tbf with room for two frames at a.eth1", ("a.eth1",), (
        ("a", "tc qdisc add dev eth1 root tbf rate 70mbit burst 1600 limit 1600"),)),
    Fault("a wrong MTU at b.eth1", ("b.eth1",), (("b", "ip link set eth1 mtu 300"),)),
    Fault("a wrong MTU at a.eth1", ("a.eth1",), (("a", "ip link set eth1 mtu 400"),)),
    Fault("a port that is down: a.eth1", ("a.eth1",), (("a", "ip link set eth1 down"),)),
    Fault("a port outside the bridge: b.eth0", ("b.eth0",), (("b", "ip link set eth0 nomaster"),)),
    Fault("forwarding switched off in router a", ("a.eth0",), (
        ("a", "sysctl -q -w net.ipv4.ip_forward=0"),), {"a": "route"}),
    Fault("no route in router a", ("a.eth0",), (("a", "ip route flush table main"),), {"a": "route"}),
    Fault("a device that forwards 5 000 frames/s", ("b.eth0",),
          lab={"b": "xdp", "device": ", device: {rate: 5000pps, burst: 32}"}),
    Fault("a device that loses 1 frame in 100", ("b.eth0",),
          lab={"b": "xdp", "device": ", device: {lose_every: 100}"}),
    Fault("more than the generator can send", ("generator",), fps=30_000_000.0),
    Fault("a busy CPU under the device", ("a.eth0", "b.eth0"), hog=("device", 0.5, 0.02), fps=100_000.0),
    Fault("a slow receiver", ("receiver", "tester.p1"), lab={"more": ", path: af_packet, scheduling: normal"},
          hog=("receive", 0.08, 0.02), fps=100_000.0),
    *(shaped(qdisc, search) for qdisc in ("tbf", "htb") for search in ("fast", "mlr", "bisect")),
    Fault("a rule that drops 1 %", ("rule a.eth0",), nft("eth0", "numgen random mod 100 0 drop"),
          duration_ns=3_000_000_000),
    Fault("a policer of 10 000 frames/s", ("rule a.eth0",), nft("eth0", "limit rate over 10000/second drop")),
    Fault("every 50th frame damaged", ("damage ",), nft("eth0", "numgen inc mod 50 0 @th,512,32 set 0xdead")),
    Fault("one flow of eight dropped", ("flows a.eth0",), nft("eth0", "udp sport 1027 drop"),
          lab={"more": ", flows: 8"}),
    Fault("a shaper, and a rule that drops 1 %", ("shaper a.eth1",), (
        *nft("eth0", "numgen random mod 100 0 drop"),
        ("a", "tc qdisc add dev eth1 root tbf rate 40mbit burst 4k limit 8k"))),
    Fault("other traffic into the same short queue", ("shaper a.eth1",), (
        ("a", "tc qdisc add dev eth1 root tbf rate 80mbit burst 4k limit 8k"),), foreign_fps=20_000.0),
    Fault("a busy CPU under the sender", ("sender", "generator"), hog=("send", 0.02, 0.1), fps=50_000.0),
)  # fmt: skip
GUEST_FPS = 4_000.0
"""Rate that an emulated guest forwards without loss on a busy host [frames/s]."""
GUEST_FAULTS = tuple(
    replace(fault, name=f"guest: {fault.name}, {fault.nic}", fps=fault.fps if fault.fps != 20_000.0 else GUEST_FPS)
    for fault in (
        Fault("a short ring in the guest", ("dut.eth0",), (
            ("dut", "ethtool -G eth0 rx 80"),), fps=80_000.0, nic="e1000"),
        Fault("a short queue before the guest", ("dut.eth0",), (
            ("tester", "ip link set p0 txqueuelen 1"),), fps=30_000.0, nic="virtio-net"),
        Fault("a hog on the CPU of its threads", ("dut",), hog=("guest", 0.5, 0.01), nic="virtio-net",
              fps=20_001.0, lab={"pin": "[1]"}),
        Fault("a hog on the CPU of its threads", ("dut",), hog=("guest", 0.5, 0.01), nic="e1000",
              fps=20_001.0, lab={"pin": "[1]"}),
        Fault("its threads on the sender's CPU", ("of the time; the same CPU also ran generator",), (
            ("", "taskset -a -p -c @sender @hypervisor"),), fps=400_000.0, nic="virtio-net"),
        Fault("stopped for a second", ("dut",), stopped_s=(0.5, 1.0), fps=10_000.0, nic="virtio-net"),
        Fault("stopped for good", ("dut",), stopped_s=(0.3, 30.0), nic="virtio-net"),
        Fault("a backlog of one packet in the guest", ("dut cpu", "dut.eth0"), (
            ("dut", "sysctl -q -w net.core.netdev_max_backlog=1"),
            ("dut", "sh -c 'echo 1 > /sys/class/net/eth0/queues/rx-0/rps_cpus'")), nic="virtio-net"),
        Fault("a wrong MTU at eth1", ("dut.eth1",), (("dut", "ip link set eth1 mtu 300"),), nic="virtio-net"),
        Fault("a wrong MTU at eth1", ("dut.eth1",), (("dut", "ip link set eth1 mtu 300"),), nic="e1000"),
        Fault("eth1 is down", ("dut.eth1",), (("dut", "ip link set eth1 down"),), nic="virtio-net"),
        Fault("eth0 is down", ("dut.eth0",), (("dut", "ip link set eth0 down"),), nic="virtio-net"),
        Fault("eth0 is down", ("dut.eth0",), (("dut", "ip link set eth0 down"),), nic="e1000"),
        Fault("a slow qdisc at eth1", ("dut.eth1",), (
            ("dut", "tc qdisc add dev eth1 root tbf rate 4mbit burst 4k limit 8k"),), nic="virtio-net"),
        Fault("a qdisc that drops everything at eth1", ("dut.eth1",), (
            ("dut", "tc qdisc add dev eth1 root bfifo limit 100"),), nic="e1000"),
        Fault("eth0 outside the bridge", ("dut.eth0",), (("dut", "ip link set eth0 nomaster"),), nic="virtio-net"),
        Fault("the bridge does not forward to eth1", ("dut.eth1",), (
            ("dut", "bridge link set dev eth1 state 0"),), nic="virtio-net"),
        Fault("more than it can forward", ("dut",), fps=200_000.0, nic="e1000"),
    )
)  # fmt: skip
