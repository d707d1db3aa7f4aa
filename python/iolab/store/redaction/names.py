"""Replacement of names in the text of a run: host and user names, serial numbers, addresses, paths, other words.

Equal names become equal replacements in every file, so the records still refer to each other.
"""

import hashlib
import ipaddress
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from iolab.messages.codes import MODULE_OF
from iolab.store.redaction.addresses import Addresses, Network

HOSTS, USERS, SERIALS, WORDS = "host", "user", "serial", "word"
"""Kinds of words, as they appear in replacements: host-r1."""
PUBLIC = frozenset(
    (
        "bin",
        "boot",
        "dev",
        "etc",
        "lib",
        "lib32",
        "lib64",
        "proc",
        "run",
        "sbin",
        "snap",
        "sys",
        "tmp",
        "usr",
        "var",
    )
)
"""First components of paths that are equal on many hosts."""
PLACES = frozenset(("data", "home", "media", "mnt", "opt", "root", "srv"))
"""First components of other paths that stay the same; all components after them are replaced."""
_HOSTNAME = re.compile(r'"hostname":\s*"([^"\\]+)"')
_SSH = re.compile(r"""\bssh["']?:\s*["']?(?:ssh://)?(?:([\w.-]+)@)?([A-Za-z0-9][\w.-]*)""")
_HOME = re.compile(r"/(?:home|Users)/([\w.-]+)")
_SERIAL = re.compile(
    r"""["']?\b(?:serial|wwn|wwid|nguid|eui64|part_?uuid|lv_?uuid)["']?\s*[:=]\s*["']?([\w.:-]{4,})""",
    re.IGNORECASE,
)
_NETWORK = re.compile(r"(?<![\w.:])([0-9A-Fa-f.:]{2,39})/(\d{1,3})(?![\w.])")
_MAC = r"(?<![\w:-])[0-9A-Fa-f]{2}(?P<sep>[:-])(?:[0-9A-Fa-f]{2}(?P=sep)){4}[0-9A-Fa-f]{2}(?![\w:-])"
_PLAIN = (
    r"(?P<uuid>(?<![\w-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![\w-]))"
    r"|(?P<target>\b(?:iqn|nqn)\.\d{4}-\d\d\.[\w.:-]+)"
    rf"|(?P<mac>{_MAC})"
    r"|(?<=\benx)(?P<enx>[0-9a-f]{12})\b"
    r"|(?P<ip6>(?<![\w:.])(?=[0-9A-Fa-f]*:[0-9A-Fa-f]*:)[0-9A-Fa-f:]{2,39}(?![\w:]))"
    r"|(?P<ip4>(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\w|\.\d))"
)
_PATH = r"(?P<path>(?<![\w.\-/<~*?\]})@%])/(?:[\w.+@:~-]+/)+[\w.+@:~-]+)"
_BY_ID = re.compile(r"(/dev/disk/by-[a-z]+/)([\w.+@:~-]+)")
_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,5}$")


@cache
def vocabulary() -> frozenset[str]:
    """Return the words of iolab's records and of its experiment language, which must stay the same everywhere."""
    from iolab.experiment.schema import json_schema  # builds every model

    def words(value: object) -> Iterable[str]:
        if isinstance(value, Mapping):
            for key, part in value.items():
                yield str(key)
                yield from words(part)
        elif isinstance(value, list):
            for part in value:
                yield from words(part)
        elif isinstance(value, str):
            yield value

    texts = [*words(json_schema()), *MODULE_OF, *RECORDS.split()]
    return frozenset(part.lower() for text in texts for part in (text, *re.split(r"[^A-Za-z0-9]+", text)))


RECORDS = (
    "ok failed invalid complete partial stdout stderr machine machines guest guests hosts kernel program local "
    "localhost near far line time load generator receiver window windows values root admin debian true false null"
)
"""Words of records that the language does not have."""


class Names:
    """The replacement of the names of one run."""

    def __init__(self, texts: Iterable[str], words: Iterable[str], key: bytes) -> None:
        """Find the names in texts (experiment, facts, descriptions of machines, records).

        `words` are replaced too. `key` must be random and secret: without the key, no address can be restored.
        """
        found: dict[str, str] = {}
        networks: set[Network] = set()
        everything = ""
        for written in texts:
            text = written.replace("\\n", "\n").replace("\\t", "\t")  # escapes of JSON are no part of a name
            everything += text
            _find(text, found)
            networks |= set(_networks(text))
        found = {name: kind for name, kind in found.items() if name.lower() not in vocabulary()}
        found |= dict.fromkeys(filter(None, words), WORDS)
        self._key = key
        self._addresses = Addresses(key, networks)
        self._words = _replacements(found, everything)
        alternatives = "|".join(re.escape(each) for each in sorted(self._words, key=len, reverse=True))
        own = rf"(?P<word>(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9]))|" if alternatives else ""
        self._plain = re.compile(own + _PLAIN, re.IGNORECASE)
        self._whole = re.compile(f"{own}{_PATH}|{_PLAIN}", re.IGNORECASE)
        self._folded = {name.casefold(): fresh for name, fresh in self._words.items()}
        self._components: dict[str, str] = {}
        self._others: dict[str, str] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of different names that were replaced, by kind."""
        kinds = Counter(fresh.partition("-")[0] for fresh in self._words.values())
        return {**kinds, "address": len(self._addresses.replaced), "path": len(self._components),
                "identifier": len(self._others)}  # fmt: skip

    def replaced(self, text: str) -> str:
        """Return a text in which all names are replaced."""
        return self._whole.sub(self._replace, text)

    def replaced_json(self, value: Any, key: str = "") -> Any:
        """Return a JSON value in which all names in texts and keys are replaced; numbers stay the same.

        A host name that is also a word of iolab's records, such as `host`, is replaced only under the key `hostname`.
        """
        if isinstance(value, str):
            if key == "hostname" and value.lower() in vocabulary():
                self._words.setdefault(value, f"{HOSTS}-r0")
                return f"{HOSTS}-r0"
            return self.replaced(value)
        if isinstance(value, list):
            return [self.replaced_json(each) for each in value]
        if isinstance(value, dict):
            return {self.replaced(name): self.replaced_json(each, name) for name, each in value.items()}
        return value

    def _replace(self, match: re.Match[str]) -> str:
        kind, text = match.lastgroup, match[0]
        if match["mac"] is not None or kind == "enx":
            return self._addresses.mac(text)
        if kind == "word":
            return self._folded.get(text.casefold(), f"{WORDS}-r0")
        if kind in ("ip4", "ip6"):
            return self._addresses.ip(text)
        if kind == "path":
            return self._path(text)
        if kind == "target":
            organisation = text[:11] if text.lower().startswith(("iqn", "nqn")) else ""
            return f"{organisation}.example:{self._token(text, 'target')}"
        digits = self._digits(text, 16)
        self._others[text] = digits
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def _token(self, text: str, kind: str) -> str:
        return self._others.setdefault(text, f"{kind}-{self._digits(text, 4)}")

    def _digits(self, text: str, size: int) -> str:
        """Return digits for a name that do not depend on the order in which names are replaced."""
        return hashlib.blake2b(text.lower().encode(), key=self._key, digest_size=size).hexdigest()

    def _path(self, path: str) -> str:
        first, *rest = path[1:].split("/")
        if first in PUBLIC:
            path = _BY_ID.sub(lambda found: found[1] + self._token(found[2], "disk"), path)
            return self._plain.sub(self._replace, path)
        head = first if first in PLACES else self._component(first)
        return "/".join(("", head, *map(self._component, rest)))

    def _component(self, name: str) -> str:
        """Return the replacement of a component of a path; iolab's own names and suffixes stay the same."""
        if name.casefold() in self._folded:
            return self._folded[name.casefold()]
        if name.startswith("iolab") or set(name) <= {"."}:
            return self._plain.sub(self._replace, name)
        suffix = match[0] if (match := _SUFFIX.search(name)) else ""
        return self._components.setdefault(name, f"path-{self._digits(name, 4)}{suffix}")


def _find(text: str, found: dict[str, str]) -> None:
    """Add the host names, user names and serial numbers of a text; the first kind of a name counts."""
    for name in _HOSTNAME.findall(text):
        found.setdefault(name, HOSTS)
        found.setdefault(name.partition(".")[0], HOSTS)
    for user, host in _SSH.findall(text):
        if user:
            found.setdefault(user, USERS)
        if not re.fullmatch(r"[\d.]+", host):
            found.setdefault(host, HOSTS)
            found.setdefault(host.partition(".")[0], HOSTS)
    for name in _HOME.findall(text):
        found.setdefault(name, USERS)
    for name in _SERIAL.findall(text):
        if not name.startswith("iolab"):
            found.setdefault(name, SERIALS)


def _networks(text: str) -> Iterable[Network]:
    """Yield the networks in a text, such as 10.1.0.0/16."""
    for address, length in _NETWORK.findall(text):
        with suppress(ValueError):
            yield ipaddress.ip_network(f"{address}/{length}")


def _replacements(found: Mapping[str, str], text: str) -> dict[str, str]:
    """Return a replacement for each name, by kind and number, which the text does not contain yet."""
    fresh: dict[str, str] = {}
    for name, kind in found.items():
        number = 1
        while (candidate := f"{kind}-r{number}") in fresh.values() or candidate in text:
            number += 1
        fresh[name] = candidate
    return fresh
