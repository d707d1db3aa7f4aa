"""What started a guest, as a person would type it: its folder, its switches or scripts, then the hypervisor. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from iolab.lab.guests.guest import Guest
from iolab.lab.guests.passed_files import file_note, passed_files
from iolab.lab.guests.switch import switch_id
from iolab.record.trial import CommandRecord
from iolab.run.guests.hypervisors import PARENT_COMMAND, Launch
from iolab.run.guests.running_guest import RunningGuest, process_id
from iolab.run.guests.xen_domains import dom0_commands, domain_commands


def start_records(running: RunningGuest, boot_ns: int) -> tuple[CommandRecord, ...]:
    """Return the commands, the last of which took `boot_ns` until the guest's agent answered."""
    guest, launch = running.guest, running.launch
    typed = _domain(guest, launch) if guest.engine == "xen" else _machine(running)
    place = CommandRecord(
        machine=guest.name,
        kernel=running.parent,
        netns=None,
        argv=(),
        undo=None,
        exit_status=0,
        duration_ns=0,
    )
    records = [
        replace(place, netns=one.netns, argv=one.argv, undo=one.undo, notes=one.notes) for one in typed
    ]
    return (*records[:-1], replace(records[-1], duration_ns=boot_ns))


@dataclass(frozen=True, slots=True)
class _Typed:
    argv: tuple[str, ...]
    undo: tuple[str, ...] | None = None
    netns: str | None = None
    notes: tuple[str, ...] = ()


def _machine(running: RunningGuest) -> list[_Typed]:
    guest, launch = running.guest, running.launch
    switches = [
        _Typed(_with(switch.environment, switch.argv), _stop(switch_id(guest.name, card)), switch.netns)
        for card, switch in running.switches.items()
    ]
    notes = tuple(file_note(file) for file in passed_files(guest))
    qemu = _Typed(_with(launch.environment, launch.argv), _stop(process_id(guest.name)), notes=notes)
    return [*([_Typed(PARENT_COMMAND)] if launch.nested else []), _folder(launch), *switches, qemu]


def _domain(guest: Guest, launch: Launch) -> list[_Typed]:
    made = domain_commands(guest.name, launch.argv, launch.configuration)
    return [
        *(_Typed(argv) for argv in dom0_commands(nested=launch.nested)),
        _folder(launch),
        *(_Typed(argv, undo) for argv, undo in made),
    ]


def _folder(launch: Launch) -> _Typed:
    return _Typed(("mkdir", "-p", "-m", "700", launch.folder), ("rm", "-r", launch.folder))


def _stop(process: str) -> tuple[str, ...]:
    return ("iolab-agent", "process.stop", process)


def _with(environment: Mapping[str, str], argv: tuple[str, ...]) -> tuple[str, ...]:
    words = [f"{name}={value}" for name, value in environment.items()]
    return ("env", *words, *argv) if words else argv
