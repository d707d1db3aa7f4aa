"""Xen domains, created with xl on a parent that is Dom0; their agents communicate through their consoles.

The parent is a guest of the lab, a remote host or the local host; these three cases differ only in who starts Xen's
services.
"""

import json
import time

from iolab.agent.answers import CommandResult
from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.errors import UnsupportedError
from iolab.lab.commands import ANYWHERE
from iolab.lab.guests.xen import LOAD, dom0_commands, domain_commands
from iolab.lab.hosts.facts import cpu_list
from iolab.locale import Phrase, Text

CREATE_TIMEOUT_MS = 180_000
"""Time limit of creating a domain: 4 s in an emulated Dom0 on an idle host, more than a minute on a very busy one."""
XL_TIMEOUT_MS = 60_000
"""Time limit of an xl query, which takes half a second in an emulated Dom0 on an idle host, and ten seconds on a very
busy host."""
LOOK = (
    "grep -qs control_d /proc/xen/capabilities || "
    '{ echo "it does not run Xen, or is not its Dom0" >&2; exit 1; }; '
    'command -v xl >/dev/null || { echo "it has no xl, which is in the package xen-utils" >&2; exit 1; }'
)
"""Script that checks that a machine is a Dom0 with xl; otherwise it prints what is missing."""
NO_XEN_ADVICE = Phrase("run.xen-needs-xen-parent")
SERVICES_ADVICE = Phrase("run.start-xen-services")
TTY_TRIES = 100
TTY_PAUSE_S = 0.1


def prepare_dom0(agent: Agent, parent: str) -> str:
    """Prepare a parent for domains; return its version of Xen.

    Raises:
        UnsupportedError: the parent does not run Xen.
    """
    looked = agent.run(("sh", "-c", LOOK), timeout_ms=CREATE_TIMEOUT_MS)
    _demand(looked, parent, NO_XEN_ADVICE)
    for argv in dom0_commands(nested=is_guest(agent)):
        begun = agent.run(argv, timeout_ms=CREATE_TIMEOUT_MS)
        if argv is not LOAD:  # the modules may be built into the kernel
            _demand(begun, parent, Phrase("run.xen-services-did-not-start"))
    shown = agent.run(("xl", "info", "xen_version"), timeout_ms=CREATE_TIMEOUT_MS)
    _demand(shown, parent, SERVICES_ADVICE)
    return shown.stdout.split()[-1]


def _demand(done: CommandResult, parent: str, advice: Text) -> None:
    if not done.succeeded:
        where = parent or Phrase("run.this-computer")
        raise UnsupportedError(
            Phrase("run.preparing-for-xen-failed", where=where, complaint=done.complaint, advice=advice)
        )


def is_guest(agent: Agent) -> bool:
    """Whether an agent is the init process of a guest of the lab."""
    return "machine" in agent.hello.capabilities


def create_domain(agent: Agent, name: str, argv: tuple[str, ...], configuration: str) -> None:
    """Create a domain with a command whose last word is the configuration file; first journal the domain's destruction.

    Raises:
        UnsupportedError: the domain already exists, or xl failed; the error has xl's message.
    """
    if agent.run(("xl", "domid", name), timeout_ms=XL_TIMEOUT_MS).succeeded:
        raise UnsupportedError(Phrase("run.domain-name-taken", name=name))
    for do, undo in domain_commands(name, argv, configuration):
        _make(agent, name, do, undo)


def _make(agent: Agent, name: str, argv: tuple[str, ...], undo: tuple[str, ...] | None) -> None:
    journalled = None if undo is None else {"kind": "command", "argv": list(undo), "netns": None}
    key = None if undo is None else domain_key(name)
    made = agent.run(argv, timeout_ms=CREATE_TIMEOUT_MS, undo=journalled, undo_key=key)
    if not made.succeeded:
        said = (made.stderr or made.stdout).strip()[-500:] or (
            Phrase("run.nothing-until-stopped")
            if made.timed_out
            else Phrase("run.ended-with-status", status=made.exit_status)
        )
        raise UnsupportedError(Phrase("run.domain-not-created", command=" ".join(argv[:4]), said=said))


def console_of(agent: Agent, guest: str) -> str:
    """Return the terminal of a domain's console.

    Raises:
        UnsupportedError: the domain has no console.
    """
    domain = agent.run(("xl", "domid", guest), timeout_ms=XL_TIMEOUT_MS).stdout.strip()
    for _ in range(TTY_TRIES):
        shown = agent.run(("xenstore-read", f"/local/domain/{domain}/console/tty"), timeout_ms=XL_TIMEOUT_MS)
        if shown.succeeded and shown.stdout.startswith("/"):
            return shown.stdout.strip()
        time.sleep(TTY_PAUSE_S)  # xenconsoled does not report when the console is ready
    raise UnsupportedError(Phrase("run.domain-without-console", guest=guest))


def destroy_domain(agent: Agent, guest: str) -> None:
    """Destroy a domain or its remains; do nothing if there is no such domain."""
    agent.undo(keys=[domain_key(guest)])


def domain_state(agent: Agent, guest: str) -> str | None:
    """Return the state of a domain and the affinities of its CPUs, in the format of lab.readback's GuestThreads."""
    shown = agent.run(("xl", "vcpu-list", guest), timeout_ms=XL_TIMEOUT_MS)
    lines = [line.split() for line in shown.stdout.splitlines()[1:]] if shown.succeeded else []
    if not lines:
        return None
    with understood(agent.name, Phrase("agent.virtual-cpus-of", guest=guest)):
        # NAME ID VCPU CPU STATE TIME HARD / SOFT, with STATE such as -b- or --p.
        status = "paused" if "p" in lines[0][4] else "running"
        anywhere = any(line[6] == ANYWHERE for line in lines)
        asked = ("xl", "info", "nr_cpus")
        cpus = int(agent.run(asked, timeout_ms=XL_TIMEOUT_MS).stdout.split()[-1]) if anywhere else 0
        vcpus = [list(range(cpus)) if line[6] == ANYWHERE else cpu_list(line[6]) for line in lines]
    return json.dumps({"status": status, "vcpus": vcpus, "carriers": []})


def domain_key(guest: str) -> str:
    """Return the journal key of a domain's destruction."""
    return f"domain:{guest}"
