"""One program per file, in a folder per family."""
