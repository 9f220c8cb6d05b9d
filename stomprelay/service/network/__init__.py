"""Endpoints to listen on and to connect to, their certificates, and why connections fail, in words."""
