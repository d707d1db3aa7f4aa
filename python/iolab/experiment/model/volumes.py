"""Models of volumes: files and LUNs that a lab creates, and block devices and folders that exist.

References are checked elsewhere.
"""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from iolab.experiment.model.quantities import FROZEN, BlockBytes, Maybe, SomeBytes, Switch, unset
from iolab.experiment.model.targets import ExistingTarget, target_word
from iolab.frozen import frozen
from iolab.locale import Phrase
from iolab.units import UnitError

PLAIN_PATH = re.compile(r"(/(?!\.\.?(/|$))[A-Za-z0-9@%_.:+=-]+)+")
"""Pattern of an absolute path without `.` and `..`, spaces, and characters that a shell or QEMU interprets."""


def device_path(value: str) -> str:
    """Return the path of a block device unchanged if it is a plain path below /dev.

    Raises:
        UnitError: the path is not of this form.
    """
    if not PLAIN_PATH.fullmatch(value) or not value.startswith("/dev/"):
        raise UnitError(value, Phrase("check.device-path"))
    return value


def folder_path(value: str) -> str:
    """Return the path of a folder unchanged if it is an absolute plain path.

    Raises:
        UnitError: the path is not of this form.
    """
    if not PLAIN_PATH.fullmatch(value):
        raise UnitError(value, Phrase("check.folder-path"))
    return value


DevicePath = Annotated[str, AfterValidator(device_path)]
"""Path of a block device."""
FolderPath = Annotated[str, AfterValidator(folder_path)]
"""Path of a folder."""


@frozen
class Consents:
    """The devices that the user has named on the command line, by identity. They are never stored."""

    writes: frozenset[str] = frozenset()
    """Devices that may be written."""
    destroys: frozenset[str] = frozenset()
    """Devices that may be written even if they contain a file system, a partition table or another signature."""
    known: frozenset[tuple[str, str, str]] = frozenset()
    """Kernel, path and identity of each device as it was at the start of the run."""

    def expected(self, kernel: str, path: str) -> str | None:
        """Return the identity that a device must have; None: the identity was not known at the start of the run."""
        return next((identity for *at, identity in self.known if at == [kernel, path]), None)


class IscsiParams(BaseModel):
    """iSCSI parameters that the target offers at login (RFC 7143, 13); default: those of the target."""

    model_config = FROZEN
    max_recv_data_segment_length: Maybe[SomeBytes] = Field(default=None, alias="MaxRecvDataSegmentLength")
    """Maximum data length of a PDU that the target accepts."""
    max_burst_length: Maybe[SomeBytes] = Field(default=None, alias="MaxBurstLength")
    """Maximum data length of one request to transfer."""
    first_burst_length: Maybe[SomeBytes] = Field(default=None, alias="FirstBurstLength")
    """Maximum length of unsolicited data."""
    initial_r2t: Maybe[Switch] = Field(default=None, alias="InitialR2T")
    """on: data is sent only after a request to transfer."""
    immediate_data: Maybe[Switch] = Field(default=None, alias="ImmediateData")
    """on: data may be sent with the command."""

    def written(self) -> dict[str, str]:
        """Return the keys that are set, under their iSCSI names."""
        shown = {"on": "Yes", "off": "No"}
        return {
            name: shown.get(str(value), str(value))
            for name, value in self.model_dump(by_alias=True, exclude_none=True).items()
        }


class Chap(BaseModel):
    """CHAP credentials of an initiator (RFC 7143, 12.1.3). The report shows the credentials in clear text."""

    model_config = FROZEN
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    """User name."""
    secret: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{12,16}$")]
    """CHAP secret, 12 to 16 letters and digits; use it only in this lab."""


class Volume(BaseModel):
    """A scratch file or LUN that the lab creates, or a block device that exists."""

    model_config = FROZEN
    size: Maybe[BlockBytes] = None
    """Size of the file or LUN, in whole blocks of 4 KiB; required, except with `device`, which has its own size."""
    on: Maybe[str] = None
    """The machine that has the device, or on whose disk the volume is created; default: the local host."""
    device: Maybe[DevicePath] = None
    """A block device that exists, by a path below /dev that is the same after each boot: /dev/disk/by-id/...; a lab
    never creates, resizes or removes it. Default: the lab creates a file."""
    folder: Maybe[FolderPath] = None
    """A folder on a mounted file system of the machine, in which the lab creates the volume's file, in the
    subfolder `.iolab-volumes`; default: /var/tmp."""
    writes: Maybe[Literal["allowed"]] = None
    """Whether measures may write to the device; `iolab run` also requires `--allow-writes`. Default: the device is only
    read."""
    export: Maybe[Literal["iscsi", "nvme-tcp", "nbd"]] = None
    """Export protocol for other machines; default: the volume is not exported."""
    cache: Literal["direct", "buffered"] = "direct"
    """Whether the target's host caches the volume in its page cache."""
    target: Maybe[Annotated[Literal["kernel", "user"] | ExistingTarget, BeforeValidator(target_word)]] = None
    """A target that exists: its portal and its name. With `export: iscsi`: the server, LIO in the kernel or tgt in user
    space; default: LIO in guests, tgt elsewhere."""
    chap: Maybe[Chap] = None
    """CHAP credentials that an iSCSI initiator needs; default: the initiator's name and address are sufficient."""
    params: IscsiParams = unset(IscsiParams)
    """iSCSI parameters of the export."""

    @property
    def exists(self) -> bool:
        """Whether the volume exists before the lab, which never creates, resizes or removes it."""
        return self.device is not None or self.existing_target is not None

    @property
    def existing_target(self) -> ExistingTarget | None:
        """The target that exists; None: the lab creates the volume, or a device exists."""
        return self.target if isinstance(self.target, ExistingTarget) else None

    @property
    def served_by(self) -> Literal["kernel", "user"] | None:
        """The server of an iSCSI export; None: the default."""
        return None if isinstance(self.target, ExistingTarget) else self.target

    @property
    def size_bytes(self) -> int:
        """Size of a volume that the lab creates [bytes]; 0 if it exists, or if the size is missing."""
        return self.size or 0
