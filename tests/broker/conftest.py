"""The broker of a script, and its first clients."""

import pytest

from tests.broker.scene import Peer, Scene


@pytest.fixture
def scene() -> Scene:
    """A broker with the default bounds."""
    return Scene()


@pytest.fixture
def client(scene: Scene) -> Peer:
    """A client of 1.2 that received CONNECTED."""
    return scene.client()


@pytest.fixture
def other(scene: Scene) -> Peer:
    """Another one."""
    return scene.client()
