"""Files, changes by commands, and services on machines, and the programs that they need. Pure.

The scripts run with `sh -c`; `$0` is the path prefix of all files that belong to one file or service.
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
"""Script that writes `$1` to the file `$0` in a dedicated folder, readable by services that run as other users."""
DELETE_FILE = 'rm -f "$0"; rmdir "${0%/*}" 2>/dev/null; true'
"""Script that deletes the file, and deletes the folder when it is empty."""
MARK = "IOLAB_SERVICE"
"""Variable in the environment of every service, which identifies its processes, including those that it left behind."""
MARKED = f'marked() {{ grep -lsz "^{MARK}=$0\\$" /proc/[0-9]*/environ | cut -d/ -f3; }};'
LISTENS = (
    'listens() { port=$(printf %04X "$1");'
    ' grep -qsE "^ *[0-9]+: [0-9A-F]+:$port [0-9A-F]+:0000 $2 " "$3" "${3}6"; };'
)
"""Script that tests whether a socket of the network namespace has a given port and state in a given table in
/proc/net."""
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
"""Script that starts a service in a new session and waits until the service is ready: `$1` is the kind of the readiness
condition, `$2` its value, `$3` the maximum waiting time in seconds. At most 4 MiB of the output are kept."""
SESSION = (
    ' members() { [ -z "$leader" ] || grep -lsE "^[0-9]+ [(].*[)] [^ZX] [0-9]+ [0-9]+ $leader " /proc/[0-9]*/stat'
    " | cut -d/ -f3; };"
)
"""Script that lists the processes in the session of a service. nginx overwrites its environment with its title, which
removes the mark."""
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
"""Script that stops a service: SIGTERM, and two to three seconds later SIGKILL for the remaining processes. The script
waits until the processes have exited, because the next service needs the port. The script measures time and does not
count attempts, because an attempt takes a second in an emulated guest on a busy host."""
SHOW_SERVICE = MARKED + ' [ -z "$(marked)" ] || echo running'
"""Script that prints "running" if any process of the service is running."""
CHECK = '"$@" >/dev/null 2>&1 && echo holds'
"""Script that prints "holds" if a command succeeds."""
NFTABLES = "firewall:nftables"
"""Feature of a kernel that supports nftables."""


def standing_resources(lab: Lab, topology: Topology, others: Iterable[Resource]) -> Iterator[Resource]:
    """Return the files, changes and services of machines; they depend on all other resources of their machine.

    Raises:
        InputError: a machine in a command cannot be reached.
    """
    own: dict[str, list[str]] = {}
    for resource in others:
        own.setdefault(resource.machine, []).append(resource.key)
    for name, machine in lab.machines.items():
        if machine.files or machine.run or machine.services:
            yield from _Parts(lab, topology, name).resources(own.get(name, []))


def service_place(machine: str, service: str, prefix: str) -> str:
    """Return the path prefix of a service's files."""
    return f"{RUN}/{prefix}services/{machine}.{service}"


class _Parts:
    """The files, changes and services of one machine."""

    def __init__(self, lab: Lab, topology: Topology, name: str) -> None:
        self._machine: Machine = lab.machines[name]
        self._name, self._prefix, self._topology = name, topology.file_prefix, topology
        self._kernel, self._netns = kernel_of(lab, name), topology.homes[name].netns
        self._cpus = topology.homes[name].cpus
        self._folder = f"{RUN}/{topology.file_prefix}files-{name}"

    def resources(self, after: Sequence[str]) -> Iterator[Resource]:
        """Yield files, then changes, then services, each after the ones before it."""
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
        """Return the function that replaces names with addresses, and `{files}` with the folder of files."""
        doing = f"lab.machines.{self._name}"
        known = {"files": self._folder} if self._machine.files else {}
        return filler(known | dict(addresses_in(texts, self._name, (), self._topology, doing)))


def _script(do: str, undo: str, place: str, words: Sequence[str], netns: str | None) -> Run:
    return Run(Command(("sh", "-c", do, place, *words), netns), Command(("sh", "-c", undo, place)))


def _by_what(ready: Ready, fill: Callable[[str], str]) -> tuple[str, str]:
    """Return the readiness condition as arguments of the script: kind and value."""
    if ready.listens is not None:
        return ready.protocol, str(ready.listens)
    if ready.prints is not None:
        return "prints", ready.prints
    if ready.succeeds:
        return "succeeds", shlex.join(map(fill, ready.succeeds))
    return "started", ""


def programs_of(machine: Machine) -> Iterator[str]:
    """Yield the programs in a machine's changes and services."""
    for change in machine.run.values():
        if change is not None:
            yield from (words[0] for words in (change.do, change.undo, change.check) if words)
    for service in machine.services.values():
        if service is not None:
            yield service.run[0]


def _texts(machine: Machine) -> Iterator[str]:
    """Yield the text of a machine's commands and of its files, which may be scripts."""
    done = [" ".join(change.do) for change in machine.run.values() if change is not None]
    yield from done
    if done:
        yield from machine.files.values()


def standing_needs(lab: Lab, where: Callable[[Lab, str], str]) -> Iterator[Wanted]:
    """Yield each program with the host or image that must have it."""
    for name, machine in lab.machines.items():
        there = where(lab, kernel_of(lab, name))
        for program in dict.fromkeys(programs_of(machine)):
            if "{" not in program:
                yield Need(NeedKind.NAMED_PROGRAM, program, ForMachine(machine=name), there)
        if any("nft" in text.replace(";", " ").split() for text in _texts(machine)):
            yield Need(NeedKind.FEATURE, NFTABLES, ForMachine(machine=name), there, (name,))
