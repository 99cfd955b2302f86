"""Servers, telemetry and jobs, and what the adapters for frameworks share."""
