"""``rocketha pyfiles``: a zip for ``spark-submit --py-files``, for clusters where rocketha is not installed.

What it must not know: what the data source does.  Theory of operation: of rocketha itself the zip has the modules that
``rocketha_spark`` imports, found by following the imports in the sources, so that no list can be out of date; of other
packages all modules.  What is partly written in C (numpy, pyarrow, orjson) cannot be imported from a zip and is the
cluster's.
"""

from __future__ import annotations

import ast
import io
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata, util
from pathlib import Path

import click

from rocketha.admin.commands import Given
from rocketha.admin.commands import command as declared
from rocketha.errors import ConfigError
from rocketha.store import atomic_file
from rocketha.store.posix_disk import PosixDisk

PACKAGES = ("attr", "attrs", "construct", "pyspark_rocketha", "rocketha_spark")
"""Whole in the zip."""
PARTLY = "rocketha"
"""Of which the zip has what the others import."""
DISTRIBUTIONS = ("attrs", "construct", "rocketha")
"""Whose licences the zip has."""
DATA = "templates"
"""The folder of a package of which every file is needed, not only the modules."""
TIME = (1980, 1, 1, 0, 0, 0)
"""Of every file: equal sources make equal zips."""
_LICENCE = re.compile(r"(licen[cs]e|copying|notice)([-.].*)?", re.IGNORECASE)


@declared("pyfiles")
@click.argument("archive", metavar="ARCHIVE.zip")
def command(args: Given) -> int:
    """Write a zip for spark-submit --py-files, for clusters without rocketha.

    An ARCHIVE.zip that is there is replaced.
    """
    target = os.path.abspath(args.archive)
    if not target.endswith(".zip"):
        raise ConfigError(f"{target}: Spark looks for modules only in what is named .zip")
    if not os.path.isdir(os.path.dirname(target)):
        raise ConfigError(f"no directory {os.path.dirname(target)}")
    if os.path.isdir(target):
        raise ConfigError(f"{target} is a directory")
    files = gathered()
    data = zipped(files)
    atomic_file.save(PosixDisk(), target, data, backup=False)
    os.chmod(target, 0o644)  # no secret: another user may submit the job
    print(f"{target}: {len(files)} files, {len(data)} bytes")
    return 0


def gathered() -> dict[str, bytes]:
    """Name in the zip -> contents, of all its files.

    :raises ConfigError: a package is not here as files, or without its licence.
    """
    files: dict[str, bytes] = {}
    for package in PACKAGES:
        root = folder(package)
        for path in root.rglob("*"):
            inside = path.relative_to(root)
            if path.is_file() and (path.suffix == ".py" or inside.parts[0] == DATA):
                files[f"{package}/{inside.as_posix()}"] = path.read_bytes()
    files |= imported(folder(PARTLY), files)
    for name in DISTRIBUTIONS:
        files |= licences(name)
    return files


def folder(package: str) -> Path:
    """Where a package's modules are.

    :raises ConfigError: it is not installed, or in no folder.
    """
    spec = util.find_spec(package)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise ConfigError(f"no package {package} here: pip install rocketha")
    if not os.path.isdir(places[0]):
        raise ConfigError(f"{places[0]} is no directory: a zip can be made where rocketha is installed, not from a zip")
    return Path(places[0])


def imported(root: Path, importers: Mapping[str, bytes]) -> dict[str, bytes]:
    """Of the package in a folder, what some files import, wherever in them, and what that imports in turn.

    :param importers: the files; those that are no modules import nothing.
    """
    found: dict[str, bytes] = {}
    pending = [name for path, data in importers.items() if path.endswith(".py") for name in _imports(data, root.name)]
    seen = set()
    while pending:
        name = pending.pop()
        if not name or name in seen:
            continue
        seen.add(name)
        pending.append(name.rpartition(".")[0])  # the package around a module is imported before it
        place = root.joinpath(*name.split(".")[1:])
        for path in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if path.is_file() and root in path.parents:
                data = path.read_bytes()
                found[f"{root.name}/{path.relative_to(root).as_posix()}"] = data
                pending += _imports(data, root.name)
    return found


def _imports(source: bytes, package: str) -> Iterator[str]:
    """What may be modules of a package among what a source imports: of ``from a import b`` ``a.b``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:  # relative ones: within packages that are whole
            names = [f"{node.module}.{each.name}" for each in node.names]
        else:
            continue
        yield from (name for name in names if name.split(".")[0] == package)


def licences(name: str) -> dict[str, bytes]:
    """Those that were installed with a distribution.

    :raises ConfigError: there is none, so that it may not be given to others.
    """
    for found in metadata.distributions(name=name):  # an editable install may have two, one of them without files
        paths = {Path(str(each.locate())): each.name for each in found.files or () if _LICENCE.fullmatch(each.name)}
        files = {f"LICENCES/{name}/{as_}": path.read_bytes() for path, as_ in paths.items() if path.is_file()}
        if files:
            return files
    raise ConfigError(f"the licence of {name} was not installed with it, and must be in the zip: pip install {name}")


def zipped(files: Mapping[str, bytes]) -> bytes:
    """A zip of some files, the same one whenever they are the same."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, TIME)
            entry.external_attr = 0o100644 << 16
            entry.create_system = 3  # Unix, whatever this is
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return out.getvalue()
