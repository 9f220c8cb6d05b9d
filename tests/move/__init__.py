"""Tests of what moves between brokers."""
