"""The program and the data of `tapegrad demo`."""
