"""Files, changes and services of machines as resources. Pure."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Change, Machine, Ready, Service
from iolab.lab.actions import Run
from iolab.lab.kernels import kernel_of
from iolab.lab.program_cpus import on_cpus
from iolab.lab.readback.values import Value
from iolab.lab.readings import Command, Expectation, Reading
from iolab.lab.resources import Resource
from iolab.lab.services.scripts import (
    CHECK,
    DELETE_FILE,
    END_SERVICE,
    SHOW_SERVICE,
    START_SERVICE,
    WRITE_FILE,
)
from iolab.lab.topology import Topology
from iolab.lab.volumes.places import RUN
from iolab.lab.words import addresses_in, filler
from iolab.units import NS_PER_S


def standing_resources(
    lab: Lab, topology: Topology, prefix: str, others: Iterable[Resource]
) -> Iterator[Resource]:
    """Return what stands on machines; it comes after all else that belongs to its machine.

    Raises:
        InputError: a machine is named to which no way leads.
    """
    own: dict[str, list[str]] = {}
    for resource in others:
        own.setdefault(resource.machine, []).append(resource.key)
    for name, machine in lab.machines.items():
        if machine.files or machine.run or machine.services:
            yield from _Parts(lab, topology, prefix, name).resources(own.get(name, []))


def service_place(machine: str, service: str, prefix: str) -> str:
    """Return the path below which all that is of a service lies."""
    return f"{RUN}/{prefix}services/{machine}.{service}"


class _Parts:
    """What stands on one machine."""

    def __init__(self, lab: Lab, topology: Topology, prefix: str, name: str) -> None:
        self._machine: Machine = lab.machines[name]
        self._name, self._prefix, self._topology = name, prefix, topology
        self._kernel, self._netns = kernel_of(lab, name), topology.homes[name].netns
        self._cpus = topology.homes[name].cpus
        self._folder = f"{RUN}/{prefix}files-{name}"

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
