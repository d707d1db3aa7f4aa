"""What can be measured: one model per kind of iolab's own; other packages bring theirs."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from iolab.experiment.fio import Fio
from iolab.experiment.frame_flows import MOST_FLOWS, FlowRules, Payload, PayloadPattern
from iolab.experiment.instruments import (
    SAMPLE_NS,
    Captures,
    Instruments,
    Samplers,
    Watches,
    WithInstrument,
)
from iolab.experiment.quantities import (
    FROZEN,
    BitsPerSecond,
    BlockBytes,
    Count,
    FrameRate,
    Maybe,
    Period,
    Ratio,
    Share,
    SomeNanoseconds,
    SomeWholeSeconds,
    WholeSeconds,
    Window,
    WriteLength,
)
from iolab.experiment.recordings import Replay
from iolab.registry.registry import instrument_kinds
from iolab.registry.searches import SearchKind

PacketDirection = Literal["one-way", "both-ways"]
Direction = Literal["one-way", "both-ways", "dual"]
"""both-ways: both directions at once through one iperf3 pair (--bidir); dual: two independent pairs at once."""


class Measure(BaseModel):
    """What all measures have in common: a name for their kind, and what stands beside them."""

    model_config = FROZEN  # built late: which instruments there are is known when a file is read
    kind: str
    """What is measured."""
    sample: Maybe[Period] = SAMPLE_NS
    """How often the counters of every kernel are read while it runs: short for an instrument of kind samplers."""
    watch: Watches = ()
    """Wire monitors: short for instruments of kind watch."""
    capture: Captures = ()
    """Captures of ports: short for instruments of kind capture."""
    instruments: Instruments = ()
    """What stands beside the measure, each with its `kind`."""

    @property
    def sets_each_load(self) -> bool:
        """Whether it sets how much each direction sends: both ways then offers twice as much as one way."""
        return False

    def beside(self) -> tuple[WithInstrument, ...]:
        """Return the instruments that stand beside it, those that always do first."""
        asked = {one.kind for one in self.instruments}
        always = (row.model() for row in instrument_kinds().values() if row.always and row.name not in asked)
        sampled = () if self.sample is None else (Samplers.model_construct(period=self.sample),)
        return (*always, *sampled, *self.watch, *self.capture, *self.instruments)


class Flow(BaseModel):
    """One sender and one receiver: machines, or machine.port where a machine has several."""

    model_config = FROZEN
    src: str = Field(alias="from")
    """Sender."""
    dst: str = Field(alias="to")
    """Receiver."""


class Stream(Measure):
    """TCP or UDP between machines, by iperf3."""

    kind: Literal["stream"]
    """What is measured."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """What carries it."""
    src: Maybe[str] = Field(default=None, alias="from")
    """Sender: a machine, or machine.port."""
    dst: Maybe[str] = Field(default=None, alias="to")
    """Receiver: a machine, or machine.port; the sender itself, where that is a host: over its loopback interface."""
    on: Maybe[str] = None
    """The machine measured from, where `from` is absent."""
    flows: tuple[Flow, ...] = ()
    """Several flows at once; instead of from and to."""
    direction: Direction = "one-way"
    """Who sends."""
    duration: SomeWholeSeconds = 10_000_000_000
    """Of the measurement."""
    warm_up: WholeSeconds = 0
    """Left out of the result, before `duration`."""
    rate: Maybe[BitsPerSecond] = None
    """Intended rate; absent: as fast as it goes."""
    congestion: Maybe[Annotated[str, Field(pattern=r"^[a-z0-9_]{1,15}$", strict=True)]] = None
    """What controls TCP's congestion, such as cubic or bbr; absent: as the sender's kernel has it."""
    window: Maybe[Window] = None
    """Socket buffers, which bound the TCP window; absent: the kernel tunes them."""
    length: Maybe[WriteLength] = None
    """Bytes per write, for UDP per datagram; absent: what fits the path's MTU."""
    parallel: Count = Field(default=1, ge=1, le=128)
    """Connections per flow."""
    ip: Maybe[Literal[4, 6]] = None
    """Version of IP, where links have both; absent: the one they have, of both 4."""
    port: Maybe[Annotated[int, Field(ge=1, le=65_000, strict=True)]] = None
    """Of the first receiver, TCP or UDP; further flows have the ports after it. Absent: 5201, iperf3's own; of several
    streams at once the second begins at 5401, and so on."""

    @property
    def sets_each_load(self) -> bool:
        """See Measure."""
        return self.rate is not None


FrameSize = Annotated[int, Field(ge=64, le=9216, strict=True)]
"""An Ethernet frame with its checksum (RFC 2544) [bytes]."""


class Packets(Measure):
    """What all measures have in common that send frames of our own."""

    src: str = Field(alias="from")
    """Sender: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Receiver: a machine, or machine.port."""
    pairs: tuple[Flow, ...] = ()
    """Further senders and receivers, at once and at the same rate; the rate is that of all. May hold the first, too."""
    frame_size: FrameSize | Literal["imix"] = 64
    """Ethernet frame with its checksum (RFC 2544) [bytes]; imix: 7 of 64, 4 of 594, 1 of 1518 in turn."""
    direction: PacketDirection = "one-way"
    """Who sends; both-ways: both at once, each at half of the rate."""
    flows: Count = Field(default=1, ge=1, le=MOST_FLOWS)
    """Different source addresses and source ports, one after the other: a card has one queue for each flow."""
    flow_rules: Maybe[FlowRules] = None
    """Which addresses and ports flows have; both-ways: of the first direction, the other has them swapped."""
    ip: Literal[4, 6] = 4
    """Version of the Internet protocol of the flows."""
    protocol: Literal["udp", "tcp", "icmp"] = "udp"
    """What carries the payload: tcp: segments with ACK alone; icmp: echo requests."""
    tunnel: Maybe[Literal["vxlan", "gre"]] = None
    """What stands around the packets of the flows, between the addresses of sender and receiver."""
    tunnel_ip: Literal[4, 6] = 4
    """Version of the Internet protocol of the tunnel."""
    vni: Count = Field(default=1, ge=0, le=(1 << 24) - 1)
    """Segment of a vxlan tunnel."""
    replay: Maybe[Replay] = None
    """Frames of a capture, sent in place of frames of our own."""
    payload: PayloadPattern = Payload()
    """What frames are filled with behind headers and stamp."""
    vlan: Maybe[Annotated[int, Field(ge=0, le=4094, strict=True)]] = None
    """Tag of the frames; absent: that of the link."""
    line_rate: Maybe[BitsPerSecond] = None
    """Of the line, preamble and gaps included: no load is above it, and percents of a rate are of it."""
    spacing: Literal["clock", "gap-frames"] = "clock"
    """What spaces frames. gap-frames: the line of `line_rate`, kept full by PAUSE frames of no time, to the byte."""
    max_burst: Count = Field(default=1, ge=1, le=64)
    """Most frames that leave at once [frames]."""
    catch_up: Count = Field(default=64, ge=0, le=1_000_000)
    """Most frames sent late after a stall of the sender, at up to twice the rate; the rest stays unsent [frames]."""
    senders: Annotated[int, Field(ge=1, le=64, strict=True)] | Literal["auto"] = 1
    """Threads that send a direction, each by a transmit queue of its own; `flows` is a multiple. auto: by free CPUs."""
    path: Literal["auto", "af_xdp", "af_packet", "bpf_live"] = "auto"
    """How frames reach the interface. auto: af_xdp where it works; bpf_live where it is found faster and as even."""
    scheduling: Literal["realtime", "normal"] = "realtime"
    """Of the instrument's threads and of those that take frames in; an ordinary user's are normal."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the load is looked for, not given."""
        return False


class Forwarding(Packets):
    """Highest rate with loss within `loss_ratio` (RFC 2544)."""

    kind: Literal["forwarding"]
    """What is measured."""
    search: SearchKind = "fast"
    """How the highest rate is looked for: RFC 2544 bisection, MLRsearch, or iolab's own."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss: `bisect` wants less, as testers do (and none where it is 0), the others no more."""
    width: Annotated[Ratio, Field(gt=0, lt=1)] = 0.01
    """How far apart the bounds may stay, of the upper one."""
    trial: SomeNanoseconds = 1_000_000_000
    """Length of one trial of the search; `fast` chooses its own."""
    trials: Count = Field(default=1, ge=1, le=100)
    """Whole searches by `bisect`: gives mean, least and largest; the others run one."""
    start: Maybe[FrameRate] = None
    """First load by `bisect`; absent: the highest that is possible."""
    reruns: Count = Field(default=2, ge=0, le=10)
    """How often a trial that lost frames is run again because the host was disturbed."""
    limit: SomeNanoseconds = 600_000_000_000
    """Longest time of a search; it ends with the bounds known then."""
    latency_at: tuple[Share, ...] = (0.0, 0.1, 0.5, 0.9)
    """Shares of the found rate at which latency is measured; 0: idle, 1000 frames/s. Empty: not at all."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the load is looked for, not given."""
        return True


class LoadCurve(Packets):
    """Forwarded rate, loss, latency and CPU against offered load."""

    kind: Literal["load-curve"]
    """What is measured."""
    rate: Maybe[FrameRate] = None
    """What 100 % is; absent: the highest rate with loss within `loss_ratio`, looked for first."""
    loss_ratio: Ratio = 0.0001
    """Acceptable loss, where the rate is looked for."""
    steps: Annotated[tuple[Share, ...], Field(min_length=1)] = (
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2,
    )  # fmt: skip
    """Loads, as shares of the rate."""
    trial: SomeNanoseconds = 1_000_000_000
    """Length of one step."""

    @property
    def seeks_rate(self) -> bool:
        """Whether the load is looked for, not given."""
        return self.rate is None


class Latency(Packets):
    """One-way latency at a given rate."""

    kind: Literal["latency"]
    """What is measured."""
    rate: Maybe[FrameRate] = None
    """Intended rate; absent, of a recording with its times: as recorded."""
    duration: SomeNanoseconds = 10_000_000_000
    """Of the measurement."""


class DiskMeasure(Measure):
    """A disk program on a machine."""

    kind: Literal["disk"]
    """What is measured."""
    on: str
    """The machine whose disk is measured."""
    program: Literal["hdparm", "thput-fsys", "bonnie++", "fio", "flush-check"]
    """What measures. flush-check: whether what the disk acknowledged as flushed would be there after a crash."""
    profile: Maybe[Literal["legacy-2006", "honest", "modern", "hdparm", "steady-state"]] = None
    """Definitions of 2006; the same on cold caches with incompressible data; also past the page cache. Absent: the
    packaged program as it is, thput-fsys by its definition, fio as `modern`. Of fio alone: `hdparm`, its two timings;
    `steady-state`, rounds until five of them are alike."""
    fio: Maybe[Fio] = None
    """What fio does; absent: as its profile says."""
    size: Maybe[BlockBytes] = None
    """Of the file that is written and read; absent: 1G, with flush-check 16M. hdparm reads the disk itself; so do
    flush-check, and fio where the disk has no file system, from its beginning."""
    memory: Maybe[BlockBytes] = None
    """What thput-fsys or bonnie++ may have of its kernel's memory, the page cache of its files among it, so that the
    disk is read though the memory could hold the file. Absent: half of the file with `legacy-2006`, as bonnie++ asks
    for a file of twice the memory; all of it else."""
    files: Maybe[Annotated[int, Field(ge=0, le=1 << 20, multiple_of=1024, strict=True)]] = None
    """Small files that bonnie++ makes; 0: none; absent: 16384."""
