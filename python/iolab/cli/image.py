"""The commands image build, list and remove, for the boot files of guests."""

import json
import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from iolab.agent.transport import find_agent
from iolab.cli.console import complain, in_words, say
from iolab.cli.screen import console
from iolab.clock import SystemClock
from iolab.errors import ExitCode, InputError, Problem
from iolab.image import Cache, Image, build, build_qemu, default_cache, find_cached_qemu, read_recipe
from iolab.image.cache import UNUSED_S
from iolab.locale import Phrase, Text
from iolab.registry.images import flavour_of_image
from iolab.units import format_bytes

HEADS = (
    Phrase("cli.head-flavour"),
    Phrase("cli.head-digest"),
    Phrase("cli.head-kernel"),
    Phrase("cli.head-size"),
    Phrase("cli.head-built"),
)
QEMU = "qemu"
"""Name that requests a newer QEMU instead of an image flavour."""

group = typer.Typer()


def register(app: typer.Typer) -> None:
    """Add these commands."""
    group.command("build")(build_images)
    group.command("list")(list_images)
    group.command("remove")(remove_images)
    app.add_typer(group, name="image")


def build_images(
    flavours: Annotated[
        list[str] | None, typer.Argument(metavar="[FLAVOUR[:PACKAGE,...]]...", show_default=False)
    ] = None,
    renew: Annotated[bool, typer.Option("--renew")] = False,
) -> int:
    """Build guest images that are not in the cache (default: linux), and remove images unused for 30 days."""
    known = [*(flavour.name for flavour in read_recipe().flavours), QEMU]
    wanted = flavours or known[:1]
    if wrong := [name for name in wanted if flavour_of_image(name) not in known]:
        # Report invalid names before minutes are spent on building the valid ones.
        doing, allowed = (
            Phrase("cli.choosing-what-to-build"),
            Phrase("cli.flavours-with-packages", flavours=known),
        )
        raise InputError([Problem("image build", doing, repr(name), allowed) for name in wrong])
    for name in wanted:
        if name == QEMU:
            emulator = build_qemu(complain, renew=renew)
            say(f"{QEMU} {'.'.join(map(str, emulator.version))}: {emulator.program}")
        else:
            image = build(name, find_agent(), complain, renew=renew)
            image.mark_used()
            say(Phrase("cli.image-in-folder", image=_describe(image), folder=image.folder))
    _prune(default_cache(), SystemClock().wall().timestamp())
    return ExitCode.DONE


def _prune(cache: Cache, now_s: float) -> None:
    """Remove images that were unused for a month, and print their names."""
    if not cache.list_unused(now_s):
        return
    with cache.locked(complain):
        unused = cache.list_unused(now_s)
        freed = cache.remove(unused)
    for image in unused:
        complain(Phrase("cli.removed-not-used", image=_describe(image), days=UNUSED_S // 86400))
    complain(Phrase("cli.space-was-freed", bytes=format_bytes(freed)))


def list_images(as_json: Annotated[bool, typer.Option("--json")] = False) -> int:
    """List the images in the cache, newest first."""
    cache = default_cache()
    images = cache.list_images()
    emulators = find_cached_qemu(cache)
    if as_json:
        document = {
            "schema": 1,
            "images": [{"folder": str(image.folder), **asdict(image.manifest)} for image in images],
            "qemu": [{"program": str(one.program), "version": list(one.version)} for one in emulators],
        }
        json.dump(document, sys.stdout, indent=1)
        say("")
        return ExitCode.DONE
    if not images and not emulators:
        say(Phrase("cli.no-images-in-cache", folder=cache.folder))
        return ExitCode.DONE
    table = Table(*map(in_words, HEADS), box=None)
    for image in images:
        manifest = image.manifest
        size = format_bytes(image.size_bytes)
        table.add_row(manifest.flavour, manifest.digest, manifest.kernel_release, size, manifest.built)
    for emulator in emulators:
        table.add_row(QEMU, ".".join(map(str, emulator.version)), "", "", "")
    console().print(table)
    return ExitCode.DONE


def remove_images(
    names: Annotated[list[str] | None, typer.Argument(metavar="[IMAGE]...", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
) -> int:
    """Remove images from the cache, with the layers that no other image needs."""
    if bool(names) == everything:
        seen = Phrase("cli.both-of-them") if names else Phrase("cli.neither-of-them")
        allowed = Phrase("cli.images-or-all")
        raise InputError([Problem("image remove", Phrase("cli.choosing-what-to-remove"), seen, allowed)])
    cache = default_cache()
    with cache.locked(complain):
        chosen = cache.list_images() if everything else cache.choose(tuple(set(names or ()) - {QEMU}))
        freed = cache.remove(chosen, emulators=everything or QEMU in (names or ()))
    for image in chosen:
        say(Phrase("cli.image-removed", image=_describe(image)))
    say(Phrase("cli.space-was-freed", bytes=format_bytes(freed)))
    return ExitCode.DONE


def _describe(image: Image) -> Text:
    manifest = image.manifest
    return Phrase(
        "cli.image-description",
        flavour=manifest.flavour,
        digest=manifest.digest,
        kernel=manifest.kernel_release,
        size=format_bytes(image.size_bytes),
    )
