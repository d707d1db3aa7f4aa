"""Xen domains: made with xl on a parent that runs Xen, which is itself Dom0; consoles lead to their agents.

The parent may be a guest of ours, another host or this computer: only who starts Xen's services differs.
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
"""Making a domain takes 4 s in an emulated Dom0 on a calm host, on a very busy one over a minute."""
XL_TIMEOUT_MS = 60_000
"""A question to xl takes half a second there, and ten on a very busy host."""
LOOK = (
    "grep -qs control_d /proc/xen/capabilities || "
    '{ echo "it does not run Xen, or is not its Dom0" >&2; exit 1; }; '
    'command -v xl >/dev/null || { echo "it has no xl, which is in the package xen-utils" >&2; exit 1; }'
)
"""Changes nothing."""
NO_XEN_ADVICE = Phrase("run.xen-needs-xen-parent")
SERVICES_ADVICE = Phrase("run.start-xen-services")
TTY_TRIES = 100
TTY_PAUSE_S = 0.1


def prepare_dom0(agent: Agent, parent: str) -> str:
    """Make a parent ready for domains; return its version of Xen.

    Raises:
        UnsupportedError: it does not run Xen.
    """
    looked = agent.run(("sh", "-c", LOOK), timeout_ms=CREATE_TIMEOUT_MS)
    _demand(looked, parent, NO_XEN_ADVICE)
    for argv in dom0_commands(nested=is_guest(agent)):
        begun = agent.run(argv, timeout_ms=CREATE_TIMEOUT_MS)
        if argv is not LOAD:  # a kernel may have them built in
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
    """Tell whether an agent is the init of a guest of ours."""
    return "machine" in agent.hello.capabilities


def create_domain(agent: Agent, name: str, argv: tuple[str, ...], configuration: str) -> None:
    """Make a domain by a command whose last word is the file of its configuration; its end is journalled before.

    Raises:
        UnsupportedError: there is a domain of that name, or xl refused; its words.
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
        UnsupportedError: it has none.
    """
    domain = agent.run(("xl", "domid", guest), timeout_ms=XL_TIMEOUT_MS).stdout.strip()
    for _ in range(TTY_TRIES):
        shown = agent.run(("xenstore-read", f"/local/domain/{domain}/console/tty"), timeout_ms=XL_TIMEOUT_MS)
        if shown.succeeded and shown.stdout.startswith("/"):
            return shown.stdout.strip()
        time.sleep(TTY_PAUSE_S)  # xenconsoled tells nobody when it has made it
    raise UnsupportedError(Phrase("run.domain-without-console", guest=guest))


def destroy_domain(agent: Agent, guest: str) -> None:
    """End a domain, or what was made of it; harmless where there is nothing."""
    agent.undo(keys=[domain_key(guest)])


def domain_state(agent: Agent, guest: str) -> str | None:
    """Return how a domain is and where its CPUs may run, as lab.shown.GuestThreads reads it."""
    shown = agent.run(("xl", "vcpu-list", guest), timeout_ms=XL_TIMEOUT_MS)
    lines = [line.split() for line in shown.stdout.splitlines()[1:]] if shown.succeeded else []
    if not lines:
        return None
    with understood(agent.name, Phrase("agent.virtual-cpus-of", guest=guest)):
        # NAME ID VCPU CPU STATE TIME HARD / SOFT, and STATE such as -b- or --p.
        status = "paused" if "p" in lines[0][4] else "running"
        anywhere = any(line[6] == ANYWHERE for line in lines)
        asked = ("xl", "info", "nr_cpus")
        cpus = int(agent.run(asked, timeout_ms=XL_TIMEOUT_MS).stdout.split()[-1]) if anywhere else 0
        vcpus = [list(range(cpus)) if line[6] == ANYWHERE else cpu_list(line[6]) for line in lines]
    return json.dumps({"status": status, "vcpus": vcpus, "carriers": []})


def domain_key(guest: str) -> str:
    """Return the journal key of a domain's end."""
    return f"domain:{guest}"
