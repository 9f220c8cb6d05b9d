"""Spark's errors as one sentence for the user."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def as_value_error() -> Iterator[None]:
    """Turn Spark's exceptions into `ValueError` with one sentence for the user, while the context is entered."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise ValueError(sentence(str(error))) from None
    except Py4JJavaError as error:
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        raise ValueError(sentence(cause.getMessage() or cause.toString())) from None


def sentence(said: str) -> str:
    """Return the text of one of Spark's errors in one line: without its class, the query's plan and the place
    in Spark.
    """
    first = said.strip().split("\n\n", 1)[0].split("\nJVM stacktrace", 1)[0]
    lines = [line.strip() for line in first.splitlines() if line.strip()]
    if "Traceback (most recent call last):" in lines:  # of a task in Python, which ends with what was raised
        return lines[-1]
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
    """Return the text of an error, also when Java has ended meanwhile and cannot be asked any more."""
    try:
        return str(error)
    except Exception:
        return str(getattr(error, "_desc", None) or type(error).__name__)
