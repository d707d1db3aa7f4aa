"""What every test with guests needs: root, programs, and the image, built into the user's cache where that lacks it."""

import os
import shutil
from pathlib import Path

import pytest

from iolab.agent.transport import find_agent
from iolab.image import Image, build

PROGRAMS = ("mmdebstrap", "mksquashfs", "depmod", "qemu-system-x86_64")
LIMIT_S = 300
"""The first test on a new machine builds the image, and its CPUs may be shared."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here; an emulated guest takes seconds where others take milliseconds."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.guest)
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(scope="session", autouse=True)
def image() -> Image:
    """Return the image `linux` with the agent of this tree."""
    if os.geteuid() != 0:
        pytest.skip("needs root to make namespaces and to look at what was left")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; scripts/packages.sh guest installs it")
    return build("linux", find_agent(), print)
