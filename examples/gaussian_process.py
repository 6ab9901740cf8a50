"""Fit a Gaussian process to noisy points, its hyperparameters by gradient descent.

The data are drawn in this program from a Gaussian process whose length scale, amplitude and noise
are known, so the fit can be held against the truth. What is minimized is the negative logarithm of
the marginal likelihood; its gradient passes through a Cholesky factor.

From 400 points the length scale comes out as 0.483 (0.5 is true), the amplitude as 1.409 (1.5) and
the noise as 0.188 (0.2). At 100 places that were held out the mean is off by 0.046, of a function
with a standard deviation of 1.19. The short form has 80 points: 0.583, 1.804, 0.185 and 0.135.
"""

import argparse

import numpy as np

import tapegrad as tf

TRUE = {"length scale": 0.5, "amplitude": 1.5, "noise": 0.2}


def kernel(a, b, length, amplitude):
    """The squared exponential covariance between two sets of points on a line."""
    distance = (a[:, tf.newaxis] - b[tf.newaxis, :]) / length
    return amplitude**2 * tf.exp(-0.5 * distance**2)


def noisy_factor(x, length, amplitude, noise):
    """The Cholesky factor of the covariance of noisy observations."""
    covariance = kernel(x, x, length, amplitude)
    return tf.linalg.cholesky(covariance + noise**2 * tf.eye(x.shape[0], dtype=x.dtype))


def negative_log_likelihood(x, y, length, amplitude, noise):
    factor = noisy_factor(x, length, amplitude, noise)
    # y' K^-1 y is the squared length of L^-1 y, and log|K| is twice the sum of log diag L.
    whitened = tf.linalg.triangular_solve(factor, y[:, tf.newaxis])
    fit = 0.5 * tf.reduce_sum(whitened**2)
    volume = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
    return fit + volume + 0.5 * x.shape[0] * np.log(2 * np.pi)


def predict(x, y, where, length, amplitude, noise):
    """The mean and the standard deviation of the process, given the observations."""
    factor = noisy_factor(x, length, amplitude, noise)
    cross = tf.linalg.triangular_solve(factor, kernel(x, where, length, amplitude))
    whitened = tf.linalg.triangular_solve(factor, y[:, tf.newaxis])
    mean = tf.reduce_sum(cross * whitened, axis=0)
    variance = amplitude**2 - tf.reduce_sum(cross**2, axis=0)
    return mean, tf.sqrt(tf.maximum(variance, 0.0))


def draw_data(count, held_out, seed):
    """Noisy observations, and places between them with the true values of the function."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, count + held_out)
    covariance = kernel(tf.constant(x), tf.constant(x), TRUE["length scale"], TRUE["amplitude"])
    factor = np.linalg.cholesky(covariance.numpy() + 1e-9 * np.eye(len(x)))
    values = factor @ rng.normal(size=len(x))
    y = values[:count] + TRUE["noise"] * rng.normal(size=count)
    return [tf.constant(array) for array in (x[:count], y, x[count:], values[count:])]


def main(short: bool = False):
    count, steps = (80, 150) if short else (400, 300)
    x, y, places, values = draw_data(count, held_out=100, seed=3)
    # Logarithms keep all three positive, whatever the optimizer does.
    logs = {name: tf.Variable(0.0, dtype=tf.float64, name=name) for name in TRUE}
    optimizer = tf.optimizers.Adam(learning_rate=0.05)

    def hyperparameters():
        return [tf.exp(log) for log in logs.values()]

    @tf.function
    def train_step():
        with tf.GradientTape() as tape:
            loss = negative_log_likelihood(x, y, *hyperparameters())
        gradients = tape.gradient(loss, list(logs.values()))
        optimizer.apply_gradients(zip(gradients, logs.values()))
        return loss

    for step in range(steps):
        loss = train_step()
        if (step + 1) % (steps // 3) == 0:
            print(f"step {step + 1:4}   negative log likelihood {float(loss):.3f}")

    fitted = [float(value) for value in hyperparameters()]
    for name, value in zip(TRUE, fitted):
        print(f"{name:13} {value:.3f}   true {TRUE[name]}")
    mean, deviation = predict(x, y, places, *fitted)
    miss = (mean - values).numpy()
    result = dict(zip(TRUE, fitted))
    result["loss"] = float(negative_log_likelihood(x, y, *fitted))
    result["loss of the truth"] = float(negative_log_likelihood(x, y, *TRUE.values()))
    result["error"] = float(np.sqrt(np.mean(miss**2)))
    result["inside two deviations"] = float(np.mean(np.abs(miss) < 2 * deviation.numpy()))
    print(
        f"held-out error {result['error']:.3f}, where the function itself has {np.std(values):.2f}"
    )
    print(f"inside two predicted deviations {result['inside two deviations']:.0%}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="learn for a shorter time, and less")
    main(short=parser.parse_args().short)
