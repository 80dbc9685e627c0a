"""dofnerf's lens and scenes for nerfstudio, found by its entry points (see pyproject.toml)."""
