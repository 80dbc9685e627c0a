"""Scenes whose lens is known exactly."""
