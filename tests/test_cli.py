"""The command `stomprelay`, as a user types it, and `python -m stomprelay`, which is the same."""

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stomprelay
from stomprelay.cli import main
from stomprelay.cli.configuration import LOG_FORMATS
from stomprelay.config import OPTIONS
from stomprelay.files import files
from stomprelay.remote import commands as remote
from stomprelay.service.log import FORMS
from tests.config.reference import put_secrets
from tests.e2e.certificates import Authority
from tests.fake_admin import Relay, serving_relay
from tests.journal.made import event, put

Capture = pytest.CaptureFixture[str]
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


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line on standard error of a command that fails; nothing is printed."""
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("stomprelay: ")
    assert err.count("\n") == 1
    return err.removeprefix("stomprelay: ").rstrip("\n")


COMMANDS = [
    *("run", "check", "config", "explain", "pause", "resume", "brokers", "sessions", "kill"),
    *("tail", "reload", "journal"),
]
JOURNALS = ["ls", "cat", "verify"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        *([command, "--help"] for command in COMMANDS),
        *(["journal", each, "--help"] for each in JOURNALS),
    ],
)
def test_help(capsys: Capture, arguments: list[str]) -> None:
    """Each command explains itself."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    assert "usage: stomprelay" in capsys.readouterr().out


@pytest.mark.parametrize(
    "said",
    [
        *("", "chekc", "check", "run --log-format xml", "run relay.toml", "config absent.toml"),
        *("explain --client 2.0", "explain --loss x", "pause", "pause a:1 --within soon"),
        *(
            "pause a:1 --within -1",
            "pause a:1 --within nan",
            "resume",
            "resume a:1 --within 5",
            "brokers a:1",
        ),
        *(
            "pause a:1 --json",
            "sessions x",
            "sessions --sort size",
            "sessions --top 0",
            "sessions --top \u0661",
        ),
        *("sessions --filter login", "sessions --filter logon=x", "kill", "kill a b", "tail a", "reload a"),
        *("journal", "journal rm a", *(f"journal {each}" for each in JOURNALS), "journal cat --since soon a"),
    ],
)
def test_wrong_usage(capsys: Capture, said: str) -> None:
    """Wrong options are told on standard error, with exit status 2."""
    with pytest.raises(SystemExit) as ended:
        main(said.split())
    assert ended.value.code == 2
    assert "usage: stomprelay" in capsys.readouterr().err


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.toml")), ids=lambda file: file.stem)
def test_check_says_what_runs(tmp_path: Path, authority: Authority, capsys: Capture, file: Path) -> None:
    """The files that we hand out are right as they are, beside the files that they name."""
    put_secrets(tmp_path)
    authority.issue("relay")
    assert main(["check", "-c", write(tmp_path, file.read_text(encoding="utf-8"))]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("listener.")
    assert "\nupstream." in out
    assert err == ""


def test_every_file_that_comes_along(capsys: Capture) -> None:
    """Each is printed by its name, as it stands; `--help` lists them."""
    folders = ("config/*.toml", "config/grafana/*", "config/prometheus/*", "systemd/*")
    shipped = [path for folder in folders for path in ROOT.glob(folder)]
    assert {path.name for path in shipped} == files().keys()
    for path in shipped:
        assert main(["config", path.name]) == 0
        assert capsys.readouterr().out == path.read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["config", "--help"])
    assert f"oneof{','.join(files())};" in "".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("command", ["run", "check"])
def test_every_option_says_what_it_is_for(capsys: Capture, command: str) -> None:
    """By the same names as for `twistd`, and in the same words."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, option in OPTIONS.items():
        assert f"--{name.replace('_', '-')} {option.value} {option.meaning}" in shown


def test_the_forms_of_a_log() -> None:
    """Those of the command line are those that there are; the first one is taken where none is named."""
    assert list(LOG_FORMATS) == list(FORMS)


@pytest.fixture
def _as_before() -> Iterator[None]:
    """A command that runs a relay expects SIGTERM from its first moment on."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("_as_before")
def test_run_names_file_and_key(tmp_path: Path, capsys: Capture, authority: Authority) -> None:
    """What cannot run is told in one line, as by `check`, and nothing runs."""
    file = write(tmp_path, "[listener.public]\nendpiont = 1\n")
    assert refused(capsys, "run", "-c", file).startswith(f"{file}: listener.public.endpiont: ")
    absent = str(tmp_path / "absent")
    assert refused(capsys, "run", "-c", absent) == f"{absent}: cannot be read: No such file or directory"
    assert refused(capsys, "run", "--log-level", "loud").startswith("command line: --log-level: ")
    assert refused(capsys, "run", "--listen", "tpc:1:x=y").startswith("listener.default.endpoint ")
    listener = f'[listener.a.tls]\ncertificate = "absent.pem"\nkey = "{authority.issue("relay").key}"\n'
    file = write(tmp_path, listener)
    assert refused(capsys, "run", "-c", file).startswith(f"{file}: listener.a.tls.certificate: ")


def test_check_names_file_and_key(tmp_path: Path, capsys: Capture) -> None:
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
        ('admin = "unix:/admin:mode=x"\n', "admin"),
        ('metrics = "tpc:61613:x=y"\n', "metrics"),
        (
            'admin = "tcp:1:interface=127.0.0.1"\n[admin_tls]\ncertificate = "/absent"\nkey = "/absent"\n',
            "admin_tls.certificate",
        ),
        ('[upstream.a]\nuri = "tpc:broker:61613"\n', "upstream.a.uri"),
        ('[upstream.a]\nuri = "tls:broker:61613:certificate=/absent"\n', "upstream.a.uri"),
        ('[upstream.a]\nuri = "failover:(tcp://a,tpc:b:1)"\n', "upstream.a.uri"),
        ('[upstream.a]\nuri = "fanout:(tcp://a,failover:(tcp://b,tpc:c:1))"\n', "upstream.a.uri"),
        (
            '[listener.l]\nupstream = "a"\n[upstream.a]\nuri = "tcp://a"\n[upstream.b]\nuri = "tpc:b:1"\n'
            '[[route]]\nprefix = "/x"\nupstream = "b"\n',
            "upstream.b.uri",
        ),
    ],
)
def test_check_makes_the_endpoints(tmp_path: Path, capsys: Capture, text: str, key: str) -> None:
    """What Twisted does not take is found before anything runs, and told by its key."""
    file = write(tmp_path, text)
    assert refused(capsys, "check", "-c", file).startswith(f"{file}: {key}: ")


def test_what_check_shows(tmp_path: Path, capsys: Capture) -> None:
    """Sockets of systemd as they are, for they are not there yet; and no secret, in what runs or in an error."""
    file = write(tmp_path, '[listener.a]\nendpoint = "systemd:domain=INET:index=0"\n')
    assert main(["check", "-c", file]) == 0
    assert "systemd:domain=INET:index=0" in capsys.readouterr().out
    login = '[upstream.a]\nuri = "tcp://b"\nlogin = "l"\npasscode = "geheim"\n'
    assert main(["check", "-c", write(tmp_path, login)]) == 0
    assert "geheim" not in capsys.readouterr().out
    assert "geheim" not in refused(capsys, "check", "-c", write(tmp_path, login + "x = 1\n"))


def test_check_refuses_bad_certificates(tmp_path: Path, capsys: Capture, authority: Authority) -> None:
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


def test_explain_a_file(tmp_path: Path, capsys: Capture) -> None:
    """Exit status 0 when all can be carried, 1 with the ERROR; a file that is absent or empty is an error."""
    file = tmp_path / "frames"
    file.write_bytes(FRAME)
    assert main(["explain", "--client", "1.0", "--broker", "1.2", "--profile", "rabbitmq", str(file)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("client 1.0, broker 1.2, profile rabbitmq, losses: replace\n\n1. client to broker")
    assert "id:relay-1" in out
    file = tmp_path / "frames"
    file.write_bytes(b"SEND\ndestination:/a\nt:a\\nb\n\n\0")
    assert main(["explain", "--client", "1.2", "--broker", "1.0", "--loss", "reject", str(file)]) == 1
    out, err = capsys.readouterr()
    assert "ERROR" in out
    assert err == ""
    absent, empty = tmp_path / "absent", tmp_path / "empty"
    empty.write_bytes(b"\n")
    assert refused(capsys, "explain", str(absent)) == f"{absent}: cannot be read: No such file or directory"
    assert refused(capsys, "explain", str(empty)) == f"{empty}: there is no frame in it"


def test_explain_names(tmp_path: Path, capsys: Capture) -> None:
    """With a configuration, destinations are spelled as its upstream says."""
    file, config = tmp_path / "frames", tmp_path / "relay.toml"
    file.write_bytes(b"SEND\ndestination:/queue/a/b\n\n\0")
    one = '[upstream.one]\nuri = "tcp://b"\n[upstream.one.map]\nnames = [["/queue/{a}", "/queue/{a:percent}"]]\n'
    config.write_text(one)
    assert main(["explain", "--config", str(config), str(file)]) == 0
    assert "map frame: takes out destination; puts in destination:/queue/a%2Fb" in capsys.readouterr().out
    config.write_text(f'{one}[upstream.two]\nuri = "tcp://c"\n[listener.public]\nupstream = "one"\n')
    assert main(["explain", "--config", str(config), "--upstream", "one", str(file)]) == 0
    assert "%2Fb" in capsys.readouterr().out
    said = refused(capsys, "explain", "--config", str(config), "--upstream", "none", str(file))
    assert said == f"{config}: --upstream: name one of one"


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_explain_stdin(capsys: Capture, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    """Without a file, or with a dash; octets are not decoded on the way."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"SEND\ndestination:/a\n\n\xff"), "ascii"))
    assert main(["explain", *arguments]) == 0
    assert "<ff>^@" in capsys.readouterr().out


@pytest.fixture
def relay() -> Iterator[Relay]:
    """A relay that runs."""
    with serving_relay() as relay:
        yield relay


def test_the_admin_endpoint_of_a_file(relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """Nothing else of the file has to be right; `--admin` wins."""
    file = write(tmp_path, f'admin = "tcp:{relay.port}:interface=127.0.0.1"\n[upstream.a]\nuri = 5\n')
    assert main(["brokers", "-c", file]) == 0
    other = write(tmp_path, 'admin = "unix:/absent"\n')
    assert main(["brokers", "-c", other, "--admin", relay.place]) == 0
    capsys.readouterr()
    none = write(tmp_path, "")
    assert refused(capsys, "brokers", "-c", none) == (
        f"{none}: admin: is missing; without it, the relay cannot be asked"
    )
    assert refused(capsys, "resume", "a:1", "-c", str(tmp_path / "absent")).endswith(
        "No such file or directory"
    )


def test_the_token_of_a_relay(relay: Relay, tmp_path: Path, capsys: Capture) -> None:
    """Of the file's endpoint, or of `--token-file`, which wins; nobody else may read it."""
    put_secrets(tmp_path)
    other = tmp_path / "other.token"
    other.write_text("abcdefghijklmnopqrst")
    other.chmod(0o600)
    file = write(tmp_path, f'admin = "tcp:{relay.port}"\nadmin_token_file = "admin.token"\n')
    assert main(["brokers", "-c", file]) == 0
    assert main(["brokers", "-c", file, "--admin", relay.place]) == 0
    assert main(["brokers", "-c", file, "--token-file", str(other)]) == 0
    assert main(["brokers", "--admin", relay.place, "--token-file", str(other)]) == 0
    assert main(["brokers", "--admin", relay.place]) == 0
    own, given = "Bearer 0123456789abcdef", "Bearer abcdefghijklmnopqrst"
    assert relay.said == [own, own, given, given, None]
    capsys.readouterr()
    other.chmod(0o644)
    assert refused(capsys, "brokers", "--admin", relay.place, "--token-file", str(other)) == (
        f"command line: --token-file: {other}: every user may read or write it, for its mode is 644: chmod 600 it"
    )
    assert refused(capsys, "brokers", "--key", "k") == (
        "command line: --key: is of no use without --certificate"
    )


def test_what_the_relay_refuses(relay: Relay, capsys: Capture) -> None:
    """One line on standard error, and exit status 1."""
    assert "the relay knows no such broker" in refused(capsys, "pause", "c:1", "--admin", relay.place)
    relay.answer("/brokers/pause", (400, b'{"error": "within must be a number"}'))
    assert refused(capsys, "pause", "a:1", "--admin", relay.place) == (
        f"the relay at {relay.place} says: within must be a number"
    )
    assert refused(capsys, "brokers", "--admin", "nowhere").startswith("nowhere: must be an endpoint")


def test_journal(tmp_path: Path, capsys: Capture) -> None:
    """Segments are listed, shown and checked; damage is told on standard error."""
    path = put(tmp_path, event("lost", "gone"))
    assert main(["journal", "ls", str(tmp_path)]) == 0
    assert path.name in capsys.readouterr().out
    assert main(["journal", "cat", str(path)]) == 0
    assert capsys.readouterr().out.endswith(" eu-1.7 orders -- lost: gone\n")
    assert main(["journal", "verify", str(path)]) == 0
    assert capsys.readouterr().out == "1 segment, 1 block, 0 frames: no damage\n"
    with path.open("ab") as file:
        file.write(b"garbage")
    assert main(["journal", "verify", str(path)]) == 1
    assert main(["journal", "cat", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "no block begins here\n" in out
    assert err.startswith(f"stomprelay: {path}: at ")


@pytest.mark.parametrize("command", JOURNALS)
def test_a_journal_that_is_not_there(tmp_path: Path, capsys: Capture, command: str) -> None:
    """One line on standard error, and exit status 1."""
    absent = str(tmp_path / "absent")
    assert refused(capsys, "journal", command, absent) == (
        f"{absent}: cannot be read: No such file or directory"
    )


def test_who_does_not_wait(relay: Relay, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Control-C ends it without a traceback, with the status that shells give it."""

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(remote, "pause", interrupted)
    assert main(["pause", "a:1", "--admin", relay.place]) == 130
    assert capsys.readouterr().err == ""


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


def test_it_runs_the_command() -> None:
    """The same options, the same answer, the same exit status."""
    run = subprocess.run(
        [sys.executable, "-m", "stomprelay", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"stomprelay {stomprelay.__version__}\n"
    assert (
        subprocess.run([sys.executable, "-m", "stomprelay"], capture_output=True, check=False).returncode == 2
    )
