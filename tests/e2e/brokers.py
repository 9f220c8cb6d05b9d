"""RabbitMQ and ActiveMQ Classic as child processes: data in a temporary directory, ports of loopback.

Both come from Debian packages (`rabbitmq-server`, `activemq`) and run in the foreground, as whoever runs the
tests. A broker is up when it has answered CONNECT with CONNECTED.
"""

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.certificates import Credentials
from tests.e2e.child import Child
from tests.e2e.ports import free_port
from tests.e2e.raw import Closed, Connection

START = 180.0
"""Seconds a broker may take to answer its first CONNECT."""

_RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
_ACTIVEMQ = Path("/usr/share/activemq")


@dataclass(frozen=True)
class Broker:
    """A running broker; `name` is its name in the table of facts. Login and passcode are guest."""

    name: str
    port: int
    tls_port: int


@contextlib.contextmanager
def rabbitmq(directory: Path, credentials: Credentials) -> Iterator[Broker]:
    """Run RabbitMQ with its STOMP plug-in; skip the test where the Debian package is absent."""
    epmd = shutil.which("epmd")
    if not _RABBITMQ.exists() or epmd is None:
        pytest.skip("needs RabbitMQ: Debian package rabbitmq-server")
    port, tls_port, epmd_port, distribution_port = (free_port() for _ in range(4))
    home, cookie = directory / "home", directory / "home" / ".erlang.cookie"
    home.mkdir(parents=True)
    cookie.write_text(secrets.token_hex(16))
    cookie.chmod(0o400)
    (directory / "enabled_plugins").write_text("[rabbitmq_stomp].\n")
    (directory / "env.conf").touch()
    (directory / "rabbitmq.conf").write_text(
        f"""
listeners.tcp = none
stomp.listeners.tcp.1 = 127.0.0.1:{port}
stomp.listeners.ssl.1 = 127.0.0.1:{tls_port}
ssl_options.cacertfile = {credentials.certificate}
ssl_options.certfile = {credentials.certificate}
ssl_options.keyfile = {credentials.key}
ssl_options.verify = verify_none
ssl_options.fail_if_no_peer_cert = false
log.console = true
log.console.level = info
log.file = false
disk_free_limit.absolute = 50MB
"""
    )
    environment = {
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
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    env = {name: str(value) for name, value in environment.items()}
    with contextlib.ExitStack() as stack:
        # Without an epmd of ours the server would start one that outlives it.
        daemon = Child("epmd", [epmd], env=env)
        stack.callback(daemon.stop)
        server = Child("rabbitmq-server", [str(_RABBITMQ)], env=env, cwd=directory)
        stack.callback(server.stop)
        _wait_until_connected(server, port)
        yield Broker("rabbitmq", port, tls_port)


@contextlib.contextmanager
def activemq(directory: Path, credentials: Credentials) -> Iterator[Broker]:
    """Run ActiveMQ Classic without persistence; skip the test where the Debian package is absent."""
    java = shutil.which("java")
    if not (_ACTIVEMQ / "bin" / "activemq.jar").exists() or java is None:
        pytest.skip("needs ActiveMQ: Debian package activemq")
    port, tls_port = free_port(), free_port()
    conf, data, tmp = (directory / name for name in ("conf", "data", "tmp"))
    for folder in (conf, data, tmp):
        folder.mkdir(parents=True)
    keystore = credentials.keystore(conf / "broker.p12", "changeit")
    (conf / "activemq.xml").write_text(
        f"""<beans xmlns="http://www.springframework.org/schema/beans"
  xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
  xsi:schemaLocation="http://www.springframework.org/schema/beans
  http://www.springframework.org/schema/beans/spring-beans.xsd
  http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
 <broker xmlns="http://activemq.apache.org/schema/core" brokerName="stomprelay{port}" dataDirectory="{data}"
   persistent="false" useJmx="false" useShutdownHook="true" advisorySupport="false" schedulerSupport="false">
  <plugins><simpleAuthenticationPlugin><users>
   <authenticationUser username="guest" password="guest" groups="users"/>
  </users></simpleAuthenticationPlugin></plugins>
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
    (conf / "log4j.properties").write_text(
        "log4j.rootLogger=INFO, console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.console.layout.ConversionPattern=%d %-5p %c{1} %m%n\n"
    )
    server = Child(
        "activemq",
        [
            *(java, "-Xms64m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            f"-Djava.io.tmpdir={tmp}",
            "-Djava.awt.headless=true",
            f"-Dactivemq.home={_ACTIVEMQ}",
            f"-Dactivemq.base={directory}",
            f"-Dactivemq.conf={conf}",
            f"-Dactivemq.data={data}",
            f"-Dactivemq.classpath={conf}:{_ACTIVEMQ}/lib/",
            f"-Dlog4j.configuration=file:{conf}/log4j.properties",
            *("-jar", str(_ACTIVEMQ / "bin" / "activemq.jar"), "start", f"xbean:file:{conf}/activemq.xml"),
        ],
        cwd=directory,
    )
    with contextlib.ExitStack() as stack:
        stack.callback(server.stop)
        _wait_until_connected(server, port)
        yield Broker("activemq", port, tls_port)


def _wait_until_connected(server: Child, port: int) -> None:
    """Wait until a real CONNECT is answered with CONNECTED."""
    pause, attempts = 0.1, int(START / 0.1)
    for _ in range(attempts):
        with contextlib.suppress(ConnectionRefusedError, Closed), Connection.to(port) as client:
            if client.connect().startswith(b"CONNECTED\n"):
                return
        if server.exited(within=pause):
            break
    raise AssertionError(f"{server.name} did not answer CONNECT on port {port}:\n{server.output}")
