"""Files and folders that are there whole or not at all, whenever the process is killed."""

import errno
import os
import re
import shutil
from pathlib import Path

UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def files_below(folder: Path) -> list[Path]:
    """Everything below the folder that is no folder: links and pipes are found too."""
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def discard(path: Path) -> None:
    """Remove a folder, file or link, if there. A folder goes at once: renamed, then emptied."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    if path.suffix != ".gone":
        gone = path.with_suffix(f"{path.suffix}.gone")
        discard(gone)
        path = path.rename(gone)
    shutil.rmtree(path)


def sync(*paths: Path) -> None:
    """Make sure that files and folders are on the disk."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_whole(path: Path, text: str) -> None:
    """Write a UTF-8 file so that a kill leaves the old content or the new, never a part."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(text, encoding="utf-8")
        os.replace(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def disk_failed(error: Exception) -> bool:
    """Whether the disk is full, over quota, failing or read-only (safetensors only says so)."""
    number = getattr(error, "errno", None)
    said = re.search(r"\(os error (\d+)\)", str(error))
    return (int(said[1]) if number is None and said else number) in UNWRITABLE
