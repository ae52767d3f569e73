"""A build system for pip that builds nothing: it hands over the PKG-INFO that every source package carries.

Why: see pip_metadata_stub in lib.sh, which puts this file where pip looks for the package's real build system.
"""

import pathlib
import re


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    """PEP 517's hook: writes NAME-VERSION.dist-info/METADATA and returns the folder's name."""
    info = pathlib.Path("PKG-INFO").read_text(encoding="utf-8")
    name, version = (re.search(rf"^{key}: *(\S+)", info, re.MULTILINE)[1] for key in ("Name", "Version"))
    folder = pathlib.Path(metadata_directory) / f"{re.sub('[-_.]+', '_', name)}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(info, encoding="utf-8")
    return folder.name
