"""Whole functions as programs: TensorFlow's `tf.function`."""
