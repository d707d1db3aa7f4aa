"""Memory of a disk program: how much it may have, and where a kernel limits it."""

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
def test_the_figures_of_2006_have_half_of_the_file_and_the_others_what_is_written(
    written: dict[str, str], bytes_: int | None
) -> None:
    """hdparm reads the disk itself."""
    assert memory_of(DiskMeasure.model_validate({"kind": "disk", "on": "pc2", **written})) == bytes_


def test_the_cgroup_is_of_the_version_that_the_kernel_has() -> None:
    """Or there is none for memory."""
    assert cgroup_of("1\n") == Cgroup("/sys/fs/cgroup/memory/iolab-disk-program", "memory.limit_in_bytes")
    assert cgroup_of("cpu io memory pids\n\n") == Cgroup("/sys/fs/cgroup/iolab-disk-program", "memory.max")
    assert cgroup_of("cpu io\n\n") is None
    assert cgroup_of("") is None


def test_a_root_gives_memory_where_its_last_line_has_it() -> None:
    """What it has is one thing, what its children may use another."""
    assert gives_memory("cpu memory\n\ncpu memory")
    assert not gives_memory("cpu memory\n\ncpu")
    assert not gives_memory("cpu memory\n\n\n")
