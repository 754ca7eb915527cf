"""One file per published system or family of baselines; `registry` finds them by name."""
