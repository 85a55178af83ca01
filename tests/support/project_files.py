"""The files of the project: what git knows or would add, or a walk where there is no git."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOT_OURS = {".git", ".venv", ".cache", "out", "__pycache__"}

# Exit status that Meson shows as SKIP.
SKIPPED = 77


def project_files(*suffixes):
    """Sorted relative paths of existing files, all of them or those with one of `suffixes`."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listing = list(walk())
    return sorted(
        path for path in set(listing)
        if path and (not suffixes or path.endswith(suffixes)) and (ROOT / path).is_file())


def walk():
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [
            name for name in folders
            if name not in NOT_OURS
            and not os.path.exists(os.path.join(folder, name, "build.ninja"))]
        for name in files:
            yield os.path.relpath(os.path.join(folder, name), ROOT).replace(os.sep, "/")
