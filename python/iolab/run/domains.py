"""Xen domains: made with xl on a parent that runs Xen, which is itself Dom0; consoles lead to their agents."""

import json
import time

from iolab.agent.client import Agent
from iolab.errors import UnsupportedError
from iolab.lab.guest import Guest
from iolab.lab.resources import PinGuest
from iolab.lab.xen import xl_config
from iolab.run.threads import cpu_list

MODULES = (
    "xen-evtchn", "xen-gntdev", "xen-gntalloc", "xen-privcmd", "xen-netback", "xen-blkback", "bridge",
)  # fmt: skip
CREATE_TIMEOUT_MS = 180_000
"""Making a domain takes 4 s in an emulated Dom0 on a calm host, on a very busy one over a minute."""
DESTROY = 'xl domid "$0" >/dev/null 2>&1 || exit 0; exec xl destroy "$0"'
"""Harmless where there is no such domain."""
DAEMONS = (
    "mountpoint -q /proc/xen || mount -t xenfs xenfs /proc/xen; "
    "grep -q control_d /proc/xen/capabilities || exit 3; "
    "for bin in /usr/lib/xen-*/bin; do PATH=$bin:$PATH; done; pgrep -x xenstored >/dev/null && exit 0; "
    "mkdir -p /run/xen /var/lib/xenstored /var/log/xen; "
    "xenstored --pid-file /run/xen/xenstored.pid && xen-init-dom0 && xenconsoled --pid-file=/run/xen/xenconsoled.pid"
)
"""What an installed Dom0 starts by itself, and a guest of ours does not."""
TTY_TRIES = 100
TTY_PAUSE_S = 0.1


def prepare_dom0(agent: Agent, parent: str) -> str:
    """Make a parent ready for domains; return its version of Xen.

    Raises:
        UnsupportedError: it does not run Xen.
    """
    agent.run(("modprobe", "-a", "-q", *MODULES))
    begun = agent.run(("sh", "-c", DAEMONS), timeout_ms=CREATE_TIMEOUT_MS)
    if not begun.succeeded:
        said = begun.stderr.strip()[-300:] or "it is no Dom0"
        advice = "engine: xen needs a parent that runs Xen: a vm with image: xen, or such a host"
        raise UnsupportedError(f"preparing {parent or 'this computer'} for Xen domains: {said}; {advice}")
    shown = agent.run(("xl", "info", "xen_version")).stdout.split()
    return shown[-1] if shown else "unknown"


def create_domain(agent: Agent, guest: Guest, path: str) -> None:
    """Make a domain, its configuration written to `path` and its end journalled before.

    Raises:
        UnsupportedError: xl refused; its words.
    """
    agent.call("command.run", {"argv": ["tee", path], "stdin": xl_config(guest)})
    argv = ("xl", "create", "-q", path)
    undo = {"kind": "command", "argv": ["sh", "-c", DESTROY, guest.name], "netns": None}
    made = agent.run(argv, timeout_ms=CREATE_TIMEOUT_MS, undo=undo, undo_key=domain_key(guest.name))
    if not made.succeeded:
        said = (made.stderr or made.stdout).strip()[-500:] or (
            "nothing until it was stopped" if made.timed_out else f"status {made.exit_status}"
        )
        raise UnsupportedError(f"making the domain with `{' '.join(argv)}`: {said}")


def console_of(agent: Agent, guest: str) -> str:
    """Return the terminal of a domain's console.

    Raises:
        UnsupportedError: it has none.
    """
    domain = agent.run(("xl", "domid", guest)).stdout.strip()
    for _ in range(TTY_TRIES):
        shown = agent.run(("xenstore-read", f"/local/domain/{domain}/console/tty"))
        if shown.succeeded and shown.stdout.startswith("/"):
            return shown.stdout.strip()
        time.sleep(TTY_PAUSE_S)  # xenconsoled tells nobody when it has made it
    raise UnsupportedError(f"looking for the console of domain {guest}: xenconsoled made none")


def destroy_domain(agent: Agent, guest: str) -> None:
    """End a domain."""
    agent.undo(keys=[domain_key(guest)])


def domain_state(agent: Agent, guest: str) -> str | None:
    """Return how a domain is and where its CPUs may run, as lab.shown.GuestThreads reads it."""
    listed = agent.run(("xl", "list", guest))
    shown = agent.run(("xl", "vcpu-list", guest))
    if not (listed.succeeded and shown.succeeded):
        return None
    state = listed.stdout.splitlines()[-1].split()[4]
    status = "paused" if "p" in state else "running"
    cpus = int(agent.run(("xl", "info", "nr_cpus")).stdout.split()[-1])
    vcpus = [_affinity(line, cpus) for line in shown.stdout.splitlines()[1:]]
    return json.dumps({"status": status, "vcpus": vcpus, "carriers": []})


def pin_domain(action: PinGuest, vcpus: int) -> list[tuple[str, ...]]:
    """Return the commands that put a domain's virtual CPUs on CPUs of the machine below."""
    wanted = [str(cpu) for cpu in action.vcpus] or ["all"] * vcpus
    return [("xl", "vcpu-pin", action.guest, str(number), cpu) for number, cpu in enumerate(wanted)]


def domain_key(guest: str) -> str:
    """Return the journal key of a domain's end."""
    return f"domain:{guest}"


def _affinity(line: str, cpus: int) -> list[int]:
    """Return the CPUs of a line of `xl vcpu-list`: NAME ID VCPU CPU STATE TIME HARD / SOFT."""
    hard = line.partition(" / ")[0].split()[-1]
    return list(range(cpus)) if hard == "all" else cpu_list(hard)
