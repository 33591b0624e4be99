"""Bytes to messages, and what broker, worker and client decide: no socket, no clock, no array mathematics."""
