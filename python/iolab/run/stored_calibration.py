"""What was measured of the instrument on a host, kept in the user's cache folder: a file for each host."""

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from iolab.agent.messages import Json
from iolab.errors import StoreError
from iolab.files import cache_folder, write_whole

SCHEMA = 1


def stored_calibration(host: Mapping[str, Json]) -> dict[str, Json] | None:
    """Return what was measured on a host with its kernel, or None."""
    try:
        found = json.loads(place(identity(host)).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    same = isinstance(found, dict) and found.get("schema") == SCHEMA and found.get("host") == identity(host)
    return found if same else None


def store_calibration(found: Mapping[str, Json]) -> Path:
    """Keep a calibration for later runs; return where.

    Raises:
        StoreError: it cannot be written.
    """
    path = place(found["host"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(found, indent=1))
    except OSError as error:
        raise StoreError(f"storing the calibration in {path}: {error.strerror}") from error
    return path


def place(host: Mapping[str, Json]) -> Path:
    """Return where the calibration of a host lies (XDG base directories); its name is a digest of its identity."""
    digest = blake2b(json.dumps(host, sort_keys=True).encode(), digest_size=8).hexdigest()
    return cache_folder() / f"calibration-{digest}.json"


def identity(host: Mapping[str, Json]) -> dict[str, Json]:
    """Return what must be the same for a calibration to hold."""
    return {name: host.get(name) for name in ("hostname", "kernel", "architecture", "cpu_model", "cpus")}
