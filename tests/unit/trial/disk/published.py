"""Published job files of fio: their keys, with different values."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iolab.trial.disk.job_keys import SWITCH, key_of

TABLE = Path(__file__).parent / "published_jobs.toml"
VALUES = {
    "bs": "4k", "ba": "4k", "bsrange": "4k-16k", "size": "1m", "io_size": "1m", "offset": "0", "iodepth": "4",
    "numjobs": "2", "runtime": "200ms", "ramp_time": "50ms", "startdelay": "10ms", "loops": "2", "rate_iops": "500",
    "rwmixread": "60", "rwmixwrite": "40", "thinktime": "1ms", "cpus_allowed": "0", "fallocate": "none", "verify": "0",
    "cpus_allowed_policy": "split", "random_distribution": "zipf:1.2", "filename": "/dev/elsewhere",
    "directory": "/elsewhere", "description": "text",
}  # fmt: skip
"""Value by key; all other keys have the value 1."""


@dataclass(frozen=True, slots=True)
class Published:
    """One file."""

    repository: str
    text: str
    """The keys of the file, with VALUES."""
    replace: tuple[str, ...]
    """Keys that a user must list in `replace`."""


def published() -> Iterator[Published]:
    """Yield the files that fio itself can run unchanged."""
    for one in tomllib.loads(TABLE.read_text())["file"]:
        if "lacks" not in one:
            lines = ["[global]", *_lines(one["global"])]
            for number, section in enumerate(one["sections"]):
                count, _, keys = section.rpartition(" x ")
                for copy in range(int(count or 1)):
                    lines += [f"[section {number}.{copy}]", *_lines(keys)]
            yield Published(one["repository"], "\n".join((*lines, "")), tuple(one["replace"]))


def _lines(keys: str) -> Iterator[str]:
    for word in keys.split():
        key = key_of(word)
        bare = (
            "=" in word
            or (key is not None and key.values is SWITCH)
            or word in ("group_reporting", "write_bw_log")
        )
        name = key.name if key is not None else word
        yield word if bare else f"{word}={VALUES.get(name, '1')}"
