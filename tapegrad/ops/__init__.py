"""The primitives, by family, and the functions composed of them."""
