"""The facts about a host: the results of the agent's `facts.read` and `hello` as one frozen value."""

from collections.abc import Mapping
from dataclasses import field
from functools import cache

from pydantic import TypeAdapter, ValidationError

from iolab.errors import AgentError
from iolab.frozen import frozen
from iolab.locale import Phrase


@frozen(kw_only=True)
class InterfaceFact:
    """A network interface that existed on the host before any lab."""

    name: str
    """Name of the interface."""
    driver: str | None = None
    """Kernel driver, if known."""
    mtu: int
    """Maximum transmission unit [bytes]."""
    up: bool
    """Whether the interface is administratively up."""
    numa_node: int | None = None
    """NUMA node of the device; None: the interface has no device, or the host has only one node."""
    driver_version: str | None = None
    """Version of the driver, if known."""
    firmware: str | None = None
    """Firmware version of the device, if it has one."""
    coalescing: Mapping[str, str] = field(default_factory=dict)
    """Interrupt coalescing settings, named as in `ethtool -c`; unsupported ones are absent."""
    pause: Mapping[str, bool] = field(default_factory=dict)
    """Pause frame settings (IEEE 802.3x): autoneg, rx, tx; empty: not supported."""
    manager: str | None = None
    """Daemon that manages the interface; None: no known daemon does."""


@frozen(kw_only=True)
class UsedNetwork:
    """An IPv4 network in a host's addresses and routes."""

    network: str
    """Network with its prefix length."""
    interface: str
    """Interface towards the network; empty: no interface leads to it."""


@frozen(kw_only=True)
class IdleState:
    """An idle state of a CPU (C-state)."""

    name: str
    """The kernel's name of the state."""
    exit_latency_ns: int
    """Exit latency [ns]."""


@frozen(kw_only=True)
class ProcessorFacts:
    """Processor settings; CPU lists are in kernel syntax."""

    online: str | None = None
    """Online CPUs; None: unknown."""
    smt: bool | None = None
    """Whether a core runs several threads; None: unknown."""
    cores: tuple[str, ...] = ()
    """CPUs of each core."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """CPUs of each NUMA node."""
    driver: str | None = None
    """Frequency driver; None: the host has no frequency driver."""
    governors: Mapping[str, str] = field(default_factory=dict)
    """CPUs that use each governor, by the governor's name."""
    available_governors: tuple[str, ...] = ()
    """Governors that can be set."""
    turbo: bool | None = None
    """Whether cores may run above their nominal frequency; None: unknown."""
    idle_driver: str | None = None
    """Idle driver; None: the host has no idle driver."""
    idle_states: tuple[IdleState, ...] = ()
    """Enabled idle states."""


@frozen(kw_only=True)
class ImageFact:
    """A guest image that can be started on the host."""

    flavour: str
    """Name in the experiment: linux, nested, xen."""
    features: Mapping[str, bool] = field(default_factory=dict)
    """Whether the image's kernel has each feature, by the feature's name in `Facts.features`; absent: not tested."""
    packages: tuple[str, ...] = ()
    """Debian packages in the image; none: unknown."""
    programs: Mapping[str, bool] = field(default_factory=dict)
    """Whether the image contains each program of the experiment, by program; absent: not tested."""


@frozen(kw_only=True)
class Facts:
    """The facts about one host, as its agent reports them."""

    hostname: str
    """Host name."""
    kernel: str
    """Kernel release, as in uname -r."""
    architecture: str
    """Architecture, as in uname -m."""
    os: str
    """Distribution."""
    cpu_model: str
    """CPU model name."""
    cpus: int
    """Number of online CPUs."""
    memory_bytes: int
    """Size of the RAM [bytes]."""
    clocksource: str
    """Clock source of the kernel."""
    virtualization: str | None = None
    """Hypervisor below the host; None: no hypervisor was detected."""
    load_1min_milli: int
    """One-minute load average, times 1000."""
    interfaces: tuple[InterfaceFact, ...] = ()
    """Interfaces in the agent's namespace."""
    programs: Mapping[str, str | None] = field(default_factory=dict)
    """Version line of each program; None: the program is not installed."""
    features: Mapping[str, bool | None] = field(default_factory=dict)
    """Whether each kernel feature (link:vlan, qdisc:htb, filter:u32) works; None: the feature could not be tested."""
    settings: Mapping[str, str | None] = field(default_factory=dict)
    """Value of each kernel setting."""
    images: tuple[ImageFact, ...] = ()
    """Available guest images."""
    rootless: bool = False
    """Whether the agent runs in separate user and network namespaces."""
    uid: int = 0
    """User ID of the agent."""
    capabilities: tuple[str, ...] = ()
    """Capabilities of the agent, by the names in its greeting."""
    control_interfaces: tuple[str, ...] = ()
    """Interfaces that carry ssh connections of the run or of its user."""
    networks: tuple[UsedNetwork, ...] = ()
    """IPv4 networks in use outside of labs, without the default route."""
    processors: ProcessorFacts = ProcessorFacts()
    """Processor settings."""
    daemons: tuple[str, ...] = ()
    """Running daemons that move interrupts or configure interfaces."""
    permitted_settings: tuple[str, ...] = ()
    """Additional kernel settings that the user permits in an experiment; this field is not a property of the host."""
    hosts: Mapping[str, "Facts"] = field(default_factory=dict)
    """Facts about the other hosts of the lab that were reached, by machine name."""


def cpu_list(text: str) -> list[int]:
    """Return the CPUs in a list in kernel syntax: 0,2-4."""
    found: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def decode_facts(hello_params: Mapping[str, object], result: Mapping[str, object]) -> Facts:
    """Return the facts from the agent's `hello` parameters and `facts.read` result; unknown fields are ignored.

    Raises:
        AgentError: a field is missing or has the wrong type.
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
"""Setting in the facts that lists the congestion control algorithms that the kernel has loaded."""
ONLINE_CPUS = "/sys/devices/system/cpu/online"
"""Setting in the facts that lists the online CPUs."""


@cache
def _adapter() -> TypeAdapter[Facts]:
    """Return the validator of facts, which is built on first use, because building takes longer than many commands."""
    return TypeAdapter(Facts)
