"""Images: resizing, cropping, colours, random changes, similarity, edges, boxes.

interpolation.py resamples one axis, sampling.py reads pixels at given coordinates; pixels.py has
the checks and dtypes that the others share. No file declares a primitive: everything is composed
of products, gathers and elementwise functions.
"""
