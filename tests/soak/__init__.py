"""Long training with changes, dropped references, exceptions and reloads: nothing may grow."""
