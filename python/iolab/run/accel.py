"""Which accelerator guests have on a kernel: found by really booting one, because a KVM node may exist and not work.

The finding is kept in the user's cache folder, by what it depends on.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Literal

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Json

Accelerator = Literal["kvm", "tcg"]

PROBE_TIMEOUT_MS = 15_000
"""With KVM the kernel comes to the end of its boot in a second; one that hangs has none."""
NESTED_TIMEOUT_MS = 120_000
"""Below an emulated computer it takes 8 s on a calm host, on a very busy one over a minute."""
REACHED = ("VFS: Unable to mount root fs", "Kernel panic", "No working init found")
"""What a kernel without a disk says at the end of its boot, beyond all that an accelerator could break."""
NODE = "/dev/kvm"
BROKEN = "KVM internal error"
"""What QEMU says when the kernel's KVM cannot run a guest after all; it then stands still."""


def find_accelerator(
    agent: Agent, identity: tuple[str, ...], qemu: tuple[str, ...], kernel: str, *, nested: bool = False
) -> Accelerator | None:
    """Return what guests on the agent's kernel can use; None: the boot neither ended nor failed in time.

    `identity` is what the finding depends on.
    """
    known = _stored()
    key = "|".join(identity)
    if known.get(key) in ("kvm", "tcg"):
        return "kvm" if known[key] == "kvm" else "tcg"
    boots = boots_with_kvm(agent, qemu, kernel, NESTED_TIMEOUT_MS if nested else PROBE_TIMEOUT_MS)
    if boots is None:
        return None
    found: Accelerator = "kvm" if boots else "tcg"
    _store({**known, key: found})
    return found


def boots_with_kvm(
    agent: Agent, qemu: tuple[str, ...], kernel: str, timeout_ms: int = PROBE_TIMEOUT_MS
) -> bool | None:
    """Tell whether a kernel boots to its end with KVM; None: it neither did nor failed in time."""
    if not agent.run(("test", "-c", NODE)).succeeded:
        return False
    argv = (
        *qemu,
        *("-accel", "kvm", "-machine", "q35", "-cpu", "host", "-m", "256M", "-nodefaults", "-no-user-config"),
        *("-display", "none", "-no-reboot", "-serial", "stdio", "-kernel", kernel),
        *("-append", "console=ttyS0 panic=-1 nokaslr mitigations=off clocksource=tsc tsc=reliable"),
    )
    try:
        ran = agent.run(argv, timeout_ms=timeout_ms)
    except Refused:
        return False
    if any(words in ran.stdout for words in REACHED):
        return True
    return None if ran.timed_out and BROKEN not in ran.stderr else False


def place() -> Path:
    """Return where findings lie (XDG base directories)."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "iolab" / "accelerators.json"


def _stored() -> dict[str, Json]:
    try:
        found = json.loads(place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _store(found: dict[str, Json]) -> None:
    """Keep findings; where that cannot be, the next run finds them again."""
    with contextlib.suppress(OSError):
        place().parent.mkdir(parents=True, exist_ok=True)
        fresh = place().with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(found, indent=1), encoding="utf-8")
        fresh.replace(place())
