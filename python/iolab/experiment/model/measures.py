"""What can be measured: one model per kind of iolab's own, but for those that send frames of our own.

Other packages bring theirs.
"""

from hashlib import blake2b
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import JsonSchemaValue

from iolab.experiment.model.files import Fio
from iolab.experiment.model.instruments import (
    SAMPLE_NS,
    Captures,
    Instruments,
    Samplers,
    Watches,
    WithInstrument,
)
from iolab.experiment.model.machines import Ready
from iolab.experiment.model.quantities import (
    FROZEN,
    BitsPerSecond,
    BlockBytes,
    Count,
    Flag,
    Maybe,
    Nanoseconds,
    Offset,
    Period,
    Setting,
    Shorthand,
    SomeInterval,
    SomeNanoseconds,
    SomeWholeSeconds,
    WholeSeconds,
    Window,
    WriteLength,
    unset,
)
from iolab.registry.disk_programs import DiskProfile, DiskProgramName
from iolab.registry.registry import instrument_kinds

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


class DiskMeasure(Measure):
    """A disk program on a machine."""

    kind: Literal["disk"]
    """What is measured."""
    on: str
    """The machine whose disk is measured."""
    program: DiskProgramName
    """What measures. flush-check: whether what the disk acknowledged as flushed would be there after a crash."""
    profile: Maybe[DiskProfile] = None
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


def direction_of(measure: Measure) -> str:
    """Return one-way, both-ways or dual; empty: the measure has no direction."""
    return getattr(measure, "direction", "")


def beside_direction(lab_key: str, measure: Measure) -> str:
    """Return a digest of a lab and a measure without its direction: where it is equal nothing else differs."""
    rest = measure.model_dump_json(exclude={"direction"})
    return blake2b(f"{lab_key} {measure.kind} {rest}".encode(), digest_size=16).hexdigest()


FigureName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$", strict=True)]
"""What a figure is called: small letters, digits and _."""

Unit = Annotated[str, Field(min_length=1, max_length=24, strict=True)]
"""As the program counts: 1/s, ms, MB/s, ratio, count. s, ns, bit/s, B/s and ratio are scaled in reports."""


class Program(BaseModel):
    """A program on a machine. In its words, standard input and environment {far} and {far.eth0} are addresses."""

    model_config = FROZEN
    on: str
    """The machine that it runs on."""
    run: tuple[Setting, ...] = ()
    """The program and its arguments, a word each; no shell reads them."""
    shell: Maybe[str] = None
    """A text that `sh -c` reads; instead of `run`."""
    environment: dict[str, Setting] = Field(default_factory=dict)
    """Added to its environment; without a word about it LC_ALL is C."""
    stdin: Maybe[str] = None
    """Its standard input; absent: empty."""
    folder: Maybe[str] = None
    """Where it runs; absent: an empty folder of its own in memory, which goes with the trial."""


class Server(Program):
    """A program that is started before a trial's own and stopped after it."""

    ready: Ready = unset(Ready)
    """When the trial goes on; absent: as soon as it was started."""
    within: SomeNanoseconds = 30_000_000_000
    """Longest time until it is ready."""


class Figure(BaseModel):
    """A number in the output of a program: found by one of `path`, `pattern`, `column`."""

    model_config = FROZEN
    unit: Unit
    """As the program counts."""
    better: Maybe[Literal["larger", "smaller"]] = None
    """Which of two values is the better one: reports then say of a change whether it is for the better."""
    path: Maybe[str] = None
    """JSONPath (RFC 9535): the output is JSON, and the query finds one number."""
    pattern: Maybe[str] = None
    """Regular expression: matches once, and its group `value`, or its only group, is the number.

    A group `unit` is the unit that the program wrote (us, ms, s, Mbit/s): the number is given in the figure's own."""
    column: Maybe[str] = None
    """The output is CSV with a head and one row: the number in the column of this name."""
    per_line: Maybe[Period] = None
    """There are several numbers, such a time apart: the figure is their mean, and a series over time is kept."""


class CommandMeasure(Measure, Program):
    """A program of the user's own."""

    model_config = FROZEN
    kind: Literal["command"]
    """What is measured."""
    timeout: SomeNanoseconds = 60_000_000_000
    """Longest time that it may take; one that takes longer is killed, and the trial fails."""
    duration: SomeNanoseconds = 10_000_000_000
    """How long it takes, about: what plans are timed by."""
    ip: Maybe[Literal[4, 6]] = None
    """Version of IP of the addresses that stand for names, where links have both; absent: 4."""
    exit_status: Count = Field(default=0, ge=0, le=255)
    """How it ends where it did its part."""
    servers: dict[FigureName, Server] = Field(default_factory=dict)
    """Programs beside it, by name, started in this order."""
    metrics: dict[FigureName, Figure] = Field(default_factory=dict)
    """Its figures, by name; the first leads. Absent: how long it took."""


LEAST_PARTS, MOST_PARTS = 2, 16
"""Of one trial."""


def _at_once(value: object) -> object:
    """Turn a list of names into a mapping: all of them begin at once."""
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        return value
    return dict.fromkeys(value, 0) if len(set(value)) == len(value) else value


def _names(_: JsonSchemaValue) -> JsonSchemaValue:
    length = {"minItems": LEAST_PARTS, "maxItems": MOST_PARTS}
    return {"type": "array", "items": {"type": "string"}, **length, "uniqueItems": True}


class Together(Measure):
    """Measures that are taken at the same time, each as if it stood alone: load, and what looks at it."""

    kind: Literal["together"]
    """What is measured."""
    of: Annotated[
        dict[str, Maybe[Offset]],
        Shorthand(_at_once, _names),
        Field(min_length=LEAST_PARTS, max_length=MOST_PARTS),
    ]
    """Names of measures, each with when it begins: 0s, 5s, -5s; none: not at all. A list of names: all at 0s.
    They are taken only so."""


MOST_BYTES = 16 << 20
"""Of a request or response over TCP."""

Payload = Annotated[int, Field(ge=24, le=65_507, strict=True)]
"""Behind the header of ICMP or UDP [bytes]."""

Port = Annotated[int, Field(ge=1, le=65_000, strict=True)]
"""Of TCP or UDP."""


class RoundTrips(Measure):
    """What both kinds have in common."""

    src: str = Field(alias="from")
    """Who asks: a machine, or machine.port."""
    dst: str = Field(alias="to")
    """Who answers: a machine, or machine.port."""
    duration: SomeNanoseconds = 10_000_000_000
    """Of the measurement."""
    warm_up: Nanoseconds = 0
    """Left out of the result, before `duration`."""
    ip: Maybe[Literal[4, 6]] = None
    """Version of IP, where links have both; absent: the one they have, of both 4."""
    port: Maybe[Port] = None
    """Where the answering end listens; absent: 5801, of several at once the second 5802, and so on."""


class Ping(RoundTrips):
    """Echo requests at equal distances, answered or not: round-trip times and loss of a path."""

    kind: Literal["ping"]
    """What is measured."""
    protocol: Literal["icmp", "udp"] = "icmp"
    """icmp: the kernel of the other end answers. udp: a program there does."""
    interval: SomeInterval = 1_000_000
    """From one request to the next."""
    size: Payload = 56
    """Payload behind the header of ICMP or UDP [bytes]."""
    wait: SomeNanoseconds = 1_000_000_000
    """How long an answer may take, after the last request."""


class RequestResponse(RoundTrips):
    """Transactions: a request, its response, the next request."""

    kind: Literal["rr"]
    """What is measured."""
    protocol: Literal["tcp", "udp"] = "tcp"
    """What carries them."""
    connections: Count = Field(default=1, ge=1, le=256)
    """Each has one request under way at a time, and a thread at both ends."""
    request: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] = 64
    """Of a request; over UDP from 24 to 65507 [bytes]."""
    response: Annotated[int, Field(ge=1, le=MOST_BYTES, strict=True)] = 64
    """Of a response; over UDP from 24 to 65507 [bytes]."""
    connect_each: Flag = False
    """Open a connection for each request (TCP)."""
    per_second: Maybe[Annotated[int, Field(ge=1, le=10_000_000, strict=True)]] = None
    """Intended transactions of all connections together; latency then counts from the time that each was meant for.
    Absent: as fast as responses come."""
    timeout: SomeNanoseconds = 1_000_000_000
    """A response that takes longer is lost (UDP), or fails the trial (TCP, after ten times as long)."""
