"""What of a plan cannot run here, in words: why, and what to install."""

from iolab.cli.console import sentence
from iolab.lab.requirements.need import package_of
from iolab.messages.hosts import Computer
from iolab.messages.unmet import (
    PlainHostLack,
    ProgramAbsent,
    ProgramLack,
    SeveralLacks,
    UnmetRequirement,
)
from iolab.plan.types import Plan, Unsupported, UnsupportedCells

ISCSI_DRIVER = "qemu-block-extra"
"""Debian package of QEMU's iSCSI driver."""


def cannot_run(cells: Unsupported | UnsupportedCells) -> str:
    """Return in a line what cannot run here, and why; of several cells the first and their number."""
    levels = ", ".join(f"{name}={label}" for name, label in cells.cell.items())
    count = cells.count if isinstance(cells, UnsupportedCells) else 1
    others = f" and {count - 1} more" if count > 1 else ""
    return f"{' '.join(filter(None, (cells.measure, levels)))}{others}: {sentence(cells.reason)}"


def install_lines(plan: Plan) -> list[str]:
    """Return the command that installs every Debian package for want of which cells cannot run, for each computer."""
    found: dict[Computer, dict[str, None]] = {}
    for cell in plan.unsupported:
        for lack in lacks_of(cell.reason):
            match lack:
                case ProgramAbsent():
                    found.setdefault(lack.host, {})[lack.package] = None
                case ProgramLack(code="switch-absent"):
                    found.setdefault(lack.host, {})[package_of(lack.program)] = None
                case PlainHostLack(code="iscsi-driver-absent"):
                    found.setdefault(lack.host, {})[ISCSI_DRIVER] = None
    return [
        f"  what is not installed on {sentence(host)}: sudo apt-get install {' '.join(sorted(packages))}"
        for host, packages in found.items()
    ]


def lacks_of(reason: UnmetRequirement) -> tuple[UnmetRequirement, ...]:
    """Return what one reason consists of."""
    return reason.lacks if isinstance(reason, SeveralLacks) else (reason,)
