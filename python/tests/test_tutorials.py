"""What people do first with other libraries of this kind: the steps of TenSEAL's four tutorials, 0, 1, 2 and 4, in as many lines or fewer.

The steps are theirs. The code, the models and the data are not: weights are random, and results are compared with NumPy's.
"""

import numpy as np

from tobari import bgv, ckks, infer


def test_tutorial_0_getting_started():
    secret = bgv.SecretKey(bgv.Parameters(depth=2, modulus=1_032_193))
    keys = secret.evaluation_keys()
    a = np.array([60, 66, 73, 81, 90])
    x = secret.encrypt(a, keys=keys)
    added = x + [1, 2, 3, 4, 5]
    assert secret.decrypt(added).tolist() == [61, 68, 76, 85, 95]
    subtracted = x - [1, 2, 3, 4, 5]
    assert secret.decrypt(subtracted).tolist() == [59, 64, 70, 77, 85]
    assert secret.decrypt(x * [1, 2, 3, 4, 5]).tolist() == [60, 132, 219, 324, 450]
    total = added + subtracted
    assert secret.decrypt(total).tolist() == (2 * a).tolist()
    difference = total - x
    assert secret.decrypt(difference).tolist() == a.tolist()
    product = total * difference
    assert secret.decrypt(product).tolist() == (2 * a * a).tolist()
    assert ((secret.decrypt(product * total) - 4 * a**3) % 1_032_193 == 0).all()


class EncryptedRegression:
    """Logistic regression, with weights and bias that are plain or encrypted."""

    def __init__(self, features):
        self.weight, self.bias = np.full(features, 0.1), 0.0
        self.reset()

    def reset(self):
        self.weight_steps, self.bias_steps, self.count = 0, 0, 0

    def encrypt(self, secret, keys):
        self.weight = secret.encrypt(self.weight, range=2, keys=keys)
        self.bias = secret.encrypt(self.bias, range=2)

    def decrypt(self, secret):
        self.weight, self.bias = secret.decrypt(self.weight), float(secret.decrypt(self.bias)[0])

    def score(self, x):
        return x.dot(self.weight) + self.bias

    def backward(self, x, y):
        error = self.score(x).polynomial([0.5, 0.197, 0, -0.004]) - y
        self.weight_steps += x * error
        self.bias_steps += error
        self.count += 1

    def update(self):
        self.weight -= self.weight_steps * (1 / self.count) + self.weight * 0.05
        self.bias -= self.bias_steps * (1 / self.count)
        self.reset()


def plain_training(x, y, epochs):
    weight, bias = np.full(x.shape[1], 0.1), 0.0
    for _ in range(epochs):
        score = x @ weight + bias
        error = 0.5 + 0.197 * score - 0.004 * score**3 - y
        weight, bias = weight - (x.T @ error / len(x) + weight * 0.05), bias - error.mean()
    return weight, bias


def test_tutorial_1_logistic_regression():
    rng = np.random.default_rng(73)
    x = rng.uniform(-1, 1, (12, 3))
    y = (x[:, 0] + x[:, 1] >= x[:, 2]).astype(float)
    # evaluation: the vectors are encrypted, the model is not
    secret = ckks.SecretKey(ckks.Parameters(depth=1, range=8))
    keys = secret.evaluation_keys(sums=4, multiply=False)
    model = EncryptedRegression(3)
    for one in x:
        score = secret.decrypt(model.score(secret.encrypt(one, keys=keys)))
        assert abs(score[0] - one @ model.weight) < 1e-4
    # training: all is encrypted, and the key holder refreshes the model after each epoch
    secret = ckks.SecretKey(ckks.Parameters(depth=7, precision=10, range=512))
    keys = secret.evaluation_keys(sums=4)
    samples = [(secret.encrypt(one, keys=keys), secret.encrypt(label)) for one, label in zip(x, y)]
    for epoch in (1, 2):
        model.encrypt(secret, keys)
        for sample in samples:
            model.backward(*sample)
        model.update()
        model.decrypt(secret)
        weight, bias = plain_training(x, y, epoch)
        assert np.abs(model.weight - weight).max() < 2e-3 and abs(model.bias - bias) < 2e-3
    assert ((x @ model.weight + model.bias > 0) == (y > 0)).mean() > 0.7


def test_tutorial_2_approximate_numbers():
    secret = ckks.SecretKey(ckks.Parameters(depth=3, precision=14, range=2_000))
    keys = secret.evaluation_keys()
    a, b = np.array([[1, 2], [3, 4]]), np.array([5, 6, 7, 8]).reshape(2, 2)
    x, y = secret.encrypt(a, range=8, keys=keys), secret.encrypt(b, range=8)
    for found, expected in [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x * b, a * b),
        (-x, -a),
        (x**3, a**3),
        (x.polynomial([1, 0, 1, 1]), 1 + a**2 + a**3),
        (x.polynomial([0.5, 0.197, 0, -0.004]), 0.5 + 0.197 * a - 0.004 * a**3),
    ]:
        assert found.shape == (2, 2) and np.abs(secret.decrypt(found) - expected).max() < 0.01


class ConvNet:
    """A convolution with four kernels of 7 x 7, and two layers, with squares between them."""

    def __init__(self):
        rng = np.random.default_rng(73)
        self.kernels, self.kernel_bias = rng.uniform(-1, 1, (49, 4)) / 7, rng.uniform(-1, 1, 4) / 7
        self.first, self.first_bias = rng.uniform(-1, 1, (256, 64)) / 16, rng.uniform(-1, 1, 64) / 16
        self.second, self.second_bias = rng.uniform(-1, 1, (64, 10)) / 8, rng.uniform(-1, 1, 10) / 8

    def forward(self, windows, flat):
        x = windows @ self.kernels + np.tile(self.kernel_bias, (64, 1))
        x = flat(x * x)
        x = x @ self.first + self.first_bias
        return (x * x) @ self.second + self.second_bias


def windows_of(image):
    """The 64 windows of 7 x 7 in steps of 3, one in each row."""
    return np.array([image[i : i + 7, j : j + 7].ravel() for i in range(0, 22, 3) for j in range(0, 22, 3)])


def test_tutorial_2_and_4_a_network_on_a_server():
    secret = ckks.SecretKey(ckks.Parameters(depth=5, precision=10, range=2.0**30, slots=4_096))
    keys = secret.evaluation_keys(matrices=[(64, 49, 4), (256, 64), (64, 10)])
    windows = windows_of(np.asarray(infer.draw_digit(7)) / 255)
    query, public_keys = secret.encrypt(windows).to_bytes(), keys.to_bytes()
    # the server has the name of the parameters, the public keys and the query
    parameters = ckks.Parameters(ckks.Parameters(depth=5, precision=10, range=2.0**30, slots=4_096).name)
    theirs = ckks.EvaluationKeys.from_bytes(parameters, public_keys)
    x = ckks.Ciphertext.from_bytes(parameters, query, range=1, shape=(64, 49), keys=theirs)
    answer = ConvNet().forward(x, lambda x: x.with_shape([256])).to_bytes()
    # the client again
    result = secret.decrypt(ckks.Ciphertext.from_bytes(parameters, answer, shape=[10]))
    expected = ConvNet().forward(windows, lambda x: x.T.ravel())
    assert np.abs(result - expected).max() < 1e-2 * np.abs(expected).max() and result.argmax() == expected.argmax()
