"""`passwd`: sets, changes or deletes a user's line in a users file. All other lines stay as they are."""

import argparse
import getpass
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from stomprelay.auth.lines import LONGEST, is_user
from stomprelay.cli.asking import Commands, command
from stomprelay.config import ConfigError
from stomprelay.config.auth import INSTALL
from stomprelay.config.table import read_file
from stomprelay.journal.disk import replace

_PASSWD: Final = """
Sets the passcode of a user in a users file (`users` in [auth.NAME]), or adds the user. The command asks for the
passcode twice, or reads it from standard input; the file gets its Argon2 hash. The user's groups stay unless --groups
gives others; comments and the order of lines stay, too. A file that does not exist is created, for its owner only. A
running relay uses it after stomprelay reload. Exit status: 1 if nothing was changed, with the reason on standard error.
"""
_EXAMPLE: Final = """
examples:
  stomprelay passwd /etc/stomprelay/users alice --groups staff,admins
  openssl rand -hex 32 | tee app.passcode | stomprelay passwd --stdin users app
"""
_OTHERS: Final = 0o007
"""The bits of a file's mode for users who neither own the file nor are in its group."""


def add(commands: Commands) -> None:
    """Add the command to the parser."""
    passwd = command(commands, "passwd", "set the passcode of a user in a users file", _PASSWD, _EXAMPLE)
    passwd.add_argument("file", metavar="FILE", help="the users file")
    passwd.add_argument("user", metavar="USER", help="the user's name, which clients send as login")
    passwd.add_argument("--groups", metavar="GROUPS", help="the user's groups, with commas between them")
    how = passwd.add_mutually_exclusive_group()
    how.add_argument("--stdin", action="store_true", help="read the passcode from standard input, one line")
    how.add_argument("--delete", action="store_true", help="delete the user's line")
    passwd.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        from stomprelay.auth.users import Users, make_hash, read_groups
    except ImportError as error:
        raise ConfigError(f"passwd needs {error.name}: {INSTALL}") from None
    path, name = os.path.realpath(options.file), options.user
    if not is_user(name):
        raise ConfigError(
            "USER must be a name in one line, without a colon, and without # or a blank in front"
        )
    try:
        groups = None if options.groups is None else read_groups(options.groups)
    except ValueError as error:
        raise ConfigError(f"--groups {error}") from None
    content = _content(path)
    try:
        users = Users.read(content)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}") from None
    if options.delete:
        if name not in users:
            raise ConfigError(f"{options.file}: there is no such user")
        line = None
    else:
        passcode = _passcode(options)
        kept = users.groups(name) if groups is None else groups
        line = f"{name}:{make_hash(passcode)}:{','.join(sorted(kept))}".encode()
    _write(path, _changed(content, name.encode(), line))
    print(f"{options.file}: {name} is {'deleted' if line is None else 'set'}")
    return 0


def _content(path: str) -> bytes:
    if not os.path.lexists(path):
        return b""
    try:
        return read_file(path, lambda content, _mode: content, LONGEST)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _passcode(options: argparse.Namespace) -> bytes:
    if options.stdin:
        typed = sys.stdin.buffer.readline().removesuffix(b"\n").removesuffix(b"\r")
    else:
        try:
            words = getpass.getpass("passcode: ")
            again = getpass.getpass("once more: ")
        except EOFError:
            raise ConfigError("no passcode was typed") from None
        if words != again:
            raise ConfigError("they differ; nothing is changed")
        typed = words.encode("utf-8", "surrogateescape")
    try:
        fit = typed.decode().isprintable()
    except UnicodeDecodeError:
        fit = False
    if not typed or not fit:
        raise ConfigError("a passcode is UTF-8, not empty, and has no control characters")
    return typed


def _changed(content: bytes, name: bytes, line: bytes | None) -> bytes:
    """Return the content with `line` in place of the user's line, or at the end. None removes the user's line."""
    lines = content.split(b"\n")
    if not lines[-1]:
        lines.pop()
    found = next((at for at, each in enumerate(lines) if each.startswith(name + b":")), len(lines))
    lines[found : found + 1] = [] if line is None else [line]
    return b"".join(each + b"\n" for each in lines)


def _write(path: str, content: bytes) -> None:
    """Replace a file in one step by a file with this content. The owner, and the permissions of the group, stay."""
    try:
        found = os.stat(path) if os.path.lexists(path) else None

        def keep(number: int) -> None:
            if found is not None:
                with suppress(PermissionError):
                    os.fchown(number, found.st_uid, found.st_gid)
                os.fchmod(number, stat.S_IMODE(found.st_mode) & ~_OTHERS)

        replace(Path(path), content, 0o600, keep)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror}") from None
