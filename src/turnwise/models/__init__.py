"""Requests of metrics, backends of models, and packs. Import from the modules."""
