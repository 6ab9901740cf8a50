"""Reports of a run: what took the time and the memory, line by line, in one HTML file."""
