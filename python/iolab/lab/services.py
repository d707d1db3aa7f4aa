"""What is on machines beside their network: files, changes by commands, services, and the programs they need. Pure.

The scripts are texts that `sh -c` runs: `$0` is the place below which all that is of one file or service lies.
"""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Change, Machine, Ready, Service
from iolab.lab.actions import Command, Expectation, Reading, Run
from iolab.lab.kernels import kernel_of
from iolab.lab.programs import addresses_in, filler, on_cpus
from iolab.lab.readback.values import Value
from iolab.lab.requirements.need import Need, NeedKind, Wanted
from iolab.lab.resources import Resource
from iolab.lab.topology import Topology
from iolab.lab.volumes.places import RUN
from iolab.messages.places import ForMachine
from iolab.units import NS_PER_S

WRITE_FILE = 'umask 077; mkdir -p "${0%/*}" && printf %s "$1" >"$0" && chmod 644 "$0" && chmod 755 "${0%/*}"'
"""Writes `$1` into `$0`, in a folder of its own; services may run as other users and read it."""
DELETE_FILE = 'rm -f "$0"; rmdir "${0%/*}" 2>/dev/null; true'
"""Takes the file away, and its folder with the last one."""
MARK = "IOLAB_SERVICE"
"""In the environment of every service: what has it is the service, or was left by it."""
MARKED = f'marked() {{ grep -lsz "^{MARK}=$0\\$" /proc/[0-9]*/environ | cut -d/ -f3; }};'
LISTENS = (
    'listens() { port=$(printf %04X "$1");'
    ' grep -qsE "^ *[0-9]+: [0-9A-F]+:$port [0-9A-F]+:0000 $2 " "$3" "${3}6"; };'
)
"""Whether a socket of the network namespace has this port, in this state, in this table of the kernel."""
READY = (
    " ready() { case $kind in"
    ' tcp) listens "$value" 0A /proc/net/tcp;;'
    ' udp) listens "$value" 07 /proc/net/udp;;'
    ' prints) grep -qsF -- "$value" "$0.log";;'
    ' succeeds) sh -c "$value" >/dev/null 2>&1;;'
    ' *) [ -e "$0.pid" ];; esac; };'
)
START_SERVICE = (
    MARKED
    + LISTENS
    + READY
    + ' kind=$1 value=$2 end=$(($(date +%s) + $3)); shift 3; umask 077; mkdir -p "${0%/*}";'
    + f' {MARK}="$0" setsid sh -c \'echo $$ >"$0.pid";'
    + ' "$@" 2>&1 </dev/null | { dd bs=1024 count=4096 2>/dev/null; exec cat >/dev/null; } >"$0.log"\' "$0" "$@" &'
    + ' until ready; do why="is not ready";'
    + ' [ "$(date +%s)" -lt "$end" ] && { [ ! -e "$0.pid" ] || [ -n "$(marked)" ] || { why="has ended"; false; }; }'
    + ' || { echo "it $why; it wrote:" >&2; tail -c 1000 "$0.log" >&2; exit 1; }; sleep 0.05; done'
)
"""Starts a service in a session of its own and waits until it is ready: `$1` says by what, `$2` which, `$3` for
how many seconds it waits. At most 4 MiB of what it writes are kept."""
SESSION = (
    ' members() { [ -z "$leader" ] || grep -lsE "^[0-9]+ [(].*[)] [^ZX] [0-9]+ [0-9]+ $leader " /proc/[0-9]*/stat'
    " | cut -d/ -f3; };"
)
"""What runs in the session of a service. nginx overwrites its environment with its title, and has no mark then."""
END_SERVICE = (
    MARKED
    + SESSION
    + ' leader=; pid=$(cat "$0.pid" 2>/dev/null); if [ -n "$pid" ] && marked | grep -x "$pid" >/dev/null;'
    + ' then leader=$pid; kill -TERM -- "-$pid" 2>/dev/null; fi;'
    + ' begin=$(date +%s); while left=$(members; marked); [ -n "$left" ]; do'
    + ' spent=$(($(date +%s) - begin)); [ "$spent" -le 5 ] || break;'
    + ' [ -n "$leader" ] && [ "$spent" -le 2 ] || kill -KILL $left 2>/dev/null; sleep 0.05; done;'
    + ' rm -f "$0.pid" "$0.log"; rmdir "${0%/*}" 2>/dev/null; true'
)
"""Ends a service: it has two to three seconds after SIGTERM. Then what it left is killed, and its end waited for: the
next one needs the port. By the clock, not by tries: one takes a second in an emulated guest on a busy computer."""
SHOW_SERVICE = MARKED + ' [ -z "$(marked)" ] || echo running'
"""Tells whether anything of it runs."""
CHECK = '"$@" >/dev/null 2>&1 && echo holds'
"""Tells whether a command succeeds."""
NFTABLES = "firewall:nftables"
"""Feature of a kernel that nft can give rules."""


def standing_resources(lab: Lab, topology: Topology, others: Iterable[Resource]) -> Iterator[Resource]:
    """Return what stands on machines; it comes after all else that belongs to its machine.

    Raises:
        InputError: a machine is named to which no way leads.
    """
    own: dict[str, list[str]] = {}
    for resource in others:
        own.setdefault(resource.machine, []).append(resource.key)
    for name, machine in lab.machines.items():
        if machine.files or machine.run or machine.services:
            yield from _Parts(lab, topology, name).resources(own.get(name, []))


def service_place(machine: str, service: str, prefix: str) -> str:
    """Return the path below which all that is of a service lies."""
    return f"{RUN}/{prefix}services/{machine}.{service}"


class _Parts:
    """What stands on one machine."""

    def __init__(self, lab: Lab, topology: Topology, name: str) -> None:
        self._machine: Machine = lab.machines[name]
        self._name, self._prefix, self._topology = name, topology.prefix, topology
        self._kernel, self._netns = kernel_of(lab, name), topology.homes[name].netns
        self._cpus = topology.homes[name].cpus
        self._folder = f"{RUN}/{topology.prefix}files-{name}"

    def resources(self, after: Sequence[str]) -> Iterator[Resource]:
        """Return files, then changes, then services, each after those before it."""
        needs = [*after]
        for made in self._all():
            yield self._resource(made, tuple(needs))
            needs.append(made.key)

    def _all(self) -> Iterator[Resource]:
        for name, content in self._machine.files.items():
            yield self._file(name, content)
        for name, change in self._machine.run.items():
            if change is not None:
                yield self._change(name, change)
        for name, service in self._machine.services.items():
            if service is not None:
                yield self._service(name, service)

    def _resource(self, made: Resource, needs: tuple[str, ...]) -> Resource:
        return Resource(
            key=made.key, machine=self._name, kernel=self._kernel, needs=needs, actions=made.actions,
            expect=made.expect, undone_first=True,
        )  # fmt: skip

    def _file(self, name: str, content: str) -> Resource:
        path = f"{self._folder}/{name}"
        text = self._filler([content])(content)
        digest = sha256(text.encode()).hexdigest()
        shown = Reading(Command(("sha256sum", path)), Value())
        return Resource(
            key=f"file:{self._name}:{name}",
            machine=self._name,
            actions=(_script(WRITE_FILE, DELETE_FILE, path, (text,), None),),
            expect=(Expectation(shown, f"{digest} {path}", f"file {name} of {self._name}"),),
        )

    def _change(self, name: str, change: Change) -> Resource:
        fill = self._filler([*change.do, *change.undo, *change.check])
        do, undo, check = (tuple(map(fill, words)) for words in (change.do, change.undo, change.check))
        expect: tuple[Expectation, ...] = ()
        if check:
            shown = Reading(Command(("sh", "-c", CHECK, "sh", *check), self._netns), Value())
            expect = (Expectation(shown, "holds", f"{name} of {self._name}"),)
        return Resource(
            key=f"run:{self._name}:{name}",
            machine=self._name,
            actions=(Run(Command(do, self._netns), Command(undo, self._netns)),),
            expect=expect,
        )

    def _service(self, name: str, service: Service) -> Resource:
        place = service_place(self._name, name, self._prefix)
        fill = self._filler([*service.run, *service.environment.values(), *service.ready.succeeds])
        environment = [f"{key}={fill(value)}" for key, value in service.environment.items()]
        argv = on_cpus(("env", *environment, *map(fill, service.run)), self._cpus)
        words = (*_by_what(service.ready, fill), str(-(-service.within // NS_PER_S)), *argv)
        shown = Reading(Command(("sh", "-c", SHOW_SERVICE, place), self._netns), Value())
        return Resource(
            key=f"service:{self._name}:{name}",
            machine=self._name,
            actions=(_script(START_SERVICE, END_SERVICE, place, words, self._netns),),
            expect=(Expectation(shown, "running", f"service {name} of {self._name}"),),
        )

    def _filler(self, texts: Sequence[str]) -> Callable[[str], str]:
        """Return what puts addresses and the folder of files in the place of names."""
        doing = f"lab.machines.{self._name}"
        known = {"files": self._folder} if self._machine.files else {}
        return filler(known | dict(addresses_in(texts, self._name, (), self._topology, doing)))


def _script(do: str, undo: str, place: str, words: Sequence[str], netns: str | None) -> Run:
    return Run(Command(("sh", "-c", do, place, *words), netns), Command(("sh", "-c", undo, place)))


def _by_what(ready: Ready, fill: Callable[[str], str]) -> tuple[str, str]:
    """Return by what a service is seen to be ready, in the words of the script."""
    if ready.listens is not None:
        return ready.protocol, str(ready.listens)
    if ready.prints is not None:
        return "prints", ready.prints
    if ready.succeeds:
        return "succeeds", shlex.join(map(fill, ready.succeeds))
    return "started", ""


def programs_of(machine: Machine) -> Iterator[str]:
    """Yield the programs that a machine's changes and services name."""
    for change in machine.run.values():
        if change is not None:
            yield from (words[0] for words in (change.do, change.undo, change.check) if words)
    for service in machine.services.values():
        if service is not None:
            yield service.run[0]


def _texts(machine: Machine) -> Iterator[str]:
    """Yield what the changes of a machine are written as, with the files that may be scripts of theirs."""
    done = [" ".join(change.do) for change in machine.run.values() if change is not None]
    yield from done
    if done:
        yield from machine.files.values()


def standing_needs(lab: Lab, where: Callable[[Lab, str], str]) -> Iterator[Wanted]:
    """Yield each program with the computer or image that must have it."""
    for name, machine in lab.machines.items():
        there = where(lab, kernel_of(lab, name))
        for program in dict.fromkeys(programs_of(machine)):
            if "{" not in program:
                yield Need(NeedKind.NAMED_PROGRAM, program, ForMachine(machine=name), there)
        if any("nft" in text.replace(";", " ").split() for text in _texts(machine)):
            yield Need(NeedKind.FEATURE, NFTABLES, ForMachine(machine=name), there, (name,))
