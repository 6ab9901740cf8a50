"""What `tapegrad demo` runs, and the data for it."""
