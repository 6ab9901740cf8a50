"""One program for all sizes: recordings that differ in sizes only become a template."""
