"""Where built images lie in the user's cache: find, list, remove, and putting a new one in place all at once.

A folder has its final name only when it is complete, so what a killed build leaves is never taken for an image.
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

MANIFEST = "image.json"
SCHEMA = 1
UNUSED_S = 30 * 86_400
"""What nobody used for so long is of an older iolab, or of a lab that is gone; as on other hosts."""
UNFINISHED = ".building-"
"""How the name of a folder begins that is still being made, or was when its maker died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What an image says of itself: the content of image.json."""

    schema: int = SCHEMA
    """Version of this file's form."""
    digest: str
    """Of recipe, distribution and agent; the folder's name."""
    flavour: str
    """As an experiment names it."""
    suite: str
    """Code name of the Debian release."""
    architecture: str
    """Debian's name of the kind of computer."""
    kernel_release: str
    """As uname -r in the guest."""
    kernel_version: str
    """Of the kernel's package."""
    agent_sha256: str
    """Of the agent inside."""
    kernel_layer: str
    """Digest of the layer with the kernel."""
    root_layer: str
    """Digest of the layer with the root file system."""
    features: tuple[str, ...]
    """What the guest's kernel can make, named as in a host's facts."""
    sizes_bytes: Mapping[str, int] = field(default_factory=dict)
    """File to its size [bytes]."""
    packages_sha256: str
    """Of packages.txt."""
    built: str
    """Date and time, ISO 8601."""
    build_s: float
    """How long the build took [s]."""
    added: tuple[str, ...] = ()
    """Debian packages beyond the recipe: of programs that other packages' measures and instruments run."""


@dataclass(frozen=True, slots=True)
class Image:
    """A built image in the cache."""

    folder: Path
    """Where it lies."""
    manifest: Manifest
    """What it says of itself."""

    @property
    def vmlinux(self) -> Path:
        """The kernel, an ELF file to be started by PVH."""
        return self.folder / "vmlinux"

    @property
    def initrd(self) -> Path:
        """The first stage: the agent and the modules it needs to find its disks and its channel."""
        return self.folder / "initrd"

    @property
    def root(self) -> Path:
        """The root file system, to be the guest's first disk."""
        return self.folder / "root.squashfs"

    @property
    def modules(self) -> Path:
        """Kernel modules, and below boot/ kernel and first stage again; to be the guest's second disk."""
        return self.folder / "modules.squashfs"

    @property
    def xen(self) -> Path | None:
        """The hypervisor, of a flavour that has one."""
        path = self.folder / "xen"
        return path if path.exists() else None

    @property
    def packages(self) -> tuple[str, ...]:
        """Every package inside, as name=version, sorted."""
        return tuple((self.folder / "packages.txt").read_text(encoding="utf-8").split())

    @property
    def size_bytes(self) -> int:
        """All files together [bytes]."""
        return sum(self.manifest.sizes_bytes.values())

    @property
    def used_s(self) -> float:
        """When it was built, or a guest was last started from it [s since 1970]: its folder's time."""
        return self.folder.stat().st_mtime

    def mark_used(self) -> None:
        """Note that it is used now; what belongs to somebody else is not ours to keep."""
        with contextlib.suppress(OSError):
            os.utime(self.folder)


class Cache:
    """The folders of images, of the layers they share, and of newer hypervisors."""

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
        """Return the images that nobody has used for `UNUSED_S`."""
        return tuple(image for image in self.list_images() if now_s - image.used_s > UNUSED_S)

    def find(self, digest: str) -> Image | None:
        """Return the image of this digest, if it was built."""
        return read_image(self.images / digest)

    def choose(self, names: tuple[str, ...]) -> tuple[Image, ...]:
        """Return the images of these flavours or digests (a digest's beginning will do).

        Raises:
            InputError: a name fits no image.
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
                allowed = (
                    ", ".join(f"{one.manifest.flavour} ({one.manifest.digest})" for one in images) or "none"
                )
                problems.append(Problem("image", "looking for a built guest image", repr(name), allowed))
            chosen |= {image.folder: image for image in fitting}
        if problems:
            raise InputError(problems)
        return tuple(chosen.values())

    def remove(self, images: tuple[Image, ...], emulators: bool = False) -> int:
        """Delete images, and layers that none of the others is made of; return what was freed [bytes]."""
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
    def locked(self, waits: Callable[[str], None]) -> Iterator[None]:
        """Keep other builds out, waiting for one that is at work; then delete what killed ones left."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waits("another build is at work; waiting for its end")
                fcntl.flock(lock, fcntl.LOCK_EX)
            for place in (self.images, self.layers, self.emulators):
                for path in place.glob(f"{UNFINISHED}*"):
                    discard(path)
            yield

    @contextlib.contextmanager
    def new_folder(self, target: Path) -> Iterator[Path]:
        """Give a folder to fill; it becomes `target` when the block ends well, and is deleted otherwise."""
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
    """Return this user's cache."""
    return Cache(cache_folder())


def read_image(folder: Path) -> Image | None:
    """Return the image in a folder; None where there is none, or one of another version of iolab."""
    try:
        manifest = _ADAPTER.validate_json((folder / MANIFEST).read_bytes())
    except (OSError, ValidationError):
        return None
    return Image(folder, manifest) if manifest.schema == SCHEMA else None


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write image.json."""
    (folder / MANIFEST).write_bytes(_ADAPTER.dump_json(manifest, indent=1) + b"\n")


def discard(folder: Path) -> None:
    """Delete a folder; at once it no longer has a name that means anything.

    Raises:
        UnsupportedError: it cannot be deleted.
    """
    if not folder.exists():
        return
    try:
        nameless = folder.with_name(f"{UNFINISHED}old-{folder.name.removeprefix(UNFINISHED)}")
        folder.rename(nameless)
        shutil.rmtree(nameless)
    except OSError as error:
        raise UnsupportedError(f"deleting {folder}: {error.strerror}") from error


def used_bytes(folder: Path) -> int:
    """Return what a folder takes [bytes]; a file that an image shares with its layer counts once."""
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
