"""What a metric may ask of a model, the backends that answer, and the bundled pack. Import from the modules."""
