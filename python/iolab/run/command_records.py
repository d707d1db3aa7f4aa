"""Commands as they are logged in commands.jsonl."""

from iolab.lab.actions import TypedCommand
from iolab.results.trial import CommandRecord


def record_of(
    command: TypedCommand,
    *,
    machine: str,
    kernel: str,
    exit_status: int | None = None,
    duration_ns: int = 0,
) -> CommandRecord:
    """Return the record of a command of a machine; without a status it is still under way."""
    return CommandRecord(
        machine=machine,
        kernel=kernel,
        netns=command.do.netns,
        argv=command.do.argv,
        undo=None if command.undo is None else command.undo.argv,
        undo_netns=None if command.undo is None else command.undo.netns,
        exit_status=exit_status,
        duration_ns=duration_ns,
        notes=command.notes,
    )
