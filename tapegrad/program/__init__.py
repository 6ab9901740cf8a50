"""Record functions and replay them as optimised programs, like TensorFlow's `tf.function`."""
