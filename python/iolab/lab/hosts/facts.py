"""What a host is and can do: the agent's `facts.read` and `hello` as one frozen value."""

from collections.abc import Mapping
from dataclasses import field
from functools import cache

from pydantic import TypeAdapter, ValidationError

from iolab.errors import AgentError
from iolab.frozen import frozen
from iolab.locale import Phrase


@frozen(kw_only=True)
class InterfaceFact:
    """A network interface that the host had before any lab."""

    name: str
    """Interface name."""
    driver: str | None = None
    """Kernel driver, where it tells."""
    mtu: int
    """Maximum transmission unit [bytes]."""
    up: bool
    """Whether it is administratively up."""
    numa_node: int | None = None
    """NUMA node of its device; None: it has no device, or the computer one node."""
    driver_version: str | None = None
    """Of its driver, where it tells."""
    firmware: str | None = None
    """Version of its device's firmware, where it has some."""
    coalescing: Mapping[str, str] = field(default_factory=dict)
    """Interrupt coalescing, as `ethtool -c` names it; what the card does not have is absent."""
    pause: Mapping[str, bool] = field(default_factory=dict)
    """Pause frames (IEEE 802.3x): autoneg, rx, tx; empty: the card has none."""
    manager: str | None = None
    """The daemon that manages it; None: no daemon is known to."""


@frozen(kw_only=True)
class UsedNetwork:
    """An IPv4 network of a computer's addresses and routes."""

    network: str
    """With its prefix length."""
    interface: str
    """The interface it is reached by; empty: none."""


@frozen(kw_only=True)
class IdleState:
    """A state that an idle CPU may sleep in (a C-state)."""

    name: str
    """As the kernel calls it."""
    exit_latency_ns: int
    """How long leaving it takes [ns]."""


@frozen(kw_only=True)
class ProcessorFacts:
    """How the processors are set; CPUs are lists as the kernel writes them."""

    online: str | None = None
    """CPUs online; None: not known."""
    smt: bool | None = None
    """Whether a core runs several threads; None: the kernel does not tell."""
    cores: tuple[str, ...] = ()
    """CPUs of each core."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """CPUs of each NUMA node."""
    driver: str | None = None
    """What sets the frequency; None: nothing does."""
    governors: Mapping[str, str] = field(default_factory=dict)
    """Governor to the CPUs that have it."""
    available_governors: tuple[str, ...] = ()
    """Governors that can be set."""
    turbo: bool | None = None
    """Whether cores may run above their nominal frequency; None: the kernel does not tell."""
    idle_driver: str | None = None
    """What puts idle CPUs to sleep; None: nothing does."""
    idle_states: tuple[IdleState, ...] = ()
    """States that are enabled."""


@frozen(kw_only=True)
class ImageFact:
    """A guest image that can be started here."""

    flavour: str
    """As an experiment names it: linux, nested, xen."""
    features: Mapping[str, bool] = field(default_factory=dict)
    """Feature, named as in `Facts.features`, to whether its kernel has it; absent: it was not looked for."""
    packages: tuple[str, ...] = ()
    """Debian packages in it; none: not known."""
    programs: Mapping[str, bool] = field(default_factory=dict)
    """Program that the experiment names to whether it is there; absent: nobody looked."""


@frozen(kw_only=True)
class Facts:
    """One host, as its agent sees it."""

    hostname: str
    """The host's name."""
    kernel: str
    """Release, as uname -r."""
    architecture: str
    """As uname -m."""
    os: str
    """Distribution."""
    cpu_model: str
    """As the CPU calls itself."""
    cpus: int
    """CPUs online."""
    memory_bytes: int
    """RAM [bytes]."""
    clocksource: str
    """The kernel's clock source."""
    virtualization: str | None = None
    """The hypervisor below; None: none seen."""
    load_1min_milli: int
    """Load average over one minute, times 1000."""
    interfaces: tuple[InterfaceFact, ...] = ()
    """In the agent's own namespace."""
    programs: Mapping[str, str | None] = field(default_factory=dict)
    """Program to its version line; None: not installed."""
    features: Mapping[str, bool | None] = field(default_factory=dict)
    """Kernel feature (link:vlan, qdisc:htb, filter:u32) to whether it can be made; None: could not be tried."""
    settings: Mapping[str, str | None] = field(default_factory=dict)
    """Kernel setting to its value."""
    images: tuple[ImageFact, ...] = ()
    """Guest images that are built."""
    rootless: bool = False
    """The agent lives in user and network namespaces of its own."""
    uid: int = 0
    """User that the agent runs as."""
    capabilities: tuple[str, ...] = ()
    """What the agent can do there, by the names in its greeting."""
    control_interfaces: tuple[str, ...] = ()
    """Interfaces that carry connections by ssh which the run, or its user, hangs on."""
    networks: tuple[UsedNetwork, ...] = ()
    """IPv4 networks that it uses outside of labs, but for the default route."""
    processors: ProcessorFacts = ProcessorFacts()
    """How they are set."""
    daemons: tuple[str, ...] = ()
    """Those that run of the ones that move interrupts or set interfaces."""
    permitted_settings: tuple[str, ...] = ()
    """Kernel settings that the user lets an experiment set beyond those that every one may; no fact of the host."""
    hosts: Mapping[str, "Facts"] = field(default_factory=dict)
    """Of the other hosts of the lab that were reached, by machine's name."""


def cpu_list(text: str) -> list[int]:
    """Return the CPUs of a list as the kernel writes it: 0,2-4."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def decode_facts(hello_params: Mapping[str, object], result: Mapping[str, object]) -> Facts:
    """Return the facts from the agent's `hello` params and `facts.read` result; unknown fields are left out.

    Raises:
        AgentError: something is missing or of another type.
    """
    known = {name: value for name, value in result.items() if name in Facts.__dataclass_fields__}
    about_agent = {
        name: hello_params[name] for name in ("rootless", "uid", "capabilities") if name in hello_params
    }
    try:
        return _adapter().validate_python(known | about_agent)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        message, seen = first["msg"].lower(), repr(first["input"])[:200]
        raise AgentError(
            Phrase("lab.host-facts-unreadable", place=place, message=message, seen=seen)
        ) from None


CONGESTION_LOADED = "/proc/sys/net/ipv4/tcp_available_congestion_control"
"""Where the kernel lists what it has loaded of what may control TCP's congestion, among the settings of the facts."""
ONLINE_CPUS = "/sys/devices/system/cpu/online"
"""Where the kernel lists them, among the settings of the facts."""


@cache
def _adapter() -> TypeAdapter[Facts]:
    """Return what validates facts; it takes longer to make than many a command that needs none."""
    return TypeAdapter(Facts)
