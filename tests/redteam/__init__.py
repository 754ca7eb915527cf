"""Attack what turnwise keeps on disk, and count the harm."""
