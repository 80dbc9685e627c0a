"""The virtual lens, and everything that learns one."""
