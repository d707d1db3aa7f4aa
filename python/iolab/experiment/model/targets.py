"""Models of targets that exist: portal, name and credentials. iolab logs in to such a target and never changes it."""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from iolab.experiment.model.quantities import FROZEN, Maybe
from iolab.frozen import frozen
from iolab.locale import Phrase
from iolab.units import UnitError

Protocol = Literal["iscsi", "nvme-tcp", "nbd"]
"""Protocol of a target, by its name in the key `export`."""
NAME_BYTES = 223
"""Maximum length of an iSCSI name (RFC 7143, 4.2.7.1) and of an NVMe qualified name [bytes]."""
IQN = re.compile(
    r"iqn\.\d{4}-(0[1-9]|1[0-2])\.[a-z0-9.-]+(:[a-z0-9.:_-]+)?|eui\.[0-9A-Fa-f]{16}|naa\.([0-9A-Fa-f]{16}){1,2}",
    re.ASCII,
)
"""Pattern of an iSCSI name in its normalised form (RFC 3722: lower case)."""
NQN = re.compile(r"nqn\.\d{4}-(0[1-9]|1[0-2])\.[A-Za-z0-9.-]+:[A-Za-z0-9.:_-]+", re.ASCII)
"""Pattern of an NVMe qualified name (NVM Express Base Specification, 4.7)."""
EXPORT = re.compile(r"[A-Za-z0-9._/-]{0,200}", re.ASCII)
PORTAL = re.compile(
    r"(?P<machine>[A-Za-z0-9][A-Za-z0-9_-]*|[0-9.]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?", re.ASCII
)
MOST_PORT = 65_535
VARIABLE = r"^[A-Za-z_][A-Za-z0-9_]{0,99}$"
SECRET_FILE = re.compile(r"(~|)(/[^\x00-\x1f]+)")
"""Pattern of an absolute path, or a path in the user's home directory."""


ISCSI_NAME, NVME_NAME = Phrase("check.iscsi-name"), Phrase("check.nvme-name")
INITIATORS = {"iqn": (IQN, ISCSI_NAME), "nqn": (NQN, NVME_NAME)}
"""Pattern of the initiators' names, by the key of the target."""


def _named(value: str, pattern: re.Pattern[str], allowed: Phrase, advice: Phrase | str = "") -> str:
    if len(value) > NAME_BYTES or not pattern.fullmatch(value):
        raise UnitError(value, allowed, advice)
    return value


def iscsi_name(value: str) -> str:
    """Return an iSCSI name unchanged if it is valid. Raises UnitError."""
    lower = value.lower()
    upper = value != lower and IQN.fullmatch(lower) is not None
    return _named(value, IQN, ISCSI_NAME, Phrase("check.did-you-mean", word=lower) if upper else "")


def nvme_name(value: str) -> str:
    """Return an NVMe qualified name unchanged if it is valid. Raises UnitError."""
    return _named(value, NQN, NVME_NAME)


def export_name(value: str) -> str:
    """Return the name of an NBD export unchanged if it is valid. Raises UnitError."""
    advice = Phrase("check.nbd-uri-in-parts") if "://" in value else ""
    return _named(value, EXPORT, Phrase("check.nbd-export-name"), advice)


def portal(value: str) -> str:
    """Return a portal unchanged if its parts are valid. Raises UnitError."""
    found = PORTAL.fullmatch(value)
    host, port = (found["machine"], int(found["port"] or 1)) if found else ("", 0)
    if not host or not 0 < port <= MOST_PORT or not _is_place(host):
        raise UnitError(value, Phrase("check.portal"))
    return value


def _is_place(host: str) -> bool:
    """Whether a text is an address, or may be the name of a machine."""
    if host.startswith("[") or re.fullmatch(r"[0-9.]+", host):
        try:
            return ip_address(host.strip("[]")).version == (6 if host.startswith("[") else 4)
        except ValueError:
            return False
    return True


def target_word(value: object) -> object:
    """Return the value of the key `target` if it may be a server or a mapping. Raises UnitError."""
    if isinstance(value, str) and value not in ("kernel", "user"):
        key = next((key for key, pattern in (("iqn", IQN), ("nqn", NQN)) if pattern.fullmatch(value)), "iqn")
        raise UnitError(value, Phrase("check.target-value"), Phrase("check.write-target-as", key=key))
    return value


def secret_file(value: str) -> str:
    """Return the path of a secret's file unchanged if it does not depend on the current directory. Raises UnitError."""
    if not SECRET_FILE.fullmatch(value):
        raise UnitError(value, Phrase("check.secret-file"))
    return value


class SecretSource(BaseModel):
    """The place of a secret, which is in no experiment file, plan, record, journal or command line."""

    model_config = FROZEN
    file: Maybe[Annotated[str, AfterValidator(secret_file)]] = None
    """File with the secret on its only line, readable only by its owner; an absolute path, or ~/NAME."""
    env: Maybe[Annotated[str, Field(pattern=VARIABLE)]] = None
    """Environment variable of `iolab run` with the secret."""

    @property
    def place(self) -> str:
        """Name of the place."""
        return self.file if self.file is not None else f"${self.env}"


class TargetChap(BaseModel):
    """CHAP credentials for a target that exists (RFC 7143, 12.1.3)."""

    model_config = FROZEN
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@-]{1,200}$")]
    """User name."""
    secret: SecretSource
    """Place of the secret."""


class ExistingTarget(BaseModel):
    """A target that exists: an iSCSI LUN, an NVMe/TCP namespace or an NBD export."""

    model_config = FROZEN
    portal: Annotated[str, AfterValidator(portal)]
    """ADDRESS, ADDRESS:PORT, or the name of a machine in place of the address; an IPv6 address is in brackets.
    Default ports: iSCSI 3260, NVMe/TCP 4420, NBD 10809."""
    iqn: Maybe[Annotated[str, AfterValidator(iscsi_name)]] = None
    """iSCSI name of the target."""
    lun: Maybe[Annotated[int, Field(ge=0, le=16_383, strict=True)]] = None
    """Logical unit number with `iqn`; default: 0."""
    nqn: Maybe[Annotated[str, AfterValidator(nvme_name)]] = None
    """NVMe qualified name of the subsystem."""
    namespace: Maybe[Annotated[int, Field(ge=1, le=0xFFFF_FFFE, strict=True)]] = None
    """Namespace identifier with `nqn`; default: 1."""
    nbd: Maybe[Annotated[str, AfterValidator(export_name)]] = None
    """Name of the NBD export; "" is the default export."""
    initiator: Maybe[str] = None
    """iSCSI or NVMe name with which iolab logs in, if the target permits only certain names; default: a name that no
    other initiator has, which `iolab plan` shows."""
    chap: Maybe[TargetChap] = None
    """CHAP credentials, with `iqn`; default: none."""

    @property
    def protocol(self) -> Protocol:
        """Protocol of the target."""
        return "iscsi" if self.iqn is not None else "nvme-tcp" if self.nqn is not None else "nbd"

    @property
    def host(self) -> str:
        """Address or machine of the portal."""
        found = PORTAL.fullmatch(self.portal)
        assert found is not None, "the model was validated"
        return found["machine"].strip("[]")

    @property
    def port(self) -> int:
        """TCP port of the portal."""
        found = PORTAL.fullmatch(self.portal)
        assert found is not None, "the model was validated"
        return int(found["port"] or DEFAULT_PORTS[self.protocol])

    @property
    def machine(self) -> str | None:
        """Machine of the lab that the portal names; None: the portal is an address."""
        return None if ":" in self.host or re.fullmatch(r"[0-9.]+", self.host) else self.host

    @property
    def target(self) -> str:
        """Name of the target in its protocol."""
        return self.iqn or self.nqn or self.nbd or ""

    @property
    def unit(self) -> int:
        """Logical unit number, or namespace identifier."""
        return (self.lun or 0) if self.protocol == "iscsi" else (self.namespace or 1)

    @property
    def identity(self) -> str:
        """Identity without the serial number, which only the target knows."""
        if self.protocol == "nbd":
            return f"nbd://{self.portal}/{self.nbd}"
        return f"{self.target},{self.unit}"

    @property
    def written_identity(self) -> str:
        """Identity with a placeholder for the serial number, as `--allow-writes` expects it."""
        return self.identity if self.protocol == "nbd" else f"{self.identity}/SERIAL"

    def problems(self) -> Iterator["KeyProblem"]:
        """Yield the keys that do not belong together."""
        named = [key for key in ("iqn", "nqn", "nbd") if getattr(self, key) is not None]
        if len(named) != 1:
            seen = Phrase("errors.listed", items=named) if named else Phrase("check.no-name-of-target")
            yield KeyProblem(named[1] if named else "", seen, Phrase("check.one-name-of-target"))
            return
        for key, other in (("lun", "iqn"), ("namespace", "nqn"), ("chap", "iqn")):
            if getattr(self, key) is not None and other not in named:
                seen = Phrase("check.key-with-other", key=key, other=named[0])
                yield KeyProblem(key, seen, Phrase("check.key-only-with", key=key, other=other))
        if self.initiator is not None:
            pattern, allowed = INITIATORS.get(named[0], (None, Phrase("check.no-initiator-name")))
            if pattern is None or not pattern.fullmatch(self.initiator):
                yield KeyProblem("initiator", self.initiator, allowed)
        if self.chap is not None:
            given = [key for key in ("file", "env") if getattr(self.chap.secret, key) is not None]
            if len(given) != 1:
                seen = Phrase("check.secret-places", count=len(given))
                yield KeyProblem("chap", seen, Phrase("check.one-place-of-secret"))


@frozen
class KeyProblem:
    """A key that does not fit the other keys of a target."""

    key: str
    """The key; empty: the target itself."""
    seen: object
    """Description of the file's content, for the message."""
    allowed: Phrase
    """Description of valid content, for the message."""


DEFAULT_PORTS: dict[Protocol, int] = {"iscsi": 3260, "nvme-tcp": 4420, "nbd": 10_809}
"""Default port of each protocol, as assigned by IANA."""
