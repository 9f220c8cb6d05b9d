"""The models of brokers say what the brokers said when they were recorded: see `sim.models`."""

import pytest

from sim.brokers import PRODUCTS, Product
from sim.models import Model, conversations, differences, play_all, recorded


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda each: each.name)
def test_a_model_says_what_its_broker_said(product: Product) -> None:
    """In each recorded conversation, up to what the broker itself does not say the same way twice."""
    found = play_all(conversations(), Model(product))
    assert differences(product, recorded(product.name), found) == {}


@pytest.mark.parametrize("product", PRODUCTS, ids=lambda each: each.name)
def test_a_model_that_differs_is_found(product: Product) -> None:
    """A model of another product differs from what was recorded."""
    other = PRODUCTS[PRODUCTS.index(product) - 1]
    found = play_all(conversations(), Model(other))
    assert len(differences(product, recorded(product.name), found)) > 30
