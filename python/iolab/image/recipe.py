"""The recipe of guest images: which packages make which flavour, and the digests by which a built one is known.

Reads guest/recipe.toml, and which programs iolab's measures and instruments run; builds nothing.
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
from iolab.registry.images import FEATURE_MODULES, PACKAGE, flavour_of_image, image_name, packages_of_image
from iolab.registry.registry import guest_programs, own_guest_programs

RECIPE = Path(__file__).with_name("recipe.toml")
MEASURING = "measure"
"""The group of packages that has the programs of measures and instruments too."""
DIGEST_LETTERS = 16
"""Of a folder's name: 64 bits, far more than one cache holds images."""


@dataclass(frozen=True, slots=True)
class Flavour:
    """One kind of guest."""

    name: str
    """As an experiment names it."""
    packages: tuple[str, ...]
    """Debian packages of its root, sorted."""
    xen: str | None
    """Package that depends on the Xen hypervisor and its tools; None: no Xen."""
    kernel: str | None = None
    """Package that depends on its kernel; None: that of the recipe."""
    backports: bool = False
    """Whether the kernel is the one that Debian has ported back from its next release."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What images are made of."""

    format: int
    """Version of the way of building."""
    kernel_package: str
    """Package that depends on the kernel itself."""
    early_modules: tuple[str, ...]
    """Kernel modules of the first stage."""
    flavours: tuple[Flavour, ...]
    """Every flavour, with the programs of iolab's own measures and instruments."""

    def flavour(self, name: str) -> Flavour:
        """Return a flavour by name, with the packages that the name has besides.

        Raises:
            InputError: there is none of that name, or a package cannot be called so.
        """
        more = packages_of_image(name)
        wrong = [package for package in more if not PACKAGE.fullmatch(package)]
        for flavour in self.flavours:
            if flavour.name == flavour_of_image(name) and not wrong:
                packages = tuple(sorted({*flavour.packages, *more}))
                return replace(flavour, name=image_name(flavour.name, more), packages=packages)
        if wrong:
            names = "small letters, digits, +, - and ., and commas between packages"
            raise InputError(
                [Problem("image", "looking for Debian packages", ", ".join(map(repr, wrong)), names)]
            )
        allowed = ", ".join(flavour.name for flavour in self.flavours)
        raise InputError([Problem("image", "looking for the flavour of a guest image", repr(name), allowed)])


@dataclass(frozen=True, slots=True)
class Digests:
    """Names of what one image is built from."""

    kernel: str
    """Of the layer with kernel and modules."""
    root: str
    """Of the layer with the root file system."""
    image: str
    """Of the image: both layers and the agent."""


def read_recipe(path: Path = RECIPE) -> Recipe:
    """Return the recipe that came with this program."""
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
    """Return what other packages' measures and instruments need in a flavour beyond the recipe, sorted."""
    return tuple(sorted(set(guest_programs().values()) - set(flavour.packages)))


def with_packages(flavour: Flavour, added: Iterable[str]) -> Flavour:
    """Return a flavour that has more packages."""
    return replace(flavour, packages=tuple(sorted({*flavour.packages, *added})))


def name_layers(recipe: Recipe, flavour: Flavour, suite: str, agent_sha256: str) -> Digests:
    """Return the digests of an image and its layers; they change when what they are made of does."""
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
    """Hash a file once per state of it: the agent's is asked for by every flavour."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _digest(*parts: str | int | None) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:DIGEST_LETTERS]
