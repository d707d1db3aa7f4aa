"""Fixtures of tests with guests: root, programs, images (built into the user's cache if missing), agents."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.xen_hosts import make_disk
from tests.netns.conftest import host_put_back, iolab, namespaces_refused, unchanged_host

from iolab.agent.client import Agent
from iolab.agent.transport import LocalTransport, find_agent
from iolab.errors import UnsupportedError
from iolab.image import Image, build, build_qemu
from iolab.image.emulator import NEWER, find_qemu
from iolab.run.agents import Agents

__all__ = ["iolab", "unchanged_host"]

PROGRAMS = (
    *("mmdebstrap", "mksquashfs", "mkfs.ext4", "depmod", "qemu-system-x86_64", "ip", "iperf3", "ethtool"),
)
LIMIT_S = 900
"""Time limit: the first test on a new machine builds the image, and a busy host takes ten times as long."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder; an emulated guest takes seconds where others take milliseconds."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.guest)
            item.add_marker(pytest.mark.timeout(LIMIT_S))
        if Path(__file__).parent / "image" in item.path.parents:
            item.add_marker(pytest.mark.full)  # the core tests with guests need such an image


@pytest.fixture(scope="session", autouse=True)
def image() -> Image:
    """Return the image `linux` with the agent of this tree."""
    if refusal := namespaces_refused():
        pytest.skip(refusal)
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}; scripts/packages.sh run guest installs it")
    return build("linux", find_agent(), print)


@pytest.fixture(scope="session")
def nested(image: Image) -> Image:
    """Return the image of a guest that has guests."""
    return build("nested", find_agent(), print)


@pytest.fixture(scope="session")
def xen(image: Image) -> Image:
    """Return the image of a guest that is Dom0."""
    return build("xen", find_agent(), print)


@pytest.fixture(scope="session")
def disk_of_image(image: Image, xen: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a disk of a Xen host that already contains the image and the agent."""
    return make_disk(tmp_path_factory.mktemp("xen"), image)


@pytest.fixture(scope="session")
def host(image: Image) -> Image:
    """Return the image of a guest that acts as a different computer."""
    return build("host", find_agent(), print)


@pytest.fixture(scope="session")
def newer_qemu(image: Image) -> None:
    """Return a QEMU that emulates SR-IOV NICs."""
    try:
        find_qemu(NEWER)
    except UnsupportedError:
        build_qemu(print)


@pytest.fixture
def agents(unchanged_host: None) -> Iterator[Agents]:
    """Provide the agents of a lab on the local host; restore it."""
    with Agent(LocalTransport(find_agent())) as agent:
        yield Agents(agent)


@pytest.fixture(scope="module")
def lasting_agents(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agents]:
    """Provide the agents of a lab that exists for all tests of a file; restore the host after them."""
    state = tmp_path_factory.mktemp("lasting") / "state"
    with (
        pytest.MonkeyPatch.context() as patch,
        host_put_back(patch, state),
        Agent(LocalTransport(find_agent())) as agent,
    ):
        yield Agents(agent)
