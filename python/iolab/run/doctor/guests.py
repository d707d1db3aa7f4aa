"""Whether guests can run on a host: hypervisor, images, accelerator (by a real boot), what carries cards, Xen."""

from iolab.agent.client import Agent
from iolab.agent.transport import find_agent
from iolab.errors import UnsupportedError
from iolab.image.build import find
from iolab.image.emulator import NEWER, find_qemu
from iolab.image.recipe import read_recipe
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.switch import PROGRAM as SWITCH
from iolab.lab.hosts.facts import Facts
from iolab.lab.kernels import HERE
from iolab.lab.needs.need import MACVTAP_ADVICE
from iolab.run.agents import Agents
from iolab.run.doctor.findings import Finding, Grade
from iolab.run.doctor.xen import xen_finding
from iolab.run.guests.boot_sources import find_here
from iolab.run.guests.hypervisors import Hypervisors, find_emulator

VHOST_NET = "/dev/vhost-net"
TUN = "/dev/net/tun"
PROBE = Guest(
    name="probe", engine="qemu", image="linux", memory_bytes=256 << 20, cpus=1, accel="auto", nics=()
)


KVM = "/dev/kvm"
QEMU = "qemu-system-x86_64"


def guest_findings(agent: Agent, facts: Facts) -> list[Finding]:
    """Return what guests will find; a missing image or hypervisor limits, nothing else needs them.

    Of another host it is not tried whether a guest boots there: an image would have to be copied.
    """
    return [
        *(_on_other_host(agent, facts) if agent.name else [_hypervisor(), *_images(), _accelerator(agent)]),
        _device(agent, TUN, "taps of guests", "load the module tun"),
        _device(
            agent, VHOST_NET, "nic: vhost-net, macvtap+vhost", "load vhost_net, or put the guest on a vm"
        ),
        _macvtap(facts, agent),
        _switch(agent),
        xen_finding(agent),
    ]


def _hypervisor() -> Finding:
    try:
        emulator = find_qemu()
    except UnsupportedError as error:
        return Finding("QEMU", Grade.LIMITED, str(error), "labs without guests need none")
    version = ".".join(map(str, emulator.version))
    return Finding("QEMU", Grade.GOOD, f"{version}, {emulator.program}")


def _on_other_host(agent: Agent, facts: Facts) -> list[Finding]:
    version = facts.programs.get(QEMU)
    advice = "install the package qemu-system-x86; labs without guests there need none"
    qemu = Finding("QEMU", Grade.GOOD, version) if version else Finding("QEMU", Grade.LIMITED, "none", advice)
    kvm = _device(agent, KVM, "accelerator: a run boots a guest to find out", "guests are emulated there")
    return [qemu, kvm]


def _images() -> list[Finding]:
    built = {flavour.name: find(flavour.name, find_agent()) for flavour in read_recipe().flavours}
    seen = ", ".join(name for name, image in built.items() if image is not None)
    if built["linux"] is None:
        advice = "`iolab image build linux`, about a minute; nested and xen are for guests on guests"
        return [Finding("guest image", Grade.LIMITED, f"built with this agent: {seen or 'none'}", advice)]
    return [Finding("guest image", Grade.GOOD, seen)]


def _accelerator(agent: Agent) -> Finding:
    try:
        source, emulator = find_here(PROBE), find_emulator(PROBE)
        found = Hypervisors(Agents(agent)).accelerator(PROBE, HERE, source, emulator)
    except UnsupportedError as error:
        return Finding("accelerator", Grade.LIMITED, f"not tried: {error}", "build the image first")
    if found == "kvm":
        return Finding("accelerator", Grade.GOOD, "kvm: a guest was booted with it")
    seen = "none: a guest could not be booted with KVM, so guests are emulated"
    advice = "results are functional, not performance; a host with working KVM measures performance"
    return Finding("accelerator", Grade.LIMITED, seen, advice)


def _device(agent: Agent, path: str, purpose: str, advice: str) -> Finding:
    if agent.run(("test", "-c", path)).succeeded:
        return Finding(path, Grade.GOOD, purpose)
    return Finding(path, Grade.LIMITED, f"not there: {purpose}", advice)


def _macvtap(facts: Facts, agent: Agent) -> Finding:
    if not facts.features.get("link:macvtap"):
        seen = "this kernel has none: nic: macvtap"
        return Finding("macvtap nodes", Grade.LIMITED, seen, "load the module macvtap")
    if "macvtap" not in agent.hello.capabilities:
        seen = "an ordinary user may not open them: nic: macvtap"
        return Finding("macvtap nodes", Grade.LIMITED, seen, MACVTAP_ADVICE)
    by_sudo = ", opened by sudo" if agent.hello.rootless else ""
    return Finding("macvtap nodes", Grade.GOOD, f"nic: macvtap{by_sudo}")


def _switch(agent: Agent) -> Finding:
    """Tell whether cards can be carried by a switch in user space; another line says which QEMU another host has."""
    purpose = "nic: vhost-user"
    if not agent.run(("sh", "-c", f"command -v {SWITCH}")).succeeded:
        return Finding(SWITCH, Grade.LIMITED, f"not there: {purpose}", "install the package dpdk-dev")
    try:
        if not agent.name:
            find_qemu(NEWER)
    except UnsupportedError as error:
        return Finding(
            SWITCH, Grade.LIMITED, f"{purpose}: {error}", "`iolab image build qemu`, half a minute"
        )
    return Finding(SWITCH, Grade.GOOD, f"{purpose}: a thread for each card takes a CPU")
