"""Small text files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_whole_text(path: Path, text: str, advice: str = "correct that and try again") -> None:
    """Write a text to a file in one step; if that fails, an old file is unchanged."""
    temporary = path.with_name(f".fastspml-{secrets.token_hex(8)}.partial")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"{path} could not be written: {error.strerror}; {advice}.") from error
    finally:
        temporary.unlink(missing_ok=True)
