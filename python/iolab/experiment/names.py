"""Which names machines, links, volumes, measures and ports may have: those of the kernel's interfaces and folders."""

import re

RESERVED = frozenset({"machines", "links", "volumes", "measure", "factors", "lab", "value", "none", "all"})
"""Names that mean something else where a machine, link, volume or measure is named."""
PORT_ALLOWED = "machine.port, the port an interface name of at most 15 letters, digits, - and _ (e.g. eth0)"

_SHORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,14}", re.ASCII)
_LONG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}", re.ASCII)
_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}", re.ASCII)


def is_port(name: str) -> bool:
    """Tell whether the kernel takes this as an interface's name (IFNAMSIZ: 15 characters)."""
    return _PORT.fullmatch(name) is not None


def name_problem(name: str, *, short: bool) -> str:
    """Return what a name must be where it is not; `short` names become parts of interface names."""
    if not (_SHORT if short else _LONG).fullmatch(name):
        text = f"letters, digits, - and _, beginning with a letter or digit, at most {15 if short else 40}"
        return text + (" (it names an interface)" if short else "")
    return f"a name other than {', '.join(sorted(RESERVED))}" if name in RESERVED else ""
