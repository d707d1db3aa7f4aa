"""Store built images in the user's cache: find, list, remove, and add atomically.

A folder gets its final name only when it is complete, so an interrupted build is never mistaken for an image.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from iolab.errors import InputError, Problem, UnsupportedError
from iolab.files import cache_folder
from iolab.locale import Phrase, Text

MANIFEST = "image.json"
SCHEMA = 1
UNUSED_S = 30 * 86_400
"""Time without use after which an image is removable, because it probably belongs to an older iolab or a deleted lab;
remote hosts use the same time."""
UNFINISHED = ".building-"
"""Name prefix of folders of unfinished or interrupted builds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """Description of an image: the content of image.json."""

    schema: int = SCHEMA
    """Schema version of image.json."""
    digest: str
    """Digest of recipe, distribution and agent; also the folder name."""
    flavour: str
    """Flavour name, as in experiments."""
    suite: str
    """Code name of the Debian release."""
    architecture: str
    """Debian architecture."""
    kernel_release: str
    """Kernel release, as printed by `uname -r` in the guest."""
    kernel_version: str
    """Version of the kernel package."""
    agent_sha256: str
    """SHA-256 of the agent in the image."""
    kernel_layer: str
    """Digest of the kernel layer."""
    root_layer: str
    """Digest of the root file system layer."""
    features: tuple[str, ...]
    """Features of the guest's kernel, named as in host facts."""
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    """Size by file name [bytes]."""
    packages_sha256: str
    """SHA-256 of packages.txt."""
    built: str
    """Build time, ISO 8601."""
    build_s: float
    """Build duration [s]."""
    added: tuple[str, ...] = ()
    """Debian packages beyond the recipe, for programs of plug-in measures and instruments."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image in the cache."""

    folder: Path
    """Image folder."""
    manifest: Manifest
    """Description of the image."""

    @property
    def vmlinux(self) -> Path:
        """Return the kernel, an ELF file that is started through PVH."""
        return self.folder / "vmlinux"

    @property
    def initrd(self) -> Path:
        """Return the initrd: the agent, and the modules for its disks and its channel to the host."""
        return self.folder / "initrd"

    @property
    def root(self) -> Path:
        """Return the root file system, the guest's first disk."""
        return self.folder / "root.squashfs"

    @property
    def modules(self) -> Path:
        """Return the guest's second disk: kernel modules, and copies of kernel and initrd in boot/."""
        return self.folder / "modules.squashfs"

    @property
    def xen(self) -> Path | None:
        """Return the Xen hypervisor; None if the flavour has none."""
        path = self.folder / "xen"
        return path if path.exists() else None

    @property
    def packages(self) -> tuple[str, ...]:
        """Return every installed package as name=version, sorted."""
        return tuple((self.folder / "packages.txt").read_text(encoding="utf-8").split())

    @property
    def size_bytes(self) -> int:
        """Return the total size of all files [bytes]."""
        return sum(self.manifest.sizes_bytes.values())

    @property
    def used_s(self) -> float:
        """Return the time of the build or of the last guest start [s since 1970], stored as the folder's modification
        time."""
        return self.folder.stat().st_mtime

    def mark_used(self) -> None:
        """Set the time of last use to now; ignore folders of other users."""
        with contextlib.suppress(OSError):
            os.utime(self.folder)


class Cache:
    """Folders of images, shared layers, and newer QEMU versions."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.images = folder / "images"
        self.layers = folder / "layers"
        self.emulators = folder / "qemu"

    def list_images(self) -> tuple[Image, ...]:
        """Return every complete image, the newest first."""
        found = [image for path in _folders(self.images) if (image := read_image(path)) is not None]
        return tuple(sorted(found, key=lambda image: image.manifest.built, reverse=True))

    def list_unused(self, now_s: float) -> tuple[Image, ...]:
        """Return the images that have not been used for `UNUSED_S`."""
        return tuple(image for image in self.list_images() if now_s - image.used_s > UNUSED_S)

    def find(self, digest: str) -> Image | None:
        """Return the image with this digest; None if it has not been built."""
        return read_image(self.images / digest)

    def choose(self, names: tuple[str, ...]) -> tuple[Image, ...]:
        """Return the images with these flavours or digests (a digest prefix is enough).

        Raises:
            InputError: a name matches no image.
        """
        images = self.list_images()
        chosen: dict[Path, Image] = {}
        problems = []
        for name in names:
            fitting = [
                image
                for image in images
                if image.manifest.flavour == name or image.manifest.digest.startswith(name)
            ]
            if not fitting or not name:
                built = [f"{one.manifest.flavour} ({one.manifest.digest})" for one in images]
                allowed = ", ".join(built) or Phrase("cli.none-found")
                problems.append(Problem("image", Phrase("image.finding-image"), repr(name), allowed))
            chosen |= {image.folder: image for image in fitting}
        if problems:
            raise InputError(problems)
        return tuple(chosen.values())

    def remove(self, images: tuple[Image, ...], emulators: bool = False) -> int:
        """Delete images, and layers that no remaining image uses; return the freed space [bytes]."""
        before = used_bytes(self.folder)
        if emulators:
            discard(self.emulators)
        for image in images:
            discard(image.folder)
        used = {
            layer
            for image in self.list_images()
            for layer in (image.manifest.kernel_layer, image.manifest.root_layer)
        }
        for layer in _folders(self.layers):
            if layer.name not in used:
                discard(layer)
        return before - used_bytes(self.folder)

    @contextlib.contextmanager
    def locked(self, waits: Callable[[Text], None]) -> Iterator[None]:
        """Wait for a running build, lock the cache, and delete the folders of interrupted builds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waits(Phrase("image.waiting-for-build"))
                fcntl.flock(lock, fcntl.LOCK_EX)
            for place in (self.images, self.layers, self.emulators):
                for path in place.glob(f"{UNFINISHED}*"):
                    discard(path)
            yield

    @contextlib.contextmanager
    def new_folder(self, target: Path) -> Iterator[Path]:
        """Yield a folder to fill; rename it to `target` if the block succeeds, and delete it otherwise."""
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=target.parent))
        try:
            yield made
            made.chmod(0o755)
            discard(target)
            made.rename(target)
        finally:
            discard(made)


def default_cache() -> Cache:
    """Return the current user's cache."""
    return Cache(cache_folder())


def read_image(folder: Path) -> Image | None:
    """Return the image in a folder; None if there is none, or if its schema version differs."""
    try:
        manifest = _ADAPTER.validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None
    return Image(folder, manifest) if manifest.schema == SCHEMA else None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write image.json."""
    (folder / MANIFEST).write_bytes(_ADAPTER.dump_json(manifest, indent=1) + b"\n")


def discard(folder: Path) -> None:
    """Delete a folder; it is renamed first, so that its name disappears at once.

    Raises:
        UnsupportedError: the folder cannot be deleted.
    """
    if not folder.exists():
        return
    try:
        nameless = folder.with_name(f"{UNFINISHED}old-{folder.name.removeprefix(UNFINISHED)}")
        folder.rename(nameless)
        shutil.rmtree(nameless)
    except OSError as error:
        raise UnsupportedError(Phrase("image.cannot-delete", folder=folder, reason=error.strerror)) from error


def used_bytes(folder: Path) -> int:
    """Return the disk usage of a folder [bytes]; a file shared by an image and its layer counts once."""
    files = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            files[status.st_ino] = status.st_size if path.is_file() else 0
    return sum(files.values())


def _folders(place: Path) -> Iterator[Path]:
    if place.is_dir():
        yield from (path for path in place.iterdir() if not path.name.startswith(UNFINISHED))


_ADAPTER = TypeAdapter(Manifest)
