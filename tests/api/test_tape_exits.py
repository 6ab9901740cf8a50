"""Values that leave a tape or a transform: each way out, the user's line, warnings and options."""

from __future__ import annotations

import array
import copy
import inspect
import logging
import math
import operator
import pickle
import statistics
import warnings

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.errors import TapeExitError, TapeExitWarning
from tests.raw_arrays import raw_arrays

NUMBERS = {
    "float": float,
    "int": int,
    "complex": complex,
    "math.sin": math.sin,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
    "math.fsum": lambda u: math.fsum([u, u]),
    "statistics.fmean": lambda u: statistics.fmean([u, u]),
    "item": lambda u: u.item(),
    "tolist": lambda u: u.tolist(),
    "np.float64": np.float64,
    "setitem": lambda u: operator.setitem(np.zeros(3), 1, u),
    "np.ndarray.fill": lambda u: np.zeros(3).fill(u),
    "np.fromiter": lambda u: np.fromiter([u, u], float),
    "array.array": lambda u: array.array("d", [u]),
    "bytes": bytes,
}
ARRAYS = {
    "np.asarray": np.asarray,
    "np.float32": np.float32,
    "np.array of a list": lambda u: np.array([u, u]),
    "np.full": lambda u: np.full(3, u),
    "np.put": lambda u: np.put(np.zeros(3), [1], u),
    "slice of an array": lambda u: operator.setitem(np.zeros(3), slice(0, 1), u),
    "from_dlpack": lambda u: raw_arrays().from_dlpack(u),
}
ON_PURPOSE = {
    "numpy": lambda u: u.numpy(),
    "numpy_later": lambda u: u.numpy_later().result(),
}
PICKLE = {"pickle": lambda u: pickle.loads(pickle.dumps(u))}
EVERY_WAY = NUMBERS | ARRAYS | PICKLE | ON_PURPOSE


def by_name(ways):
    return pytest.mark.parametrize("leave", ways.values(), ids=ways)


def here(offset):
    """File and line of the caller, `offset` lines further up."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno - offset}"


def seen_in(run):
    """The warnings that `run` gives if none is filtered."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return [str(one.message) for one in seen]


TRANSFORMS = {
    "grad": lambda f, x: tf.grad(f)(x),
    "value_and_grad": lambda f, x: tf.value_and_grad(f)(x),
    "jacobian": lambda f, x: tf.jacobian(f)(x),
    "forward jacobian": lambda f, x: tf.jacobian(f, mode="forward")(x),
    "hessian": lambda f, x: tf.hessian(f)(x),
    "hvp": lambda f, x: tf.hvp(f, x, 1.0),
    "jvp": lambda f, x: tf.jvp(f, [x], [1.0]),
    "vjp": lambda f, x: tf.vjp(f, tf.constant(x))[1](tf.constant(1.0)),
    "grad of checkpoint": lambda f, x: tf.grad(tf.checkpoint(f))(x),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@by_name(NUMBERS | ARRAYS | PICKLE)
def test_a_transform_warns_of_each_way_out_once_per_line(transform, leave):
    def f(x):
        for _ in range(3):
            leave(x * x)
        return x * x

    messages = seen_in(lambda: transform(f, 2.0))

    assert len(messages) == 1
    assert __file__ in messages[0]


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_the_usual_simulation_is_named_with_the_remedy(transform):
    def simulate(k):
        x = np.zeros(5)
        x[0] = 1.0
        for i in range(4):
            x[i + 1] = x[i] - 0.1 * k * x[i]
        simulate.place = here(1)
        return tf.constant(x[-1])

    (message,) = seen_in(lambda: transform(simulate, 2.0))

    assert "became an item of a NumPy array" in message
    assert f"at {simulate.place}, in `x[i + 1] = x[i] - 0.1 * k * x[i]`" in message
    assert "tapegrad.numpy.zeros" in message
    assert "np.stack" in message


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_the_remedies_work_and_are_silent(transform):
    def filled(k):
        x = tnp.zeros(5)
        x[0] = 1.0
        for i in range(4):
            x[i + 1] = x[i] - 0.1 * k * x[i]
        return x[-1]

    def stacked(k):
        x = [1.0]
        for _ in range(4):
            x.append(x[-1] - 0.1 * k * x[-1])
        return np.stack(x)[-1]

    for f in (filled, stacked):
        assert seen_in(lambda f=f: transform(f, 2.0)) == []
        assert float(tf.grad(f)(2.0)) == pytest.approx(-0.4 * 0.8**3)


def test_the_warning_is_at_the_users_line():
    def f(x):
        return x * float(x)

    with pytest.warns(TapeExitWarning) as seen:
        tf.grad(f)(2.0)

    assert seen[0].filename == __file__
    assert seen[0].lineno == f.__code__.co_firstlineno + 1


def test_a_function_of_the_standard_library_is_named():
    def f(x):
        return x * math.sin(x)

    (message,) = seen_in(lambda: tf.grad(f)(2.0))

    assert "left the tape through float() in math.sin()" in message


def show(u):
    """Print, format and log a value in many ways."""
    print(u, float(u), u.item(), u.numpy(), np.asarray(u), f"{u:.3f}", f"{float(u)}")  # noqa: T201
    print([float(v) for v in (u, u)], round(u.item(), 2), "%.3f" % u)  # noqa: T201, UP031
    text = f"{float(u):.2f} {u.tolist()!r}" + "%d %s" % (u, u)  # noqa: UP031
    text += "{:.3f}".format(u.item())  # noqa: UP032
    text += np.array2string(u) + np.array_repr(u) + repr(tnp.poly1d(tnp.stack([u, u])))
    pattern = "%g"
    text += pattern % u + str(float(u)) + repr(u.item())
    logging.getLogger("tapegrad.tests").info("%f %s", u, u)
    logging.info("value %f", float(u))
    logger = logging.getLogger()
    logger.debug("%d", u)
    return text


def branch(u):
    """Decide by a value in many ways."""
    if u > 0 and float(u) > 0.0 and not math.isnan(u):
        assert u.item() != 1.0
    while u.item() < 0.0:
        break
    first = [1.0, 2.0, 3.0, 4.0, 5.0][int(u)]
    return first if bool(u) and np.asarray(u) >= 1.0 else 0.0


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("look", [show, branch])
def test_printing_formatting_logging_and_branching_are_silent(transform, look):
    def f(x):
        look(x * x)
        return x * x

    assert seen_in(lambda: transform(f, 2.0)) == []
    assert float(tf.grad(f)(2.0)) == 4.0


def test_logging_formats_later_than_the_call_and_is_silent(caplog):
    def f(x):
        logging.getLogger().warning("value %.1f", x)
        return x * x

    assert seen_in(lambda: tf.grad(f)(2.0)) == []
    assert "value 2.0" in caplog.text


@by_name(ON_PURPOSE)
def test_leaving_on_purpose_is_silent(leave):
    assert seen_in(lambda: tf.grad(lambda x: x * x * float(leave(x)))(2.0)) == []


def test_copies_stay_on_the_tape():
    def f(x):
        return copy.deepcopy(x) * copy.copy(x)

    assert seen_in(lambda: tf.grad(f)(3.0)) == []
    assert float(tf.grad(f)(3.0)) == 6.0


def test_values_that_nothing_follows_are_silent():
    def f(x):
        return x * float(tf.constant(2.0)) * math.sin(tf.Variable(1, trainable=False))

    assert seen_in(lambda: tf.grad(f)(2.0)) == []


@by_name(NUMBERS | ARRAYS | PICKLE)
@pytest.mark.parametrize("name", [name for name in TRANSFORMS if "checkpoint" not in name])
def test_a_captured_variable_has_no_derivative_to_lose(name, leave):
    rate = tf.Variable(2.0)

    def f(x):
        leave(rate * rate)
        return x * x

    assert seen_in(lambda: TRANSFORMS[name](f, 2.0)) == []


@by_name(NUMBERS | ARRAYS | PICKLE)
def test_the_body_of_a_custom_gradient_may_leave_the_tape(leave):
    @tf.custom_gradient
    def f(x):
        leave(x * x)
        return x * x, lambda upstream: upstream * 7.0

    assert seen_in(lambda: tf.grad(f)(2.0)) == []
    assert float(tf.grad(f)(2.0)) == 7.0


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@by_name(NUMBERS | ARRAYS | PICKLE)
def test_the_option_raises_before_the_derivative_is_lost(transform, leave):
    def f(x):
        leave(x * x)
        return x * x

    with tf.debug.tape_exits("raise"), pytest.raises(TapeExitError, match="that a tape follows"):
        transform(f, 2.0)


@by_name(NUMBERS | ARRAYS | PICKLE)
def test_the_option_silences(leave):
    with tf.debug.tape_exits("ignore"):
        assert seen_in(lambda: tf.grad(lambda x: x * 0.0 + 0.0 * len([leave(x)]))(2.0)) == []


def test_the_option_ends_with_its_block():
    with tf.debug.tape_exits("ignore"), tf.debug.tape_exits("warn"):
        assert len(seen_in(lambda: tf.grad(lambda x: x * float(x))(2.0))) == 1
    assert len(seen_in(lambda: tf.grad(lambda x: x * float(x))(2.0))) == 1


def test_the_option_takes_three_words():
    with pytest.raises(ValueError, match=r"'warn', 'raise' or 'ignore'. Got 'shout'"):
        tf.debug.tape_exits("shout")


def test_warnings_as_errors_reach_the_user_also_through_numpy():
    def f(x):
        a = np.zeros(2)
        a[0] = x
        return x * a[0]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TapeExitWarning, match="an item of a NumPy array"):
            tf.grad(f)(2.0)


def test_a_derivative_that_is_lost_on_purpose_by_mistake_is_reported():
    def f(x):
        return tf.constant(np.sin(x.numpy()))

    (message,) = seen_in(lambda: tf.grad(f)(2.0))
    (other,) = seen_in(lambda: tf.jvp(f, [2.0], [1.0]))

    assert "A gradient is zero" in message
    assert "A tangent is zero" in other
    for text in (message, other):
        assert f"left the tape through numpy() ({__file__}:" in text


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_a_result_that_is_no_tensor_is_refused_with_the_line(transform):
    def f(x):
        return math.sin(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(TypeError, match=r"float\(\) in math.sin\(\)") as caught:
            transform(f, 2.0)

    assert f"{__file__}:{f.__code__.co_firstlineno + 1}" in str(caught.value)


# Tapes


@pytest.mark.filterwarnings("ignore:A tensor that a tape follows")
@by_name(EVERY_WAY)
@pytest.mark.parametrize("persistent", [False, True])
def test_a_tape_notes_each_way_out_with_the_line(leave, persistent):
    x = tf.constant(2.0)
    with tf.GradientTape(persistent) as tape:
        tape.watch(x)
        u = x * x
        leave(u)
        y = tf.constant(1.0)
    reason = tape.explain(y, x)

    assert "left the tape through" in reason
    assert __file__ in reason


@by_name(NUMBERS | PICKLE | ON_PURPOSE)
def test_a_tape_does_not_warn_of_numbers_if_there_is_a_gradient(leave):
    def run():
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            leave(y)
        assert float(tape.gradient(y, x)) == 4.0

    assert seen_in(run) == []


@by_name(ARRAYS)
def test_a_tape_warns_of_conversions_to_arrays_once_per_line(leave):
    def run():
        x = tf.constant(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            for _ in range(3):
                leave(x * x)

    (message,) = seen_in(run)
    assert "A tensor that a tape follows became" in message


@by_name(NUMBERS)
def test_a_gradient_that_is_none_quotes_the_line(leave):
    w = tf.Variable(2.0, name="w")

    def run():
        with tf.GradientTape() as tape:
            leave(w * w)
            y = tf.constant(1.0)
        assert tape.gradient(y, w) is None

    (message,) = seen_in(run)
    assert "A gradient is None" in message
    assert "left the tape through" in message
    assert __file__ in message


def test_a_jacobian_that_is_none_quotes_the_line():
    w = tf.Variable(2.0)

    def run():
        with tf.GradientTape() as tape:
            y = tf.constant([math.sin(w), 2.0])
        assert tape.jacobian(y, w) is None

    (message,) = seen_in(run)
    assert "left the tape through float() in math.sin()" in message


def test_a_gradient_of_zeros_on_request_is_silent():
    w = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.constant(math.sin(w))

    assert float(tape.gradient(y, w, unconnected_gradients="zero")) == 0.0


def test_a_source_that_did_not_leave_is_not_blamed():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        square = v * v
        float(square)
        y = w * 2.0
        z = v * 1.0  # read, but not used
    gradient, other = tape.gradient(z, [v, w])

    assert float(gradient) == 1.0
    assert other is None
    assert y is not None


def test_a_number_as_target_is_refused_with_the_line():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = math.sin(x)
        place = here(1)

    with pytest.raises(TypeError, match="target must hold tensors") as caught:
        tape.gradient(y, x)
    assert f"float() in math.sin() ({place})" in str(caught.value)


def test_an_accumulator_refuses_a_number_with_the_line():
    x = tf.constant(2.0)
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        y = math.sin(x)
        place = here(1)

    with pytest.raises(TypeError, match="primals must hold tensors") as caught:
        accumulator.jvp(y)
    assert f"float() in math.sin() ({place})" in str(caught.value)


def test_an_optimizer_without_gradients_quotes_the_line():
    v = tf.Variable(1.0, name="v")
    with tf.debug.tape_exits("ignore"), pytest.raises(ValueError, match="No gradients") as caught:
        tf.optimizers.SGD().minimize(lambda: tf.constant(math.sin(v)), [v])

    assert f"left the tape through float() in math.sin() ({__file__}:" in str(caught.value)


def test_an_optimizer_with_some_gradients_quotes_the_line():
    v, w = tf.Variable(1.0, name="v"), tf.Variable(1.0, name="w")
    with tf.debug.tape_exits("ignore"), pytest.warns(UserWarning, match="Gradients do") as seen:
        tf.optimizers.SGD().minimize(lambda: w * math.sin(v), [v, w])

    assert f"left the tape through float() in math.sin() ({__file__}:" in str(seen[0].message)


def test_an_optimizer_forgets_the_line_after_a_tape_without_exits():
    v = tf.Variable(1.0, name="v")
    with tf.debug.tape_exits("ignore"):
        for loss in (lambda: tf.constant(math.sin(v)), lambda: 0.0 * tf.stop_gradient(v)):
            with pytest.raises(ValueError, match="No gradients provided") as caught:
                tf.optimizers.SGD().minimize(loss, [v])

    assert "left the tape" not in str(caught.value)


def test_the_line_of_the_user_is_named_not_that_of_a_library():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        statistics.fmean(x * 2.0)
        place = here(1)

    assert f"float() in statistics.fmean() ({place})" in tape.explain(tf.constant(1.0), x)


def test_a_function_of_ours_that_reads_values_is_named():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.range(0.0, x))
        place = here(1)

    assert f"in tf.range() ({place})" in tape.explain(y, x)


def test_a_loop_with_many_exits_keeps_one_entry_per_line():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        for _ in range(1000):
            float(x)
        floor = tf.floor(x)

    assert len(tape.cuts) == 2
    assert "floor has no derivative" in tape.explain(floor, x)


def test_exits_keep_no_computation_alive():
    x = tf.constant(np.ones(3))
    with tf.GradientTape() as tape:
        tape.watch(x)
        u = x * x
        u.tolist()
        node = u.node
        del u
    (cut,) = tape.cuts.values()

    assert cut.nodes[0]() is node
    del node
    assert cut.nodes[0]() is None


@pytest.mark.parametrize("make", [tf.constant, tf.stack, tf.convert_to_tensor, tnp.array])
def test_lists_of_tensors_stay_on_the_tape(make):
    assert float(tf.grad(lambda x: tf.reduce_sum(make([x * x, 3.0 * x])))(2.0)) == 7.0


def test_constant_with_a_shape_stays_on_the_tape():
    assert float(tf.grad(lambda x: tf.reduce_sum(tf.constant(x * x, shape=[3])))(2.0)) == 12.0


def test_a_variable_made_from_a_value_is_explained():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        v = tf.Variable(x * x)
        place = here(1)
        y = v * 2.0

    assert f"became the initial value of a variable ({place})" in tape.explain(y, x)


@pytest.mark.parametrize("make", [tf.range, tnp.arange], ids=["range", "arange"])
def test_a_range_warns_of_the_arguments_that_its_numbers_depend_on(make):
    x = tf.constant(3.0)
    for arguments, count in (((0.0, x, 1.0), 0), ((x, 6.0, 1.0), 1), ((0.0, 6.0, x), 1)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            seen = seen_in(lambda given=arguments: make(*given))
        assert len(seen) == count


@by_name(NUMBERS | ARRAYS | ON_PURPOSE)
def test_inside_vmap_every_way_out_is_refused(leave):
    # CuPy takes any object without DLPack for a capsule that is used up.
    with pytest.raises((TypeError, ValueError)):
        tf.vmap(tf.grad(lambda x: x * 0.0 * len([leave(x)])))(tf.constant([1.0, 2.0]))


VARIABLE_EXITS = {
    "float()": float,
    "int()": int,
    "complex()": complex,
    "item()": lambda v: v.item(),
    "numpy()": lambda v: v.numpy(),
    "numpy_later()": lambda v: v.numpy_later().result(),
    "__array__ or memoryview()": np.asarray,
    "__dlpack__": lambda v: raw_arrays().from_dlpack(v),
    "bytes()": bytes,
}


@pytest.mark.filterwarnings("ignore:A tensor that a tape follows")
@pytest.mark.parametrize("how", VARIABLE_EXITS)
def test_a_variable_that_leaves_is_noted(how):
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = tf.constant(1.0) * len([VARIABLE_EXITS[how](v)])

    assert f"left the tape through {how}" in tape.explain(y, v)
    assert tape.watched_variables() == (v,)
