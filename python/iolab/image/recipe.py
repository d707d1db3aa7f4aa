"""Read the recipe of guest images: the packages of each flavour, and the digests of built images.

The module reads guest/recipe.toml and the programs of iolab's measures and instruments; it builds nothing.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from iolab.errors import InputError, Problem
from iolab.locale import Phrase
from iolab.registry.images import FEATURE_MODULES, PACKAGE, flavour_of_image, image_name, packages_of_image
from iolab.registry.registry import guest_programs, own_guest_programs

RECIPE = Path(__file__).with_name("recipe.toml")
MEASURING = "measure"
"""Package group that also includes the programs of measures and instruments."""
DIGEST_LETTERS = 16
"""Number of hexadecimal digits in a folder name: 64 bits, enough to avoid collisions."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """One kind of guest image."""

    name: str
    """Flavour name, as in experiments."""
    packages: tuple[str, ...]
    """Debian packages of the root, sorted."""
    xen: str | None
    """Package that depends on the Xen hypervisor and its tools; None: no Xen."""
    kernel: str | None = None
    """Package that depends on the kernel; None: the recipe's package."""
    backports: bool = False
    """Whether the kernel is from Debian backports."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Recipe of all images."""

    format: int
    """Version of the build procedure."""
    kernel_package: str
    """Package that depends on the kernel package."""
    early_modules: tuple[str, ...]
    """Kernel modules in the initrd."""
    flavours: tuple[Flavour, ...]
    """All flavours, including the programs of iolab's own measures and instruments."""

    def flavour(self, name: str) -> Flavour:
        """Return a flavour by name, with the additional packages in the name.

        Raises:
            InputError: the flavour does not exist, or a package name is invalid.
        """
        more = packages_of_image(name)
        wrong = [package for package in more if not PACKAGE.fullmatch(package)]
        for flavour in self.flavours:
            if flavour.name == flavour_of_image(name) and not wrong:
                packages = tuple(sorted({*flavour.packages, *more}))
                return replace(flavour, name=image_name(flavour.name, more), packages=packages)
        if wrong:
            doing, names = Phrase("image.finding-packages"), Phrase("image.package-names")
            raise InputError([Problem("image", doing, ", ".join(map(repr, wrong)), names)])
        allowed = ", ".join(flavour.name for flavour in self.flavours)
        raise InputError([Problem("image", Phrase("image.finding-flavour"), repr(name), allowed)])


@dataclass(frozen=True, slots=True)
class Digests:
    """Digests of an image and its layers."""

    kernel: str
    """Digest of the layer with kernel and modules."""
    root: str
    """Digest of the root file system layer."""
    image: str
    """Digest of the image: both layers and the agent."""


def read_recipe(path: Path = RECIPE) -> Recipe:
    """Return the recipe that is part of this program."""
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    groups = TypeAdapter(dict[str, tuple[str, ...]]).validate_python(document["packages"])
    groups[MEASURING] = (*groups[MEASURING], *own_guest_programs().values())
    return Recipe(
        format=document["format"],
        kernel_package=document["kernel"]["package"],
        early_modules=tuple(document["kernel"]["early"]),
        flavours=tuple(
            _read_flavour(name, written, groups) for name, written in document["flavours"].items()
        ),
    )


def _read_flavour(name: str, written: dict[str, Any], groups: dict[str, tuple[str, ...]]) -> Flavour:
    packages = {package for group in written["packages"] for package in groups[group]}
    kernel, backports = written.get("kernel"), written.get("backports", False)
    return Flavour(name, tuple(sorted(packages)), written.get("xen"), kernel, backports)


def added_packages(flavour: Flavour) -> tuple[str, ...]:
    """Return the packages that plug-in measures and instruments need beyond the recipe, sorted."""
    return tuple(sorted(set(guest_programs().values()) - set(flavour.packages)))


def with_packages(flavour: Flavour, added: Iterable[str]) -> Flavour:
    """Return a flavour with additional packages."""
    return replace(flavour, packages=tuple(sorted({*flavour.packages, *added})))


def name_layers(recipe: Recipe, flavour: Flavour, suite: str, agent_sha256: str) -> Digests:
    """Return the digests of an image and its layers, which change with their contents."""
    of = (flavour.kernel or recipe.kernel_package, *(("backports",) if flavour.backports else ()))
    kernel = _digest("kernel", recipe.format, suite, *of, *recipe.early_modules, *FEATURE_MODULES)
    root = _digest("root", recipe.format, suite, flavour.xen, *flavour.packages)
    return Digests(kernel, root, _digest("image", flavour.name, kernel, root, agent_sha256))


def hash_bytes(content: bytes) -> str:
    """Return the SHA-256 of bytes [hexadecimal]."""
    return hashlib.sha256(content).hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content [hexadecimal]."""
    state = path.stat()
    return _hash_state(path, state.st_ino, state.st_size, state.st_mtime_ns)


@lru_cache
def _hash_state(path: Path, *_state: int) -> str:
    """Hash a file once per state, because every flavour needs the agent's digest."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(*parts: str | int | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_LETTERS]
