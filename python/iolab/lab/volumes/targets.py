"""Connections of a kernel to existing targets, and the checks before anything is written to their disks. Pure."""

from iolab.experiment.experiment import Lab
from iolab.lab.actions import FOUND, Command, Reading, Run
from iolab.lab.volumes.places import PREFIX, RUN
from iolab.lab.volumes.scripts import (
    CONNECT_NBD,
    DISCONNECT_NBD,
    FIND_NBD,
    SHOW_ISCSI_TIMEOUTS,
    SHOW_NBD_TIMEOUT,
    SHOW_NVME_TIMEOUTS,
)
from iolab.lab.volumes.served import Connected, Served
from iolab.lab.volumes.target_scripts import (
    CHECK_DISK,
    CHECK_LUN,
    CONNECT_EXISTING_NVME,
    DISCONNECT_EXISTING_NVME,
    END_OWN_ISCSID,
    FIND_LUN,
    FIND_NAMESPACE,
    LOGIN_EXISTING,
    LOGOUT_EXISTING,
    REFUSE_CONTENT,
    REFUSE_ISCSI_SESSION,
    REFUSE_NVME_SESSION,
    START_OWN_ISCSID,
)

ISCSI_TIMEOUTS = ("60", "5", "15")
"""replacement_timeout, noop_out_interval, noop_out_timeout [s]. After these times, I/O to a lost target fails; a
trial fails earlier. The defaults of open-iscsi are 120, 5 and 5 s, but a busy target may need longer to reply to a
NOP."""
NVME_TIMEOUTS = ("60", "5", "2")
"""ctrl_loss_tmo, keep_alive_tmo, reconnect_delay [s]. The default of Linux is 600 s."""
NBD_TIMEOUT = "60"
"""Time-out of a request [s]. Linux has no time-out by default."""


def existing_connection(served: Served) -> Connected:
    """Return the connection of a kernel to an existing target."""
    match served.protocol:
        case "nvme-tcp":
            return _nvme(served)
        case "nbd":
            return nbd_connection(served)
        case _:
            return _iscsi(served)


def nbd_connection(served: Served) -> Connected:
    """Return the connection of a kernel to an NBD export."""
    kept = f"{RUN}/{PREFIX}{served.name}.nbd"
    words = (served.target, served.address, kept, str(served.port), NBD_TIMEOUT)
    do = Command(("sh", "-c", CONNECT_NBD, *words))
    undo = Command(("sh", "-c", DISCONNECT_NBD, kept))
    return Connected((Run(do, undo),), (FIND_NBD, kept), (SHOW_NBD_TIMEOUT, kept), NBD_TIMEOUT)


def _iscsi(served: Served) -> Connected:
    ours = (served.target, served.initiator)
    pid_file = f"{RUN}/{PREFIX}{served.name}.iscsid"
    login = (
        served.target, served.portal, served.initiator, str(served.unit), served.user, *ISCSI_TIMEOUTS,
    )  # fmt: skip
    actions = (
        Run(Command(("sh", "-c", REFUSE_ISCSI_SESSION, *ours))),
        Run(
            Command(("sh", "-c", START_OWN_ISCSID, pid_file, served.initiator)),
            Command(("sh", "-c", END_OWN_ISCSID, pid_file)),
        ),
        Run(
            Command(("sh", "-c", LOGIN_EXISTING, *login)),
            Command(("sh", "-c", LOGOUT_EXISTING, *ours)),
            secret=served.source,
        ),
    )
    find = (FIND_LUN, *ours, str(served.unit))
    return Connected(actions, find, (SHOW_ISCSI_TIMEOUTS, served.target), " ".join(ISCSI_TIMEOUTS))


def _nvme(served: Served) -> Connected:
    ours = (served.target, served.initiator)
    words = (
        served.target, served.address, served.initiator, str(served.port), served.host_id, *NVME_TIMEOUTS,
    )  # fmt: skip
    actions = (
        Run(Command(("sh", "-c", REFUSE_NVME_SESSION, *ours))),
        Run(
            Command(("sh", "-c", CONNECT_EXISTING_NVME, *words)),
            Command(("sh", "-c", DISCONNECT_EXISTING_NVME, *ours)),
        ),
    )
    find = (FIND_NAMESPACE, served.target, str(served.unit))
    return Connected(actions, find, (SHOW_NVME_TIMEOUTS, served.target), " ".join(NVME_TIMEOUTS))


def disk_checks(served: Served, found: Reading) -> tuple[Run, ...]:
    """Return the actions that make a new disk of a kernel read-only, or compare its identity with the one to which the
    user permits writing."""
    if served.read_only:
        return (Run(Command(("blockdev", "--setro", FOUND)), find=found),)
    if served.protocol == "nbd":  # the identity of an NBD export is its address
        return ()
    words = (served.identity, " ".join(served.consents))
    return (Run(Command(("sh", "-c", CHECK_DISK, FOUND, *words)), find=found),)


def content_checks(lab: Lab, served: Served | None, node: str) -> tuple[Run, ...]:
    """Return the action that refuses a new writable disk of an existing target if it has content; none if the user
    permits destroying the content."""
    if (
        served is None
        or not served.exists
        or served.read_only
        or lab.consents.destroys & set(served.consents)
    ):
        return ()
    return (Run(Command(("sh", "-c", REFUSE_CONTENT, node, *served.consents[:1]))),)


def lun_checks(served: Served) -> tuple[Run, ...]:
    """Return the checks to run before a user-space program logs in: that the host has no session with the target and,
    if the LUN may be written, that the target reports the LUN's identity."""
    if served.protocol != "iscsi":
        return ()
    refusal = Run(Command(("sh", "-c", REFUSE_ISCSI_SESSION, served.target, served.initiator)))
    if served.read_only:
        return (refusal,)
    url = f"iscsi://{served.portal}/{served.target}/{served.unit}"
    words = (url, served.initiator, served.user, served.identity, " ".join(served.consents))
    command = Command(("sh", "-c", CHECK_LUN, *words), served.netns)
    return refusal, Run(command, secret=served.source)
