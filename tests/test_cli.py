"""The command `stomprelay`, as a user types it."""

import io
import subprocess
import sys
from pathlib import Path

import pytest

import stomprelay
from stomprelay.cli import main
from tests.e2e.certificates import Authority

ROOT = Path(__file__).resolve().parent.parent
FRAME = b"SUBSCRIBE\ndestination:/queue/a\n\n\0"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """An authority with its files in the test's folder."""
    return Authority(tmp_path, "authority")


def write(tmp_path: Path, text: str) -> str:
    """A configuration file with this text."""
    file = tmp_path / "relay.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on standard error of a command that fails; nothing is printed."""
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stomprelay: ")
    assert err.count("\n") == 1
    return err.removeprefix("stomprelay: ").rstrip("\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` says the package's."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"stomprelay {stomprelay.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["check", "--help"], ["explain", "--help"]])
def test_help(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Each command explains itself."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "usage: stomprelay" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["chekc"], ["check"], ["explain", "--client", "2.0"], ["explain", "--loss", "x"]]
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Wrong options are told on standard error, with exit status 2."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: stomprelay" in capsys.readouterr().err


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.toml")), ids=lambda file: file.stem)
def test_check_says_what_would_run(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    """The files that we hand out are right as they are."""
    assert main(["check", "-c", str(file)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("listener ")
    assert "upstream " in out
    assert err == ""


def test_check_with_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The options of `twistd stomprelay` change what would run."""
    options = ["-l", "tcp:5", "-l", "tcp:6", "-u", "tcp://b", "--admin", "tcp:7"]
    assert main(["check", "-c", write(tmp_path, ""), *options]) == 0
    out = capsys.readouterr().out
    for fact in ("tcp:5", "tcp:6", "tcp://b", "tcp:7"):
        assert f" {fact}\n" in out


def test_check_names_file_and_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line on standard error, and exit status 1."""
    file = write(tmp_path, '[listener.public.limits]\nbody = "x"\n')
    assert refused(capsys, "check", "--config", file) == (
        f'{file}: listener.public.limits.body: must be a positive whole number, not "x"'
    )
    absent = str(tmp_path / "absent")
    assert refused(capsys, "check", "-c", absent) == f"{absent}: cannot be read: No such file or directory"
    assert refused(capsys, "check", "-c", write(tmp_path, ""), "-u", "x").startswith(
        "command line: --upstream: "
    )


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[listener.a]\nendpoint = "tpc:61613:x=y"\n', "listener.a.endpoint"),
        ('[listener.a]\nendpoint = "ssl:61613:privateKey=/absent"\n', "listener.a.endpoint"),
        ('admin = "tpc:61613:x=y"\n', "admin"),
        ('[upstream.a]\nuri = "tpc:broker:61613"\n', "upstream.a.uri"),
        ('[upstream.a]\nuri = "tls:broker:61613:certificate=/absent"\n', "upstream.a.uri"),
    ],
)
def test_check_makes_the_endpoints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, key: str
) -> None:
    """What Twisted does not take is found before anything runs, and told by its key."""
    file = write(tmp_path, text)
    assert refused(capsys, "check", "-c", file).startswith(f"{file}: {key}: ")


def test_check_leaves_systemds_sockets_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are not there when a unit runs `check` before it starts the relay."""
    file = write(tmp_path, '[listener.a]\nendpoint = "systemd:domain=INET:index=0"\n')
    assert main(["check", "-c", file]) == 0
    assert "systemd:domain=INET:index=0" in capsys.readouterr().out


def test_check_loads_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], authority: Authority
) -> None:
    """Files that are there and right pass, on both legs."""
    ours = authority.issue("relay")
    tls = f'certificate = "{ours.certificate}"\nkey = "{ours.key}"\n'
    listener = f'[listener.a.tls]\n{tls}client_ca = "{authority.file}"\n'
    upstream = f'[upstream.a]\nuri = "ssl://b"\n[upstream.a.tls]\n{tls}ca = "{authority.file}"\n'
    assert main(["check", "-c", write(tmp_path, listener + upstream)]) == 0
    assert "verified as b by" in capsys.readouterr().out


def test_check_refuses_bad_certificates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], authority: Authority
) -> None:
    """A file that is absent, is no certificate, or a key of another certificate: told by its key."""
    ours, other = authority.issue("relay"), authority.issue("other")
    (tmp_path / "junk.pem").write_text("no PEM\n")
    listener = '[listener.a.tls]\ncertificate = "{}"\nkey = "{}"\n'
    upstream = '[upstream.a]\nuri = "ssl://b"\n[upstream.a.tls]\nca = "{}"\n'
    for text, key in (
        (listener.format("absent.pem", ours.key), f"listener.a.tls.certificate: {tmp_path}/absent.pem: "),
        (listener.format("junk.pem", ours.key), f"listener.a.tls.certificate: {tmp_path}/junk.pem: "),
        (listener.format(ours.certificate, other.key), f"listener.a.tls.key: {other.key}: "),
        (upstream.format("absent.pem"), f"upstream.a.tls.ca: {tmp_path}/absent.pem: "),
        (upstream.format("junk.pem"), f"upstream.a.tls.ca: {tmp_path}/junk.pem: "),
    ):
        file = write(tmp_path, text)
        assert refused(capsys, "check", "-c", file).startswith(f"{file}: {key}")


def test_check_shows_no_secret(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither in what would run nor in an error."""
    login = '[upstream.a]\nuri = "tcp://b"\nlogin = "l"\npasscode = "geheim"\n'
    assert main(["check", "-c", write(tmp_path, login)]) == 0
    assert "geheim" not in capsys.readouterr().out
    assert "geheim" not in refused(capsys, "check", "-c", write(tmp_path, login + "x = 1\n"))


def test_explain_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each frame of the file, and exit status 0 when all can be carried."""
    file = tmp_path / "frames"
    file.write_bytes(FRAME)
    assert main(["explain", "--client", "1.0", "--broker", "1.2", "--profile", "rabbitmq", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("client 1.0, broker 1.2, profile rabbitmq, losses: replace\n\n1. client to broker")
    assert "id:relay-1" in out


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_explain_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    """Without a file, or with a dash; octets are not decoded on the way."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SEND\ndestination:/a\n\n\xff"), "ascii"))
    assert main(["explain", *arguments]) == 0
    assert "<ff>^@" in capsys.readouterr().out


def test_explain_tells_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The ERROR is printed, and the exit status is 1."""
    file = tmp_path / "frames"
    file.write_bytes(b"SEND\ndestination:/a\nt:a\\nb\n\n\0")
    assert main(["explain", "--client", "1.2", "--broker", "1.0", "--loss", "reject", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "ERROR" in out
    assert err == ""


def test_explain_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is absent or empty is an error."""
    absent, empty = tmp_path / "absent", tmp_path / "empty"
    empty.write_bytes(b"\n")
    assert refused(capsys, "explain", str(absent)) == f"{absent}: cannot be read: No such file or directory"
    assert refused(capsys, "explain", str(empty)) == f"{empty}: there is no frame in it"


def test_the_installed_command(tmp_path: Path) -> None:
    """The script that `pip` makes, whose output is cut by its reader: no traceback."""
    script = Path(sys.executable).with_name("stomprelay")
    with subprocess.Popen(
        [script, "explain"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.close()
        child.stdin.write(FRAME * 2000)
        child.stdin.close()
        assert child.stderr.read() == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    """A full disk is told in a line."""
    script = Path(sys.executable).with_name("stomprelay")
    with Path("/dev/full").open("wb") as full:
        run = subprocess.run(
            [script, "check", "-c", write(tmp_path, "")], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (run.returncode, run.stderr) == (1, b"stomprelay: cannot write: No space left on device\n")
