"""tf.image: similarity, edges and non-maximum suppression."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

import tapegrad as tf

RNG = np.random.default_rng(0)
X, Y = RNG.uniform(size=(2, 2, 24, 26, 3)).astype("float32")


def gaussian_means(x, size, sigma):
    """Local means of one channel inside the image, by SciPy."""
    radius = size // 2
    blurred = ndimage.gaussian_filter(
        x.astype("float64"), sigma, truncate=radius / sigma, axes=(0, 1)
    )
    return blurred[radius:-radius, radius:-radius]


def ssim_by_scipy(x, y, largest=1.0):
    c1, c2 = (0.01 * largest) ** 2, (0.03 * largest) ** 2
    mx, my = gaussian_means(x, 11, 1.5), gaussian_means(y, 11, 1.5)
    xx, yy, xy = (gaussian_means(a, 11, 1.5) for a in (x * x, y * y, x * y))
    light = (2 * mx * my + c1) / (mx**2 + my**2 + c1)
    return light * (2 * (xy - mx * my) + c2) / (xx - mx**2 + yy - my**2 + c2)


def test_ssim_agrees_with_gaussian_filters_of_scipy():
    want = np.array([ssim_by_scipy(a.astype("f8"), b.astype("f8")) for a, b in zip(X, Y)])

    np.testing.assert_allclose(tf.image.ssim(X, Y, 1.0).numpy(), want.mean((1, 2, 3)), rtol=1e-4)
    index = tf.image.ssim(X, Y, 1.0, return_index_map=True).numpy()
    np.testing.assert_allclose(index, want.mean(-1), rtol=1e-3, atol=1e-5)


def test_equal_images_have_similarity_one():
    large = RNG.uniform(size=(176, 180, 1)).astype("float32")

    assert float(tf.image.ssim_multiscale(large, large, 1.0)) == pytest.approx(1.0)
    noisy = large + 0.2 * RNG.normal(size=large.shape).astype("float32")
    assert 0.2 < float(tf.image.ssim_multiscale(large, noisy, 1.0)) < 0.98
    with np.errstate(divide="ignore"):
        assert np.isinf(tf.image.psnr(X, X, 1.0).numpy()).all()


def test_bytes_are_compared_in_their_range():
    a, b = (np.round(z * 255).astype("uint8") for z in (X, Y))
    x, y = a / np.float32(255), b / np.float32(255)

    for measure in (tf.image.psnr, tf.image.ssim):
        np.testing.assert_allclose(
            measure(a, b, 255).numpy(), measure(x, y, 1.0).numpy(), rtol=1e-5
        )
    mse = ((x.astype("f8") - y) ** 2).mean((1, 2, 3))
    np.testing.assert_allclose(tf.image.psnr(a, b, 255).numpy(), -10 * np.log10(mse), rtol=1e-5)


def test_one_image_is_compared_with_each_of_a_batch():
    both = tf.image.ssim(X, Y[0], 1.0).numpy()

    np.testing.assert_allclose(both[1], tf.image.ssim(X[1], Y[0], 1.0).numpy(), rtol=1e-5)


def test_a_loss_of_ssim_improves_an_image_in_a_recorded_function():
    target, image = tf.constant(X[0]), tf.Variable(Y[0])

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = 1.0 - tf.image.ssim(image, target, 1.0)
        image.assign_sub(100.0 * tape.gradient(loss, image))
        return loss

    losses = [float(step()) for _ in range(12)]

    assert losses[-1] < 0.8 * losses[0]


def test_total_variation_and_gradients_are_differences():
    x = X.astype("float64")

    want = np.abs(np.diff(x, axis=1)).sum((1, 2, 3)) + np.abs(np.diff(x, axis=2)).sum((1, 2, 3))

    np.testing.assert_allclose(tf.image.total_variation(x).numpy(), want, rtol=1e-12)
    assert tf.image.total_variation(x[0]).shape == ()
    down, across = tf.image.image_gradients(x)
    np.testing.assert_array_equal(down.numpy()[:, :-1], np.diff(x, axis=1))
    np.testing.assert_array_equal(across.numpy()[:, :, :-1], np.diff(x, axis=2))
    assert not down.numpy()[:, -1].any()
    assert not across.numpy()[:, :, -1].any()


def test_sobel_edges_agree_with_scipy():
    y = tf.image.sobel_edges(X.astype("float64")).numpy()

    for k in (0, 1):
        want = np.stack(
            [
                [ndimage.sobel(X[b, ..., c].astype("f8"), axis=k, mode="mirror") for c in range(3)]
                for b in range(2)
            ]
        )
        np.testing.assert_allclose(y[..., k], np.moveaxis(want, 1, -1), atol=1e-12)


def iou(a, b):
    side = [max(0.0, min(a[k + 2], b[k + 2]) - max(a[k], b[k])) for k in (0, 1)]
    area = [(c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)]
    return side[0] * side[1] / (sum(area) - side[0] * side[1])


def greedy(boxes, scores, most, overlap, least=-np.inf):
    chosen = []
    for k in sorted(range(len(scores)), key=lambda k: -scores[k]):
        if scores[k] > least and all(iou(boxes[k], boxes[j]) <= overlap for j in chosen):
            chosen.append(k)
    return chosen[:most]


def random_boxes(count):
    corners = RNG.uniform(0.0, 0.6, size=(count, 2))
    return np.concatenate([corners, corners + RNG.uniform(0.1, 0.4, size=(count, 2))], 1)


@pytest.mark.parametrize(("overlap", "least"), [(0.5, -np.inf), (0.2, 0.3), (0.0, 0.5)])
def test_suppression_is_greedy(overlap, least):
    boxes, scores = random_boxes(40), RNG.permutation(40) / 40
    want = greedy(boxes, scores, 10, overlap, least)

    found = tf.image.non_max_suppression(boxes, scores, 10, overlap, least)

    assert found.dtype == tf.int32
    assert found.numpy().tolist() == want
    flipped = boxes[:, [2, 3, 0, 1]]  # the other diagonal
    again = tf.image.non_max_suppression(flipped, scores, 10, overlap, least)
    assert again.numpy().tolist() == want
    matrix = [[iou(a, b) for a in boxes] for b in boxes]
    by_matrix = tf.image.non_max_suppression_overlaps(matrix, scores, 10, overlap, least)
    assert by_matrix.numpy().tolist() == want
    padded, count = tf.image.non_max_suppression_padded(boxes, scores, 30, overlap, least, True)
    assert padded.shape == (30,)
    assert padded.numpy()[: int(count)].tolist() == greedy(boxes, scores, 30, overlap, least)


def test_soft_suppression_lowers_scores():
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.8], [0.0, 0.0, 0.5, 1.0]])
    scores = np.array([0.9, 0.8, 0.7])
    second = 0.7 * np.exp(-(0.5**2) / 1.0)
    third = 0.8 * np.exp(-(0.8**2) / 1.0) * np.exp(-((0.4 / 0.9) ** 2) / 1.0)

    found, kept = tf.image.non_max_suppression_with_scores(
        boxes, scores, 3, 1.0, soft_nms_sigma=0.5
    )

    assert found.numpy().tolist() == [0, 2, 1]
    np.testing.assert_allclose(kept.numpy(), [0.9, second, third], rtol=1e-6)


def test_combined_suppression_keeps_the_best_of_all_classes():
    boxes, scores = random_boxes(12), RNG.permutation(24).reshape(1, 12, 2) / 24
    rows = [
        (scores[0, k, label], label, k)
        for label in (0, 1)
        for k in greedy(boxes, scores[0, :, label], 3, 0.3, 0.1)
    ]
    rows = sorted(rows, reverse=True)[:4]

    found = tf.image.combined_non_max_suppression(boxes[None, :, None], scores, 3, 4, 0.3, 0.1)

    count = int(found.valid_detections[0])
    assert count == len(rows)
    np.testing.assert_allclose(found.nmsed_scores.numpy()[0, :count], [r[0] for r in rows])
    assert found.nmsed_classes.numpy()[0, :count].tolist() == [r[1] for r in rows]
    np.testing.assert_allclose(found.nmsed_boxes.numpy()[0, :count], boxes[[r[2] for r in rows]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tf.image.ssim(X, Y[:, :20], 1.0), "one height"),
        (lambda: tf.image.ssim(X[:, :8], Y[:, :8], 1.0), "at least 11 x 11 pixels"),
        (lambda: tf.image.psnr(tf.constant(X), tf.cast(Y, "float64"), 1.0), "one dtype"),
        (lambda: tf.image.ssim_multiscale(X, Y, 1.0, ()), "at least one power factor"),
        (lambda: tf.image.sobel_edges(X[0]), "batch, height"),
        (lambda: tf.image.non_max_suppression([[1.0, 2.0]], [1.0], 1), "boxes of shape"),
        (lambda: tf.image.non_max_suppression(random_boxes(1), [1.0], 1, 2.0), "from 0 to 1"),
        (lambda: tf.image.non_max_suppression(random_boxes(1), [1.0], -1), "at least 0"),
    ],
)
def test_wrong_arguments_are_refused_in_sentences(call, words):
    with pytest.raises(ValueError, match=words):
        call()
