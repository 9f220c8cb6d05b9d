"""RabbitMQ, ActiveMQ Classic (5 and 6), Artemis and the embedded broker as child processes that can die and come back.

RabbitMQ and ActiveMQ 5 come from Debian packages (`rabbitmq-server`, `activemq`), ActiveMQ 6 and Artemis from Maven
Central. They run in the foreground, as whoever runs the tests: data in a temporary directory, ports of loopback. A
message sent with `persistent:true` survives the broker whose receipt it got; the embedded broker forgets all. A broker
is up when it has answered CONNECT with CONNECTED.
"""

import contextlib
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.e2e import downloads, relay
from tests.e2e.certificates import Credentials
from tests.e2e.child import Child
from tests.e2e.ports import free_port
from tests.e2e.raw import Closed, Connection

START = 180.0
"""Seconds a broker may take to answer its first CONNECT."""

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_ACTIVEMQ = Path("/usr/share/activemq")

_JAVA_OPTIONS = ("-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_TAKES_ALL = ("manage", "browse", "consume", "send", *(
    f"{verb}{what}" for verb in ("create", "delete") for what in ("Address", "DurableQueue", "NonDurableQueue")
))  # fmt: skip
"""Artemis' names for what a user may do."""


class Absent(Exception):
    """What is needed is not installed; the text says how to get it."""


class Broker:
    """A broker with ports and data of its own, running or not; `name` is its name in the table of facts.

    Login and passcode are guest. `launch` starts its process, each time on the same ports and data; `first` is what
    each connection to it begins with.
    """

    def __init__(
        self, name: str, port: int, tls_port: int, launch: Callable[[], Child], first: bytes = b""
    ) -> None:
        self.name = name
        self.port = port
        self.tls_port = tls_port
        self._launch = launch
        self._first = first
        self._child: Child | None = None

    @property
    def uri(self) -> str:
        """Its address in the relay's configuration."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process's id, while it runs."""
        assert self._child is not None, f"{self.name} does not run"
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether its process is there, be it frozen."""
        return self._child is not None

    def start(self) -> None:
        """Launch its process; `wait_until_up` when it is needed."""
        assert self._child is None, f"{self.name} runs already"
        self._child = self._launch()

    def wait_until_up(self) -> None:
        """Wait until a real CONNECT is answered with CONNECTED."""
        assert self._child is not None, f"{self.name} does not run"
        deadline = time.monotonic() + START
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, Closed), Connection.to(self.port) as client:
                client.socket.settimeout(5)  # a broker that is about to be up may accept and say nothing
                client.write(self._first)
                if client.connect().startswith(b"CONNECTED\n"):
                    return
            if self._child.exited(within=0.1):
                break
        raise AssertionError(
            f"{self.name} did not answer CONNECT on port {self.port}:\n{self._child.last_words}"
        )

    def kill(self) -> None:
        """End it by SIGKILL, whatever state it is in."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self.thaw()
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """SIGSTOP: its connections stay, the kernel accepts new ones, and nobody answers."""
        assert self._child is not None
        self._child.send(signal.SIGSTOP)
        self._child.wait_until_stopped()

    def thaw(self) -> None:
        """SIGCONT: it goes on as if nothing had been."""
        if self._child is not None:
            self._child.send(signal.SIGCONT)

    def heal(self) -> None:
        """Make it run and answer again, whatever was done to it."""
        self.thaw()
        if self._child is None:
            self.start()
        self.wait_until_up()

    def _end(self, sig: signal.Signals) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.stop(sig)


@contextlib.contextmanager
def _run(broker: Broker) -> Iterator[Broker]:
    """Start a broker and stop what runs of it at the end."""
    try:
        broker.start()
        broker.wait_until_up()
        yield broker
    finally:
        broker.stop()


class RabbitMQ(Broker):
    """A RabbitMQ, with its own command line. It speaks STOMP over WebSocket on `web_port`; `tables` is where it has the
    log of its queues' names.
    """

    environment: Mapping[str, str]
    web_port: int
    tables: Path

    def kill(self) -> None:
        """End it by SIGKILL, once it will have all queues again.

        A queue is in its log at once, but that this is decided only up to two seconds later, when messages in it have
        long been confirmed: killed before, it takes the queue for never made, and what it has on its disk with it.
        """
        assert self._child is not None
        for _ in range(100):
            if self._queues_decided or self._child.exited(within=0.1):
                break
        super().kill()

    @property
    def _queues_decided(self) -> bool:
        log = (self.tables / "LATEST.LOG").read_bytes()
        return log.rfind(b"presume_abort") <= log.rfind(b"committed")

    def connections(self) -> list[list[str]]:
        """Return its STOMP connections, as it lists them: the peers' hosts and ports."""
        listed = self._asked("list_stomp_connections", "peer_host", "peer_port")
        return [line.split("\t") for line in listed.splitlines()]

    def queues(self) -> str:
        """Return the names of its queues, one a line."""
        return self._asked("list_queues", "name")

    def names(self) -> str:
        """Return how it calls its STOMP connections, those over WebSocket, too, which it does not list: `HOST:PORT ->
        HOST:PORT` in Erlang's terms.
        """
        found = "[D || P <- rabbit_direct:list(), {dictionary, D} <- [process_info(P, dictionary)]]."
        return self._asked("eval", found)  # a process that has just ended has no dictionary

    @contextlib.contextmanager
    def without_majority(self, queue: str) -> Iterator[None]:
        """Let a quorum queue decide nothing for a time, as where most of its nodes are down."""
        leader = f'whereis(list_to_atom("%2F_{queue.removeprefix("/queue/")}"))'
        self._asked("eval", f"sys:suspend({leader}).")
        try:
            yield
        finally:
            self._asked("eval", f"sys:resume({leader}).")

    @contextlib.contextmanager
    def rejecting(self, prefix: str) -> Iterator[None]:
        """Let queues whose names begin so hold one message each, and reject more."""
        definition = '{"max-length": 1, "overflow": "reject-publish"}'
        self._asked("set_policy", prefix, f"^{prefix}", definition, "--apply-to", "queues")
        try:
            yield
        finally:
            self._asked("clear_policy", prefix)

    def _asked(self, *command: str) -> str:
        done = subprocess.run(
            [str(_RABBITMQ.with_name("rabbitmqctl")), "--silent", *command],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=START,
            check=True,
        )
        return done.stdout


@contextlib.contextmanager
def rabbitmq(
    directory: Path, credentials: Credentials, settings: str = "", first: bytes = b"", *, erl: str = ""
) -> Iterator[RabbitMQ]:
    """Run RabbitMQ with its STOMP plug-ins and more settings, with which connections begin with `first`; `erl` is what
    Erlang is told beside.
    """
    epmd = shutil.which("epmd")
    if not _RABBITMQ.exists() or epmd is None:
        raise Absent("needs RabbitMQ: Debian package rabbitmq-server")
    port, tls_port, web_port, epmd_port, distribution_port = (free_port() for _ in range(5))
    home, cookie = directory / "home", directory / "home" / ".erlang.cookie"
    home.mkdir(parents=True)
    cookie.write_text(secrets.token_hex(16))
    cookie.chmod(0o400)
    (directory / "enabled_plugins").write_text("[rabbitmq_stomp,rabbitmq_web_stomp].\n")
    (directory / "env.conf").touch()
    (directory / "rabbitmq.conf").write_text(
        f"""
listeners.tcp = none
stomp.listeners.tcp.1 = 127.0.0.1:{port}
stomp.listeners.ssl.1 = 127.0.0.1:{tls_port}
web_stomp.tcp.ip = 127.0.0.1
web_stomp.tcp.port = {web_port}
ssl_options.cacertfile = {credentials.certificate}
ssl_options.certfile = {credentials.certificate}
ssl_options.keyfile = {credentials.key}
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 50MB
{settings}
"""
    )
    environment: dict[str, object] = {
        "HOME": home,
        "ERL_EPMD_PORT": epmd_port,
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"stomprelay{port}@localhost",
        "RABBITMQ_MNESIA_BASE": directory / "mnesia",
        "RABBITMQ_LOG_BASE": directory / "log",
        "RABBITMQ_LOGS": "-",
        "RABBITMQ_CONFIG_FILE": directory / "rabbitmq.conf",
        "RABBITMQ_CONF_ENV_FILE": directory / "env.conf",
        "RABBITMQ_ADVANCED_CONFIG_FILE": directory / "advanced.config",
        "RABBITMQ_GENERATED_CONFIG_DIR": directory / "generated",
        "RABBITMQ_SCHEMA_DIR": directory / "schema",
        "RABBITMQ_ENABLED_PLUGINS_FILE": directory / "enabled_plugins",
        "RABBITMQ_PLUGINS_EXPAND_DIR": directory / "plugins",
        "RABBITMQ_DIST_PORT": distribution_port,
        # Its script becomes the server, instead of a shell that starts it: signals reach the server itself.
        "RUNNING_UNDER_SYSTEMD": "1",
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": f"-kernel inet_dist_use_interface {{127,0,0,1}} {erl}",
    }
    env = {name: str(value) for name, value in environment.items()}
    with contextlib.ExitStack() as stack:
        # Without an epmd of ours the server would start one that outlives it.
        daemon = Child("epmd", [epmd], env=env)
        stack.callback(daemon.stop)
        broker = RabbitMQ(
            "rabbitmq",
            port,
            tls_port,
            lambda: Child("rabbitmq-server", [str(_RABBITMQ)], env=env, cwd=directory),
            first,
        )
        broker.environment = env
        broker.tables = directory / "mnesia" / env["RABBITMQ_NODENAME"]
        broker.web_port = web_port
        stack.enter_context(_run(broker))
        yield broker


@contextlib.contextmanager
def activemq(directory: Path, credentials: Credentials) -> Iterator[Broker]:
    """Run ActiveMQ Classic 5."""
    if not (_ACTIVEMQ / "bin" / "activemq.jar").exists() or shutil.which("java") is None:
        raise Absent("needs ActiveMQ: Debian package activemq")
    conf = directory / "conf"
    conf.mkdir(parents=True)
    (conf / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.console.layout.ConversionPattern=%d %-5p %c{1} %m%n\n"
    )
    program = [
        f"-Dactivemq.home={_ACTIVEMQ}",
        f"-Dactivemq.classpath={conf}:{_ACTIVEMQ}/lib/",
        f"-Dlog4j.configuration=file:{conf}/log4j.properties",
        *("-jar", str(_ACTIVEMQ / "bin" / "activemq.jar")),
    ]
    with _run(_classic("activemq", program, directory, credentials)) as broker:
        yield broker


@contextlib.contextmanager
def activemq_6(directory: Path, credentials: Credentials) -> Iterator[Broker]:
    """Run ActiveMQ Classic 6."""
    jars = downloads.activemq_6()
    if jars is None or shutil.which("java") is None:
        raise Absent("needs ActiveMQ 6: make brokers; and Java")
    (directory / "conf").mkdir(parents=True)
    program = [
        f"-Dactivemq.home={directory}",
        "-Dorg.apache.logging.log4j.simplelog.level=INFO",
        *("-cp", ":".join(map(str, jars)), "org.apache.activemq.console.Main"),
    ]
    with _run(_classic("activemq_6", program, directory, credentials)) as broker:
        yield broker


def _classic(name: str, program: Sequence[str], directory: Path, credentials: Credentials) -> Broker:
    """Return an ActiveMQ Classic with KahaDB, whose folder `conf` is there. `program` is what Java runs.

    What it now and then leaves on its disk when a consumer comes, it reads when it looks for expired messages: here
    every second, as its own 30 are longer than most tests.
    """
    port, tls_port = free_port(), free_port()
    conf, data, tmp = (directory / name for name in ("conf", "data", "tmp"))
    for folder in (data, tmp):
        folder.mkdir()
    keystore = credentials.keystore(conf / "broker.p12", "changeit")
    (conf / "activemq.xml").write_text(
        f"""<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="stomprelay{port}" dataDirectory="{data}"
   useJmx="false" useShutdownHook="true" advisorySupport="false" schedulerSupport="true">
  <plugins><simpleAuthenticationPlugin><users>
   <authenticationUser username="guest" password="guest" groups="users"/>
  </users></simpleAuthenticationPlugin></plugins>
  <destinationPolicy><policyMap><policyEntries>
   <policyEntry queue=">" expireMessagesPeriod="1000"/>
  </policyEntries></policyMap></destinationPolicy>
  <persistenceAdapter><kahaDB directory="{data}/kahadb" journalMaxFileLength="8mb"/></persistenceAdapter>
  <sslContext>
   <sslContext keyStore="file:{keystore}" keyStorePassword="changeit" keyStoreType="PKCS12"/>
  </sslContext>
  <systemUsage><systemUsage>
   <memoryUsage><memoryUsage limit="128 mb"/></memoryUsage>
   <storeUsage><storeUsage limit="256 mb"/></storeUsage>
   <tempUsage><tempUsage limit="64 mb"/></tempUsage>
  </systemUsage></systemUsage>
  <transportConnectors>
   <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}?transport.tcpNoDelay=true"/>
   <transportConnector name="stomp+ssl" uri="stomp+ssl://127.0.0.1:{tls_port}"/>
  </transportConnectors>
 </broker>
</beans>
"""
    )
    command = [
        *("java", *_JAVA_OPTIONS),
        f"-Djava.io.tmpdir={tmp}",
        "-Djava.awt.headless=true",
        f"-Dactivemq.base={directory}",
        f"-Dactivemq.conf={conf}",
        f"-Dactivemq.data={data}",
        *(*program, "start", f"xbean:file:{conf}/activemq.xml"),
    ]
    return Broker(name, port, tls_port, lambda: Child(name, command, cwd=directory))


class Artemis(Broker):
    """An Artemis. At `shipped_port` it takes STOMP as its own configuration would have it: without prefixes."""

    shipped_port: int


@contextlib.contextmanager
def artemis(directory: Path, credentials: Credentials) -> Iterator[Artemis]:
    """Run Artemis, with prefixes that make `/queue/` a queue and `/topic/` a topic, and without its window of ten KiB
    of messages that nobody has acknowledged yet.
    """
    home = downloads.artemis()
    if home is None or shutil.which("java") is None:
        raise Absent("needs Artemis: make brokers; and Java")
    port, tls_port, shipped_port = free_port(), free_port(), free_port()
    etc, data, tmp = (directory / name for name in ("etc", "data", "tmp"))
    for folder in (etc, data, tmp):
        folder.mkdir(parents=True)
    keystore = credentials.keystore(etc / "broker.p12", "changeit")
    may = "".join(f'<permission type="{each}" roles="users"/>' for each in _TAKES_ALL)
    stomp = "protocols=STOMP;anycastPrefix=/queue/;multicastPrefix=/topic/;stompConsumerWindowSize=-1"
    (etc / "broker.xml").write_text(
        f"""<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
 <name>stomprelay{port}</name>
 <journal-type>NIO</journal-type>
 <journal-datasync>false</journal-datasync>
 <journal-file-size>10M</journal-file-size>
 <paging-directory>{data}/paging</paging-directory>
 <bindings-directory>{data}/bindings</bindings-directory>
 <journal-directory>{data}/journal</journal-directory>
 <large-messages-directory>{data}/large-messages</large-messages-directory>
 <max-disk-usage>99</max-disk-usage>
 <jmx-management-enabled>false</jmx-management-enabled>
 <acceptors>
  <acceptor name="stomp">tcp://127.0.0.1:{port}?{stomp}</acceptor>
  <acceptor name="shipped">tcp://127.0.0.1:{shipped_port}?protocols=STOMP</acceptor>
  <acceptor name="stomp+ssl">tcp://127.0.0.1:{tls_port}?{stomp};sslEnabled=true;keyStorePath={keystore};keyStorePassword=changeit;keyStoreType=PKCS12</acceptor>
 </acceptors>
 <security-settings><security-setting match="#">{may}</security-setting></security-settings>
 <address-settings><address-setting match="#">
  <dead-letter-address>DLQ</dead-letter-address><expiry-address>DLQ</expiry-address>
 </address-setting></address-settings>
 <addresses><address name="DLQ"><anycast><queue name="DLQ"/></anycast></address></addresses>
</core></configuration>
"""
    )
    (etc / "bootstrap.xml").write_text(
        f"""<broker xmlns="http://activemq.apache.org/schema">
 <security-manager class-name="org.apache.activemq.artemis.spi.core.security.ActiveMQBasicSecurityManager">
  <property key="bootstrapUser" value="guest"/><property key="bootstrapPassword" value="guest"/>
  <property key="bootstrapRole" value="users"/>
 </security-manager>
 <server configuration="file:{etc}/broker.xml"/>
</broker>
"""
    )
    (etc / "management.xml").write_text('<management-context xmlns="http://activemq.apache.org/schema"/>\n')
    (etc / "log4j2.properties").write_text(
        "rootLogger.level = INFO\nrootLogger.appenderRef.console.ref = console\n"
        "logger.audit.name = org.apache.activemq.audit\nlogger.audit.level = OFF\n"
        "appender.console.type = Console\nappender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %d %-5p %c{1} %m%n\n"
    )
    command = [
        *("java", *_JAVA_OPTIONS),
        f"-Djava.io.tmpdir={tmp}",
        f"-Dlog4j2.configurationFile=file:{etc}/log4j2.properties",
        f"-Dartemis.home={home}",
        f"-Dartemis.instance={directory}",
        f"-Dartemis.instance.etc={etc}",
        f"-Ddata.dir={data}",
        *("-cp", str(home / "lib" / "artemis-boot.jar"), "org.apache.activemq.artemis.boot.Artemis", "run"),
    ]
    broker = Artemis("artemis", port, tls_port, lambda: Child("artemis", command, cwd=directory))
    broker.shipped_port = shipped_port
    with _run(broker):
        yield broker


@contextlib.contextmanager
def memory(directory: Path) -> Iterator[Broker]:
    """Run the embedded broker alone, as `twistd stompbroker`; no Traceback may be in what it wrote."""
    port = free_port()
    children: list[Child] = []

    def launch() -> Child:
        children.append(relay.start(directory, ["stompbroker", "-l", f"tcp:{port}:interface=127.0.0.1"]))
        return children[-1]

    with _run(Broker("memory", port, 0, launch)) as broker:
        yield broker
    for child in children:
        relay.check(child)


INSTALLED: Final[Mapping[str, Callable[[Path, Credentials], AbstractContextManager[Broker]]]] = {
    "rabbitmq": rabbitmq,
    "activemq": activemq,
    "activemq_6": activemq_6,
    "artemis": artemis,
}
"""The real brokers, by their names in the table of facts: what runs one in a folder."""
