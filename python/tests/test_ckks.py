import pickle

import numpy as np
import pytest

import tobari
from tobari import ckks


@pytest.fixture(scope="module")
def secret():
    return ckks.SecretKey(ckks.Parameters("ckks-b"))


@pytest.fixture(scope="module")
def keys(secret):
    return secret.evaluation_keys(rotations=[1], level=6)


@pytest.fixture
def vectors():
    return np.random.default_rng(2).uniform(-1, 1, size=(2, 16_384))


def near(found, expected, bits=25):
    assert np.abs(found - expected).max() < 2.0**-bits


def test_every_slot_is_near_that_of_numpy(secret, keys, vectors):
    a, b = vectors
    x, y = secret.encrypt(a, level=6), secret.public_key().encrypt(b, level=6)
    cases = {
        "x": (x, a),
        "x + y": (x + y, a + b),
        "x - y": (x - y, a - b),
        "-x": (-x, -a),
        "x + array": (x + b, a + b),
        "array - x": (b - x, b - a),
        "x + 0.25": (x + 0.25, a + 0.25),
        "1 - x": (1 - x, 1 - a),
        "x * 3": (x * 3, a * 3),
        "x * 0.3": (x * 0.3, a * 0.3),
        "x * array": (x * b, a * b),
        "array * x": (b * x, a * b),
        "x y": (keys.mul(x, y), a * b),
        "rotated": (keys.rotate(x, 1), np.roll(a, -1)),
        "polynomial": (keys.polynomial(x, [0.5, 0.25, 0, -1 / 48]), 0.5 + 0.25 * a - a**3 / 48),
    }
    for name, (found, expected) in cases.items():
        error = np.abs(secret.decrypt(found) - expected).max()
        assert error < 2.0**-25, (name, error)


def test_products_with_plain_vectors_keep_the_scale_so_that_results_add_up(secret, keys, vectors):
    a, b = vectors
    x = secret.encrypt(a, level=4)
    product = x * b
    assert product.level == 3 and product.scale == x.scale
    near(secret.decrypt(product + x), a * b + a)
    near(secret.decrypt(x.with_keys(keys) ** 3), a**3)
    near(secret.decrypt(x / 3), a / 3)
    square = keys.mul(x, x)
    assert square.scale != x.scale
    for sum, expected in [(square + x, a * a + a), (x + square, a * a + a), (x - square, a - a * a)]:
        assert sum.level == 3
        near(secret.decrypt(sum), expected)
    near(secret.decrypt(square.with_scale_of(x) + x), a * a + a)
    # at one level the sum takes another
    assert (x.to_level(3) + square).level == 2
    low = secret.encrypt(a / 4, level=2, range=0.25)
    with pytest.raises(tobari.Error, match="level 2 or more, found level 1"):
        low.to_level(1) + keys.mul(low, low)


def test_a_mean_and_a_variance(secret):
    """The first program of many people."""
    numbers = np.random.default_rng(5).uniform(0, 100, 1000)
    keys = secret.evaluation_keys(sums=1024, level=8)
    x = secret.encrypt(numbers, level=8, range=100)
    mean = keys.sum(x, 1024) * (1 / 1000)
    variance = keys.dot(x, x, 1024) * (1 / 1000) - keys.mul(mean, mean)
    assert abs(secret.decrypt(mean)[0] - numbers.mean()) < 1e-6
    assert abs(secret.decrypt(variance)[0] - numbers.var()) < 1e-4
    # the same by operators
    x = x.with_keys(keys)
    deviation = x - x.sum() / 1000
    assert abs(secret.decrypt((deviation**2).sum() / 1000)[0] - numbers.var()) < 1e-4
    with pytest.raises(tobari.Error, match="power of two"):
        keys.sum(x, 1000)
    with pytest.raises(tobari.Error, match="rotation by 1024"):
        keys.sum(x, 2048)
    for count in (0, 16_385):
        with pytest.raises(tobari.Error, match="1 to 16384 slots"):
            secret.evaluation_keys(sums=count)


def test_objects_come_back_from_their_bytes(secret, keys):
    parameters = ckks.Parameters("ckks-b")
    again = ckks.SecretKey.from_bytes(parameters, secret.to_bytes())
    public = ckks.PublicKey.from_bytes(parameters, secret.public_key().to_bytes())
    server = ckks.EvaluationKeys.from_bytes(parameters, keys.to_bytes())
    x = secret.encrypt([0.5, -2], level=3, range=2)
    for data in (x.to_bytes(), (x + 0).to_bytes()):
        read = ckks.Ciphertext.from_bytes(parameters, data, range=2)
        assert read.to_bytes() == data
        near(again.decrypt(server.mul(read, public.encrypt([4, 5], level=4, range=5)), count=2), [2, -10])
        unknown = ckks.Ciphertext.from_bytes(parameters, data)
        assert unknown.magnitude is None and unknown.error is None
        near(again.decrypt(unknown, count=3), [0.5, -2, 0.5])
        with pytest.raises(tobari.Error, match="declare their range"):
            unknown + unknown
    with pytest.raises(tobari.DecodeError):
        ckks.Ciphertext.from_bytes(parameters, x.to_bytes()[:-1])
    with pytest.raises(tobari.DecodeError):
        ckks.Ciphertext.from_bytes(ckks.Parameters("ckks-a"), x.to_bytes())


def test_what_might_exceed_the_modulus_is_refused_and_so_are_numbers_beyond_their_range(secret, keys):
    with pytest.raises(tobari.Error, match="declared range"):
        secret.encrypt([1.5])
    x = secret.encrypt([1.5], level=6, range=1.5)
    assert x.magnitude == 1.5 and 0 < x.error < 2.0**-25
    # 1.5 times 2^25, at a level with one bit of room
    last = secret.encrypt([0.75] * 16_384, level=1, range=0.75)
    with pytest.raises(tobari.Error, match="higher level"):
        last * 2**25
    with pytest.raises(tobari.Error, match="higher level"):
        last + last
    near(secret.decrypt(last), [0.75] * 16_384)


def test_slots_behind_a_vector_stay_zero_so_that_sums_are_right(secret):
    keys = secret.evaluation_keys(sums=8, level=6)
    a = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    x, one = secret.encrypt(a, level=6, keys=keys), secret.encrypt(0.5, level=6, keys=keys)
    for found, expected in [
        (x + 1, a + 1),
        (1 - x, 1 - a),
        (x + one, a + 0.5),
        (one - x, 0.5 - a),
        (x * x + 1, a * a + 1),
        (x * one - one, a * 0.5 - 0.5),
        ((x + 1) ** 2, (a + 1) ** 2),
        (x.polynomial([1, 0.5, 0.25]), 1 + a / 2 + a * a / 4),
        (x + np.array([2]), a + 2),
        (one + a, a + 0.5),
    ]:
        assert found.shape == (5,)
        near(secret.decrypt(found), expected)
        near(secret.decrypt(found.sum()), [expected.sum()])
        near(secret.decrypt(found, count=8)[5:], [0, 0, 0])
    near(secret.decrypt(x - x.sum()), a - a.sum())
    for wrong in (lambda: x + [1, 2], lambda: x * [1, 2], lambda: x + secret.encrypt([1, 0.5]), lambda: x * secret.encrypt([1] * 8)):
        with pytest.raises(tobari.Error, match="two equal shapes"):
            wrong()
    for wrong in (lambda: x / 0, lambda: x / [1, 1, 0, 1, 1], lambda: x / x, lambda: 1 / x, lambda: 2**x, lambda: x**0, lambda: x**2.5, lambda: x**-1):
        with pytest.raises((tobari.Error, TypeError, OverflowError)):
            wrong()
    with pytest.raises(tobari.Error, match="sums=16"):
        secret.encrypt([0.1] * 9, level=6, keys=keys).sum()


def test_products_with_matrices_are_those_of_numpy(secret):
    rng = np.random.default_rng(4)
    for n, m in [(1, 1), (5, 5), (8, 3), (3, 8), (20, 1), (33, 7)]:
        keys = secret.evaluation_keys(matrices=[(n, m)], multiply=False, level=3)
        matrix, vector = rng.uniform(-1, 1, (n, m)), rng.uniform(-1, 1, n)
        x = secret.encrypt(vector, level=3, keys=keys)
        for found in (x @ matrix, matrix.T @ x, x.dot(matrix)):
            assert found.shape == (m,)
            near(secret.decrypt(found), vector @ matrix)
    with pytest.raises(tobari.Error, match=r"matrices=\[\(33, 65\)\]"):
        x @ rng.uniform(0, 1, (33, 65))
    a, b, v = rng.uniform(-1, 1, (5, 6)), rng.uniform(-1, 1, (6, 3)), rng.uniform(-1, 1, 6)
    keys = secret.evaluation_keys(matrices=[(5, 6, 3), (5, 6, 1), (6, 64)], sums=64, level=4)
    x, y = secret.encrypt(a, level=4, keys=keys), secret.encrypt(v, level=4, keys=keys)
    for found, expected in [
        (x + a, a + a),
        (x * a, a * a),
        (x * x, a * a),
        (x @ b, a @ b),
        (x @ v, a @ v),
        (x @ y, a @ v),
        (y @ y, np.array([v @ v])),
        (y @ v, np.array([v @ v])),
        (x.sum(), np.array([a.sum()])),
        (x.sum(axis=1), a.sum(axis=1)),
    ]:
        assert secret.decrypt(found).shape == expected.shape
        near(secret.decrypt(found), expected)


def test_complex_numbers(secret):
    keys = secret.evaluation_keys(conjugate=True, sums=4, level=4)
    z = np.array([1 + 2j, -0.5j, 0.25])
    x = secret.encrypt(z, level=4, range=3, keys=keys)
    for found, expected in [
        (x, z),
        (x + 1j, z + 1j),
        (x * (1 - 1j), z * (1 - 1j)),
        (x * z, z * z),
        (x * x, z * z),
        (x.conjugate(), z.conj()),
        (x * x.conjugate(), z * z.conj()),
        (x.sum(), np.array([z.sum()])),
        (x + [1, 2, 3], z + [1, 2, 3]),
    ]:
        assert secret.decrypt(found).dtype == complex
        near(secret.decrypt(found), expected)
    read = ckks.Ciphertext.from_bytes(ckks.Parameters("ckks-b"), x.to_bytes(), shape=[3], complex=True)
    near(secret.decrypt(read), z)
    with pytest.raises(tobari.Error, match="conjugate=True"):
        x.with_keys(secret.evaluation_keys()).conjugate()
    with pytest.raises(tobari.Error, match="real numbers"):
        secret.decrypt(x, bits=3)


def test_parameters_are_made_for_a_depth_and_a_precision():
    for options in ({"depth": 1}, {"depth": 3, "precision": 20}, {"depth": 2, "precision": 10, "range": 1000}, {"depth": 1, "slots": 5000}):
        parameters = ckks.Parameters(**options)
        assert parameters.security_bits >= 128 and parameters.slots >= options.get("slots", 1)
        assert ckks.Parameters(parameters.name) == parameters
        secret = ckks.SecretKey(parameters)
        a = np.random.default_rng(3).uniform(-1, 1, options.get("slots", 100))
        x = secret.public_key().encrypt(a, keys=secret.evaluation_keys())
        for _ in range(options["depth"]):
            x = x * x
        assert x.error <= 2.0 ** -options.get("precision", 16) * 1.05
        near(secret.decrypt(x), a ** 2 ** options["depth"], options.get("precision", 16))
    # the last level, after all products, holds numbers of the declared range
    parameters = ckks.Parameters(depth=1, range=1e6)
    large = ckks.SecretKey(parameters).encrypt([1e6], level=parameters.levels - 1, range=1e6)
    assert large.magnitude == 1e6
    for wrong, text in [
        ({"depth": 90}, "reduce the depth"),
        ({"depth": 2, "precision": 50}, "precision of at most 2"),
        ({"depth": 1, "slots": 40_000}, "at most 32768 slots"),
        ({"depth": 1, "range": -1}, "range above 0"),
        ({"name": "ckks-a", "depth": 1}, "found both"),
        ({"name": "ckks:12:50,50:50:2"}, "at most 106 bits"),
        ({"name": "bgv-65537:14:50,50:50:2"}, "approximate numbers"),
    ]:
        with pytest.raises(tobari.Error, match=text):
            ckks.Parameters(**wrong)


def test_large_scales_take_as_many_primes_as_they_have():
    secret = ckks.SecretKey(ckks.Parameters("ckks-flood"))
    x = secret.encrypt([0.5, -0.25, 0.125], scale_bits=100, keys=secret.evaluation_keys())
    result = x * x
    assert abs(np.log2(result.scale) - 100) < 0.01 and result.level == x.level - 2
    near(secret.decrypt(result), [0.25, 0.0625, 0.015625], 40)


def test_operators_without_keys_say_where_keys_go(secret, keys):
    x = secret.encrypt([0.5, 1], level=4)
    for wrong in (lambda: x * x, lambda: x**2, lambda: x @ [1, 2], lambda: x.sum(), lambda: x.polynomial([1, 2]), lambda: x.conjugate()):
        with pytest.raises(tobari.Error, match="give keys= to encrypt"):
            wrong()
    other = ckks.SecretKey(ckks.Parameters("ckks-b")).evaluation_keys(level=4)
    with pytest.raises(tobari.Error, match="one of key"):
        x.with_keys(other) * x
    with pytest.raises(tobari.Error, match="ckks-b.*ckks-a"):
        x.with_keys(ckks.SecretKey(ckks.Parameters("ckks-a")).evaluation_keys())


def test_another_key_decrypts_nothing(secret):
    other = ckks.SecretKey(ckks.Parameters("ckks-b"))
    for level in (1, 2, 13):
        with pytest.raises(tobari.Error, match="one of key"):
            other.decrypt(secret.encrypt([0.5], level=level))


def test_rounded_results_have_so_many_bits(secret):
    x = secret.encrypt([1.26, -0.5, 3], level=2, range=3)
    assert secret.decrypt(x, count=4, bits=2).tolist() == [1.25, -0.5, 3, 0]
    with pytest.raises(tobari.Error):
        secret.decrypt(x, bits=53)


@pytest.mark.parametrize("values", [[float("nan")], [float("inf")], [1e300], ["a"], [[[1.0]]], np.zeros(16_385), [complex("nan")], []])
def test_what_is_no_vector_of_numbers_that_fit_is_refused(secret, values):
    with pytest.raises(tobari.Error):
        secret.encrypt(values, level=1)


def test_the_last_level_has_no_products(secret):
    x = secret.encrypt([0.25], level=1, range=0.25)
    for factor in (0.5, [0.5]):
        with pytest.raises(tobari.Error):
            x * factor
    assert secret.decrypt(x * 2, count=1).round(6) == [0.5]
    with pytest.raises(tobari.Error, match="level 1 holds"):
        x * 4
    for level in (0, 14):
        with pytest.raises(tobari.Error):
            secret.encrypt([1], level=level)


def test_secrets_are_neither_printed_nor_pickled(secret):
    assert repr(secret) == "<ckks.SecretKey of ckks-b>"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_encrypted_numbers_are_not_compared_in_silence(secret):
    x = secret.encrypt([1])
    for compare in (
        lambda: x == 1,
        lambda: 1 == x,
        lambda: x != x,
        lambda: x < x,
        lambda: np.array([1]) == x,
        lambda: bool(x),
        lambda: not x,
    ):
        with pytest.raises(tobari.Error, match="are hidden"):
            compare()
    assert x is not None and {x: 1}[x] == 1


def test_long_histories_are_those_of_numpy_and_leave_the_padding_alone():
    """As for exact vectors: every slot after every step, until a level or the modulus is at its end."""
    parameters = ckks.Parameters(depth=4, precision=8, range=2.0**20)
    secret = ckks.SecretKey(parameters)
    keys = secret.evaluation_keys(sums=16, matrices=[(3, 5), (5, 3)])
    rng = np.random.default_rng(9)
    done, refused = set(), 0
    for shape in [(1,), (3,), (5,), (8,), (13,), (2, 3), (4, 4), (5, 2)] * 3:
        expected = rng.uniform(-1, 1, shape)
        x = secret.encrypt(expected, keys=keys)
        for _ in range(8):
            other, one = rng.uniform(-1, 1, shape), float(rng.uniform(-1, 1))
            steps = {
                "+ array": (lambda: x + other, expected + other),
                "number -": (lambda: one - x, one - expected),
                "* number": (lambda: x * one, expected * one),
                "* array": (lambda: other * x, expected * other),
                "- ciphertext": (lambda: x - secret.encrypt(other), expected - other),
                "encrypted number -": (lambda: secret.encrypt(one) - x, one - expected),
                "* ciphertext": (lambda: x * secret.encrypt(other), expected * other),
                "polynomial": (lambda: x.polynomial([1, 0.5, 0.25]), 1 + expected / 2 + expected**2 / 4),
                "- sum": (lambda: x - x.sum(), expected - expected.sum()),
            }
            if expected.shape in [(3,), (5,)]:
                matrix = rng.uniform(-1, 1, (len(expected), 8 - len(expected)))
                steps["@"] = (lambda: x @ matrix, expected @ matrix)
            name = sorted(steps)[rng.integers(len(steps))]
            operation, result = steps[name]
            try:
                x, expected = operation(), result
            except tobari.Error as error:
                assert "level" in str(error), (name, error)
                refused += 1
                break
            shape = expected.shape
            padded = [1 << (length - 1).bit_length() for length in shape]
            slots = np.zeros(padded)
            slots[tuple(slice(length) for length in shape)] = expected
            repeated = np.tile(slots.ravel(order="F"), parameters.slots // slots.size)
            found = secret.decrypt(x, count=parameters.slots)
            assert x.shape == shape and np.abs(found - repeated).max() <= x.error, name
            done.add(name)
    assert len(done) == 10 and refused > 3, (done, refused)


def test_a_flooded_result_is_within_its_error_and_a_budget_ends():
    secret = ckks.SecretKey(ckks.Parameters("ckks-flood"))
    keys = secret.evaluation_keys(sums=4)
    numbers = np.array([0.5, -0.25, 1.0, 0.75])
    x = secret.encrypt(numbers, scale_bits=100, keys=keys)
    results = [(x * x, numbers**2), ((x * x).sum() / 4, [(numbers**2).sum() / 4])]
    budget = ckks.FloodBudget(secret, max(y.noise_bits for y, _ in results), results=3)
    assert (budget.left, budget.security_bits) == (3, 40) and budget.flood_bits > budget.noise_bits + 50
    for y, expected in results:
        shown = secret.decrypt(y, flood=budget)
        assert 0 < np.abs(shown - expected).max() < budget.error(y) < 0.05
    assert (secret.decrypt(x, flood=budget) != secret.decrypt(x)).all()
    with pytest.raises(tobari.Error, match="spent"):
        secret.decrypt(x, flood=budget)
    with pytest.raises(tobari.Error, match="found both"):
        secret.decrypt(x, flood=budget, bits=3)
    with pytest.raises(tobari.Error, match="found None"):
        ckks.FloodBudget(secret, ckks.Ciphertext.from_bytes(ckks.Parameters("ckks-flood"), x.to_bytes()).noise_bits)
    # more noise, less scale, bytes without bounds, and another key
    small = ckks.FloodBudget(secret, x.noise_bits)
    for y, why in [
        (x * x * 3, "noise of at most"),
        (secret.encrypt(numbers, scale_bits=50), "flooding below the numbers"),
        (ckks.Ciphertext.from_bytes(ckks.Parameters("ckks-flood"), x.to_bytes()), "nothing is known"),
        (ckks.SecretKey(ckks.Parameters("ckks-flood")).encrypt(numbers, scale_bits=100), "expected an object of key"),
    ]:
        with pytest.raises(tobari.Error, match=why):
            secret.decrypt(y, flood=small)
    assert small.left == 1000
    small.spend(1000)
    with pytest.raises(tobari.Error, match="spent"):
        secret.decrypt(x, flood=small)


def test_a_server_hides_how_it_computed(secret, keys):
    x = secret.encrypt([0.5, -0.25, 1.0])
    y = x + x
    public, bits = secret.public_key(), y.noise_bits + 10
    flooded = [y.flood(public, bits) for _ in range(2)]
    shown = [secret.decrypt(one) for one in flooded]
    assert not (shown[0] == shown[1]).any(), "fresh errors"
    for one, numbers in zip(flooded, shown):
        assert one.shape == (3,) and one.error > 100 * y.error
        assert np.abs(numbers - [1.0, -0.5, 2.0]).max() < one.error
    with pytest.raises(tobari.Error, match="as large as|scale from 1"):
        y.flood(public, 1000)
    with pytest.raises(tobari.Error, match="expected an object of key"):
        y.flood(ckks.SecretKey(ckks.Parameters(secret_set(secret))).public_key(), bits)


def secret_set(secret):
    return repr(secret).split(" of ")[1].rstrip(">")


def test_what_everybody_can_read_is_not_sent(secret):
    x = secret.encrypt([0.5, 1.0])
    for zero in (x - x, x * 0):
        assert zero.is_transparent and np.abs(secret.decrypt(zero)).max() < 1e-6
        with pytest.raises(tobari.Error, match="transparent"):
            zero.to_bytes()
    assert not x.is_transparent and (x - x + x).to_bytes()
