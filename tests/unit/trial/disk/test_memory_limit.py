"""Memory of a disk program: its limit, and the kernel's cgroup."""

import pytest

from iolab.experiment.model.measures import DiskMeasure
from iolab.trial.disk.memory_limit import Cgroup, cgroup_of, gives_memory, memory_of

MIB = 1 << 20


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [
        ({"program": "bonnie++", "profile": "legacy-2006", "size": "128M"}, 64 * MIB),
        ({"program": "bonnie++", "profile": "legacy-2006"}, 512 * MIB),
        ({"program": "thput-fsys", "profile": "legacy-2006", "size": "1M"}, 16 * MIB),
        ({"program": "thput-fsys", "size": "128M", "memory": "32M"}, 32 * MIB),
        ({"program": "bonnie++", "profile": "honest", "size": "128M"}, None),
        ({"program": "hdparm", "profile": "legacy-2006"}, None),
    ],
)
def test_memory_limit_is_half_of_the_file_in_legacy_profiles_and_otherwise_as_written(
    written: dict[str, str], bytes_: int | None
) -> None:
    """Set none for hdparm, which reads the disk itself."""
    assert memory_of(DiskMeasure.model_validate({"kind": "disk", "on": "pc2", **written})) == bytes_


def test_cgroup_version_follows_the_kernel() -> None:
    """Return None without a memory controller."""
    assert cgroup_of("1\n") == Cgroup("/sys/fs/cgroup/memory/iolab-disk-program", "memory.limit_in_bytes")
    assert cgroup_of("cpu io memory pids\n\n") == Cgroup("/sys/fs/cgroup/iolab-disk-program", "memory.max")
    assert cgroup_of("cpu io\n\n") is None
    assert cgroup_of("") is None


def test_root_cgroup_offers_memory_if_its_subtree_control_does() -> None:
    """Distinguish its own controllers from those of its children."""
    assert gives_memory("cpu memory\n\ncpu memory")
    assert not gives_memory("cpu memory\n\ncpu")
    assert not gives_memory("cpu memory\n\n\n")
