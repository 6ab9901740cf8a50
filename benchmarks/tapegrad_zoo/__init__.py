"""The zoo: whole programs as users write them, with an expert's version for each other library."""
