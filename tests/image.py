"""The Dockerfile as data: what it copies, what it runs, and how the image is started and asked for its health."""

import json
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
KEYWORDS = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
"""Those that it has a use for."""


class Instruction(NamedTuple):
    """One instruction. `text` is what stands behind its keyword, its lines as one."""

    keyword: str
    text: str

    @property
    def options(self) -> dict[str, str]:
        """Those in front: `--from=build`."""
        pairs = (word[2:].partition("=") for word in self.text.split() if word.startswith("--"))
        return {name: value for name, _, value in pairs}

    @property
    def words(self) -> list[str]:
        """All words but the options."""
        return [word for word in self.text.split() if not word.startswith("--")]


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, FROM first."""
    found: list[list[Instruction]] = []
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    whole = "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", "")
    for line in whole.splitlines():
        if line:
            keyword, _, text = line.partition(" ")
            if keyword == "FROM":
                found.append([])
            found[-1].append(Instruction(keyword, text))
    return found


def said(keyword: str) -> str:
    """What the last stage says by an instruction that it has once."""
    [found] = [each.text for each in stages()[-1] if each.keyword == keyword]
    return found


def entry_point() -> list[str]:
    """The command that runs as process 1, without a shell."""
    words: list[str] = json.loads(said("ENTRYPOINT"))
    return words


def health_check() -> list[str]:
    """The command whose exit status is the container's health, without a shell."""
    words: list[str] = json.loads(said("HEALTHCHECK").partition(" CMD ")[2])
    return words


def copied() -> list[str]:
    """What comes from the repository."""
    copies = [each for stage in stages() for each in stage if each.keyword == "COPY"]
    return [source for each in copies if "from" not in each.options for source in each.words[:-1]]


def configuration() -> Path:
    """The file that the image has where its entry point reads one."""
    [place] = [word for word in entry_point() if word.endswith(".toml")]
    [source] = [
        each.words[0]
        for each in stages()[-1]
        if each.keyword == "COPY" and each.words[-1] == place and "from" not in each.options
    ]
    return ROOT / source
