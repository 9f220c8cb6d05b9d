# The relay in a container: process 1 itself, without root, with its extensions compiled.
#
#   docker build --tag stomprelay .
#   docker run --rm --publish 61613:61613 stomprelay --upstream tcp://broker.example.net:61613
#
# docs/installation.md says more, config/compose.yaml has a broker and Prometheus beside it.

FROM python:3.13-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY LICENSE README.md pyproject.toml setup.cfg setup.py ./
COPY config config
COPY pyspark_stomp pyspark_stomp
COPY stomprelay stomprelay
COPY systemd systemd
COPY twisted twisted
# Twisted lists its plugins beside them, which nobody can do later; a build without compiled modules fails.
RUN python -m venv /opt/stomprelay \
    && /opt/stomprelay/bin/pip install --no-cache-dir '.[auth]' \
    && /opt/stomprelay/bin/twistd --help > /dev/null \
    && /opt/stomprelay/bin/python -I -c "from stomprelay.wire.decoder import SCANNER; assert SCANNER" \
    && /opt/stomprelay/bin/python -m pip uninstall --yes pip

FROM python:3.13-slim
ENV PATH=/opt/stomprelay/bin:$PATH
COPY --from=build /opt/stomprelay /opt/stomprelay
COPY config/container.toml /etc/stomprelay/stomprelay.toml
# By number, so that a runtime which takes nobody but others than root (runAsNonRoot) knows it. It need not exist.
USER 61613:61613
EXPOSE 61613 61681
# Asks the endpoint `metrics`: a file that is mounted in place of ours has it at the same port.
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python", "-I", "-c", "import http.client, sys; relay = http.client.HTTPConnection('127.0.0.1', 61681, timeout=4); relay.request('GET', '/livez'); sys.exit(relay.getresponse().status != 200)"]
# What stands behind the image's name in `docker run` is added, and wins over the file.
ENTRYPOINT ["stomprelay", "run", "--config", "/etc/stomprelay/stomprelay.toml"]
