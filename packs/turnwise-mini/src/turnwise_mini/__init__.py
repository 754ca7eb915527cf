"""Hold the files of the pack turnwise-mini. turnwise finds this folder through the entry point group turnwise.packs."""
