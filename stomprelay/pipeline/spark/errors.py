"""Spark's errors as one sentence for the user."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

INSTALL: Final = "pip install '.[pipeline]' in a copy of the repository"
"""How to get the packages that the pipeline needs."""
_THROWN: Final = re.compile(r'^(?:Exception in thread "[^"]*" |Error: |Caused by: )(.+)$', re.MULTILINE)
_SYSTEM: Final = re.compile(r"^OSError: \[Errno \d+\] (?:.* Detail: \[errno \d+\] )?")
"""The text before the system's message for an error: in a Python task and, with `Detail`, where Arrow writes."""
_CLASS: Final = re.compile(r"^(?:[a-z]\w*\.)+\w+(?:: |$)")


class MissingSpark(Exception):
    """PySpark, a package that it needs, or the cluster is missing. The text is for the user."""


class FailedSpark(Exception):
    """Spark could not do what was requested. The text is for the user, the cause is Spark's exception."""


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn Spark's exceptions into `ValueError` with one sentence for the user, while the context is entered."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise ValueError(reason(error)) from None


def reason(error: Exception) -> str:
    """Return the text of a Spark error, in Python's form or Java's form, in one line."""
    return sentence(said(error)[-1])


def said(error: Exception) -> list[str]:
    """Return the texts of a Spark error and of all its causes, the root cause last."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if not isinstance(error, Py4JError | ConnectionError):
        return [text_of(error)]
    texts = []
    if isinstance(error, Py4JJavaError):
        with suppress(Exception):  # Java may have ended
            cause = error.java_exception
            while cause is not None:
                texts.append(str(cause.getMessage() or cause.toString()))
                cause = cause.getCause()
    return texts or ["Spark's Java ended before its time"]


def thrown(log: str) -> str | None:
    """Return in one line the reason that Java gave on standard error before it ended; None if there is no reason."""
    found = _THROWN.findall(log)
    return _CLASS.sub("", found[0]).strip() or found[0] if found else None


def sentence(said: str) -> str:
    """Return the text of a Spark error in one line, without class, plan and place."""
    first = said.strip().split("\n\n", 1)[0].split("\nJVM stacktrace", 1)[0]
    lines = [line.strip() for line in first.splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:  # from a Python task: the last line is the exception
        return _SYSTEM.sub("", lines[-1])
    kept = []
    for line in lines:
        if line.startswith(("== SQL", "'", "+-", ":-", "at ")):
            break
        kept.append(line)
    text = " ".join(kept)
    if text.startswith("["):
        text = text.partition("] ")[2]
    return text.partition(" SQLSTATE:")[0].rstrip("; ") or "the query failed"


def text_of(error: Exception) -> str:
    """Return the text of an error, even if Java has ended and cannot be asked any more."""
    try:
        return str(error)
    except Exception:
        return str(getattr(error, "_desc", None) or type(error).__name__)
