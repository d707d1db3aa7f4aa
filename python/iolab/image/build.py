"""Build a guest image from a kernel layer, a root layer and the agent.

Layers are shared: an image with a new agent is built in seconds without a network, and a new flavour needs only a new
root layer. The agent is in an archive that the kernel unpacks before it starts the first process (cpio "newc"; Linux,
initramfs-buffer-format).
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from iolab.clock import Clock, SystemClock
from iolab.errors import UnsupportedError
from iolab.image import layers
from iolab.image.cache import MANIFEST, UNFINISHED, Cache, Image, Manifest, default_cache, write_manifest
from iolab.image.layers import is_static_program
from iolab.image.packages import OS_RELEASE, Archive, Distribution, backports, find_sources, read_distribution
from iolab.image.programs import demand, run
from iolab.image.recipe import (
    Digests,
    Flavour,
    Recipe,
    added_packages,
    hash_bytes,
    hash_file,
    name_layers,
    read_recipe,
    with_packages,
)
from iolab.locale import Phrase, Text
from iolab.registry.images import flavour_of_image

PROGRAMS = (
    "apt-get", "apt-cache", "dpkg-deb", "mmdebstrap", "mksquashfs", "unsquashfs", "depmod", "setpriv", "unshare",
)  # fmt: skip
ROOM_BYTES = 1_500_000_000
"""Cache space for building the largest flavour, including its layers [bytes]."""
Tell = Callable[[Text], None]
"""Callback that receives progress messages, one line each."""
MAGIC = b"070701"
TRAILER = "TRAILER!!!"
ALIGNMENT_BYTES = 4


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, folder or device of the archive."""

    path: str
    """Path without a leading slash."""
    mode: int
    """Type and permissions, as in st_mode."""
    content: bytes = b""
    """File content."""
    device: tuple[int, int] = (0, 0)
    """Major and minor number of a device."""


def build(
    flavour: str,
    agent_path: Path,
    tell: Tell = lambda _: None,
    *,
    renew: bool = False,
    cache: Cache | None = None,
    clock: Clock | None = None,
) -> Image:
    """Return the image of a flavour with this agent inside; build the parts that are not in the cache.

    `renew` rebuilds all parts with current packages.

    Raises:
        InputError: the flavour does not exist.
        UnsupportedError: this host cannot build the image; the error states the reason and the packages to install.
    """
    cache = cache or default_cache()
    recipe = read_recipe()
    written = recipe.flavour(flavour)
    added = added_packages(written)
    wanted = with_packages(written, added)
    distribution = read_distribution(OS_RELEASE.read_text(encoding="utf-8"))
    agent = _read_agent(agent_path)
    digests = name_layers(recipe, wanted, distribution.suite, hash_file(agent_path))
    if not renew and (image := cache.find(digests.image)) is not None:
        return image
    demand([*PROGRAMS, *(["newuidmap"] if os.geteuid() else [])], Phrase("image.building"))
    with cache.locked(tell):
        if not renew and (image := cache.find(digests.image)) is not None:
            return image
        _check_room(cache)
        job = _Build(cache, recipe, wanted, distribution, digests, added, tell, clock or SystemClock())
        return job.run(agent, renew)


def built_names(cache: Cache | None = None) -> tuple[str, ...]:
    """Return the names of all flavours, and of built images with additional packages."""
    known = tuple(flavour.name for flavour in read_recipe().flavours)
    built = (image.manifest.flavour for image in (cache or default_cache()).list_images())
    return tuple(dict.fromkeys((*known, *(name for name in built if flavour_of_image(name) in known))))


def find(flavour: str, agent_path: Path | None = None, *, cache: Cache | None = None) -> Image | None:
    """Return the image of a flavour that was built with the current recipe: with the given agent, or the newest image
    with any agent.

    Of several images, return the one that contains the most programs of installed plug-in measures and instruments. A
    newly installed plug-in does not invalidate images; planning reports missing programs.

    Raises:
        InputError: the flavour does not exist.
    """
    cache = cache or default_cache()
    recipe = read_recipe()
    written = recipe.flavour(flavour)
    wanted = set(added_packages(written))
    own_agent = None if agent_path is None else hash_file(agent_path)
    fitting = []
    for image in cache.list_images():
        about = image.manifest
        like = with_packages(written, about.added)
        if about.digest == name_layers(recipe, like, about.suite, own_agent or about.agent_sha256).image:
            fitting.append(image)
    return max(fitting, key=lambda image: len(wanted.intersection(image.manifest.added)), default=None)


class _Build:
    """One build: the recipe, the layers and the target folder."""

    def __init__(
        self,
        cache: Cache,
        recipe: Recipe,
        flavour: Flavour,
        distribution: Distribution,
        digests: Digests,
        added: tuple[str, ...],
        tell: Tell,
        clock: Clock,
    ) -> None:
        self._cache = cache
        self._recipe = recipe
        self._flavour = flavour
        self._distribution = distribution
        self._digests = digests
        self._added = added
        self._tell = tell
        self._clock = clock
        self._kernel = cache.layers / digests.kernel
        self._root = cache.layers / digests.root

    def run(self, agent: bytes, renew: bool) -> Image:
        """Build the missing layers (with `renew`, all layers), then the image."""
        begin_ns = self._clock.now_ns()
        lacking = [layer for layer in (self._kernel, self._root) if renew or not layer.is_dir()]
        if lacking:
            self._make_layers(lacking)
        self._tell(Phrase("image.assembling"))
        target = self._cache.images / self._digests.image
        with self._cache.new_folder(target) as folder:
            self._assemble(folder, agent)
            write_manifest(folder, self._describe(folder, agent, begin_ns))
        image = self._cache.find(self._digests.image)
        assert image is not None
        return image

    def _make_layers(self, lacking: Sequence[Path]) -> None:
        """Build layers; layers of the same release share the package lists."""
        newer = [layer for layer in lacking if layer == self._kernel and self._flavour.backports]
        for layers_, backported in ((newer, True), ([one for one in lacking if one not in newer], False)):
            if layers_:
                with self._archive(backported) as archive:
                    for layer in layers_:
                        self._make_layer(layer, archive)

    @contextmanager
    def _archive(self, backported: bool) -> Iterator[Archive]:
        self._tell(Phrase("image.fetching-lists"))
        self._cache.layers.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=self._cache.layers) as folder:
            suite = self._distribution.suite
            sources = find_sources(suite)
            archive = Archive(Path(folder), backports(sources, suite) if backported else sources)
            archive.update()
            yield archive

    def _make_layer(self, layer: Path, archive: Archive) -> None:
        with self._cache.new_folder(layer) as folder:
            if layer == self._kernel:
                self._tell(Phrase("image.fetching-kernel"))
                layers.build_kernel(archive, self._recipe, self._flavour, self._distribution, folder)
            else:
                archive.demand(self._flavour.packages)
                self._tell(Phrase("image.building-root-takes", flavour=self._flavour.name))
                layers.build_root(archive, self._distribution, self._flavour, folder)

    def _assemble(self, folder: Path, agent: bytes) -> None:
        for source in (self._kernel / layers.VMLINUX, self._root / layers.ROOT, self._root / layers.XEN):
            if source.exists():
                os.link(source, folder / source.name)
        kernel = layers.read_kernel(self._kernel)
        packages = [*(self._root / layers.PACKAGES).read_text(encoding="utf-8").split(), kernel.package]
        lines = "".join(f"{line}\n" for line in sorted(packages))
        (folder / layers.PACKAGES).write_text(lines, encoding="utf-8")
        early = [(path.name, path.read_bytes()) for path in sorted((self._kernel / layers.EARLY).iterdir())]
        (folder / "initrd").write_bytes(pack_initrd(agent, early))
        shutil.copyfile(self._kernel / layers.MODULES, folder / layers.MODULES)
        self._add_boot(folder)

    def _add_boot(self, folder: Path) -> None:
        # A guest starts nested guests from its own disks: kernel and initrd are on the second disk.
        with tempfile.TemporaryDirectory(dir=folder) as work:
            boot = Path(work) / "boot"
            boot.mkdir(mode=0o755)
            for name in ("initrd", layers.VMLINUX):
                os.link(folder / name, boot / name)
            argv: list[str | Path] = [
                "mksquashfs",
                boot,
                folder / layers.MODULES,
                "-keep-as-directory",
                "-all-root",
                *layers.SQUASH[4:],
            ]
            run(argv, Phrase("image.adding-boot-files"))

    def _describe(self, folder: Path, agent: bytes, begin_ns: int) -> Manifest:
        kernel = layers.read_kernel(self._kernel)
        files = [path for path in sorted(folder.iterdir()) if path.name != MANIFEST]
        return Manifest(
            digest=self._digests.image,
            flavour=self._flavour.name,
            suite=self._distribution.suite,
            architecture=self._distribution.architecture,
            kernel_release=kernel.release,
            kernel_version=kernel.version,
            agent_sha256=hash_bytes(agent),
            kernel_layer=self._digests.kernel,
            root_layer=self._digests.root,
            features=kernel.features,
            sizes_bytes={path.name: path.stat().st_size for path in files},
            packages_sha256=hash_file(folder / layers.PACKAGES),
            built=self._clock.wall().isoformat(timespec="seconds"),
            build_s=round((self._clock.now_ns() - begin_ns) / 1e9, 1),
            added=self._added,
        )


def pack_initrd(agent: bytes, modules: list[tuple[str, bytes]]) -> bytes:
    """Return the initrd: the agent as /init, the modules, and the list of their load order."""
    listed = "".join(f"/iolab/modules/{name}\n" for name, _ in modules)
    return pack(
        [
            *(folder(path) for path in ("dev", "proc", "sys", "run", "root", "iolab", "iolab/modules")),
            character_device("dev/console", 5, 1),
            file("init", agent, executable=True),
            file("iolab/modules.list", listed.encode()),
            *(file(f"iolab/modules/{name}", content) for name, content in modules),
        ]
    )


def _read_agent(path: Path) -> bytes:
    try:
        agent = path.read_bytes()
    except OSError as error:
        raise UnsupportedError(Phrase("image.agent-unreadable", path=path, reason=error.strerror)) from error
    if not is_static_program(agent):
        raise UnsupportedError(Phrase("image.agent-not-static", path=path))
    return agent


def _check_room(cache: Cache) -> None:
    free = shutil.disk_usage(cache.folder).free
    if free < ROOM_BYTES:
        free_mb, needed_mb = f"{free / 1e6:.0f} MB", f"{ROOM_BYTES / 1e6:.0f} MB"
        raise UnsupportedError(
            Phrase("image.too-little-space", free=free_mb, folder=cache.folder, needed=needed_mb)
        )


def folder(path: str) -> Entry:
    """Return the archive entry of a folder; every folder must precede its contents."""
    return Entry(path, stat.S_IFDIR | 0o755)


def file(path: str, content: bytes, executable: bool = False) -> Entry:
    """Return the archive entry of a file."""
    return Entry(path, stat.S_IFREG | (0o755 if executable else 0o644), content)


def character_device(path: str, major: int, minor: int) -> Entry:
    """Return the archive entry of a character device."""
    return Entry(path, stat.S_IFCHR | 0o600, device=(major, minor))


def pack(entries: Iterable[Entry]) -> bytes:
    """Return the archive; equal entries result in equal bytes, because the archive has no dates and no owners."""
    packed = [_pack_entry(number, entry) for number, entry in enumerate(entries, start=1)]
    return b"".join([*packed, _pack_entry(0, Entry(TRAILER, 0))])


def _pack_entry(inode: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    numbers = (inode, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    header = MAGIC + b"".join(b"%08X" % number for number in numbers)
    return _aligned(header + name) + _aligned(entry.content)


def _aligned(data: bytes) -> bytes:
    return data + bytes(-len(data) % ALIGNMENT_BYTES)
