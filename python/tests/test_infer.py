import pickle

import numpy as np
import pytest

import tobari
from conftest import ROOT
from tobari import infer


@pytest.fixture(scope="module")
def model():
    return infer.Model.digits()


@pytest.fixture(scope="module")
def server(model):
    return infer.Server(model)


@pytest.fixture(scope="module")
def client(server):
    client = infer.Client(server.card, server.digest)
    server.register(client.keys())
    return client


def test_drawn_digits_are_classified_as_in_the_clear(model, server, client):
    for digit in range(10):
        image = infer.draw_digit(digit, hand=digit % 6)
        found = client.ask(server, image, "logits")
        plain = model.forward(infer.pixels(image))
        assert found.label == plain.argmax() == digit
        assert np.abs(found.logits - plain).max() < 0.1
        assert found.labels == tuple(np.argsort(-found.logits)) and len(found.labels) == 10


def test_a_batch_is_answered_in_its_order_with_progress(server, client):
    digits, told = [3, 1, 4], []
    questions = [client.encrypt(infer.draw_digit(digit)) for digit in digits]
    answers = server.run_all(questions, lambda done, total: told.append((done, total)))
    assert [client.decrypt(answer).label for answer in answers] == digits
    assert told[-1] == (3, 3)
    assert server.run_all([]) == []


def test_as_much_is_told_as_is_asked_for(server, client):
    answer = server.run(client.encrypt(infer.draw_digit(8)))
    assert client.decrypt(answer).labels == (8,) and client.decrypt(answer).logits.size == 0
    assert len(client.decrypt(answer, "top:3").labels) == 3
    rounded = client.decrypt(answer, "rounded:2").logits
    assert rounded.size == 10 and (rounded * 4 == (rounded * 4).round()).all()
    for output in ("all", "top:0", "top:11", "top:x", "rounded:60"):
        with pytest.raises(tobari.Error):
            client.decrypt(answer, output)


def test_a_simulation_foretells_what_comes_out(model, server):
    image = infer.pixels(infer.draw_digit(6))
    compiled, plain = server.compiled, model.forward(image)
    found = [compiled.simulate(image, seed) for seed in range(4)]
    assert all(logits.argmax() == plain.argmax() == 6 for logits in found)
    # the errors are those of encryption: some, other ones for other seeds, and as large as foretold
    off = max(abs(logits - plain).max() for logits in found)
    assert compiled.error / 10 < off < compiled.error, (off, compiled.error)
    assert (found[0] == compiled.simulate(image)).all() and (found[0] != found[1]).any()
    report = server.compiled.report()
    assert [stage["name"] for stage in report] == model.stages
    assert all(stage["headroom_bits"] > 1 for stage in report)


def test_a_client_comes_back_from_its_file(tmp_path, server, client):
    answer = server.run(client.encrypt(infer.draw_digit(5)))
    client.save(tmp_path / "key")
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    again = infer.Client.load(tmp_path / "key")
    assert again.decrypt(answer).label == 5 and again.name == client.name
    with pytest.raises(FileExistsError):
        client.save(tmp_path / "key")


def test_questions_and_answers_of_others_are_refused(server, client):
    other = infer.Client(server.card, server.digest)
    question = other.encrypt(infer.draw_digit(1))
    with pytest.raises(tobari.Refused, match="keys"):
        server.run(question)
    with pytest.raises(tobari.Refused, match="key"):
        server.run_all([client.encrypt(infer.draw_digit(1)), question])
    answer = server.run(client.encrypt(infer.draw_digit(1)))
    with pytest.raises(tobari.Error, match="key"):
        other.decrypt(answer)
    for wrong in (b"", answer[:-1], question):
        with pytest.raises(tobari.Error):
            client.decrypt(wrong)


@pytest.mark.parametrize("image", [np.zeros((28, 28)), np.full((28, 28), 256), np.full((28, 28), -1), np.zeros(3, int), b"123"])
def test_what_is_no_image_is_refused(client, image):
    with pytest.raises(tobari.Error, match="pixels|image"):
        client.encrypt(image)


def test_an_onnx_file_becomes_the_same_model_and_others_are_refused_with_reasons(model):
    folder = ROOT / "vectors" / "onnx"
    images = [infer.draw_digit(digit) for digit in range(10)]
    read = infer.load_onnx(folder / "digits.onnx", images=images)
    assert read.shape == (1, 28, 28) and read.classes == 10
    for digit, image in enumerate(images):
        assert read.forward(infer.pixels(image)).argmax() == digit
    # labels with an unknown margin are not computed under encryption
    assert read.margin > 0
    unknown = infer.load_onnx(folder / "digits.onnx")
    assert unknown.margin is None
    with pytest.raises(tobari.Error, match="margin between this model's labels is not known"):
        unknown.compile()
    small = infer.load_onnx(folder / "digits.onnx", images=images, margin=1e-6)
    with pytest.raises(tobari.Error, match="half the margin between them"):
        small.compile()
    again = infer.Model.from_bytes(read.to_bytes())
    assert again.digest == read.digest != model.digest
    with pytest.raises(tobari.Error, match="expected a chain"):
        infer.load_onnx(folder / "refused.onnx")
    with pytest.raises(tobari.DecodeError):
        infer.Model.from_onnx(b"no such file", [0.0], [1.0])


def test_secrets_are_neither_printed_nor_pickled(client):
    assert client.to_bytes().hex()[8:72] not in repr(client)
    with pytest.raises(TypeError):
        pickle.dumps(client)


def test_a_server_over_http_answers_the_same(serve, tmp_path, binary):
    remote = infer.Remote(serve("--infer", "digits"))
    client = infer.Client(remote.card, remote.digest)
    assert not remote.knows(client.name)
    assert client.ask(remote, infer.draw_digit(9)).label == 9
    assert remote.knows(client.name)
    assert client.ask(remote, infer.draw_digit(2)).label == 2


CORPUS = ROOT / "jobs" / "infer" / "files" / "tests" / "corpus"
#: channels, rows and columns of one of its networks
SIGNAL = (1, 3, 32)


def pictures(shape, count, seed):
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 256, size=shape, dtype=np.uint8) for _ in range(count)]


@pytest.fixture(scope="module")
def network():
    return infer.load_onnx(CORPUS / "signal.onnx", images=pictures(SIGNAL, 24, 1))


def test_a_network_with_other_activations_is_answered_by_a_server_without_a_key(network):
    assert isinstance(network, infer.Network) and network.engine == "levels"
    assert network.shape == SIGNAL and 0 < network.error < network.margin / 2
    server = infer.Server(network)
    client = infer.Client(server.card, server.digest)
    for image in pictures(SIGNAL, 3, 2):
        found, plain = client.ask(server, image, "logits"), network.forward(infer.pixels(image))
        assert np.abs(found.logits - plain).max() < 2 * network.error
        assert found.close or found.label == plain.argmax()
        simulated = network.simulate(infer.pixels(image), seed=3)
        assert np.abs(simulated["logits"] - simulated["plain"]).max() <= simulated["error"]
        assert (simulated["plain"] == plain).all() and not simulated["outside"]
    # another client's question is not answered
    other = infer.Client(server.card, server.digest)
    with pytest.raises(tobari.Refused):
        server.run(other.encrypt(pictures(SIGNAL, 1, 3)[0]))
    with pytest.raises(tobari.Error, match="layouts and parameters of its own"):
        infer.Server(network, set="infer-s")


def test_networks_keep_their_bytes_and_engines_are_chosen_by_name(network, tmp_path):
    again = infer.Network.from_bytes(network.to_bytes())
    assert again.digest == network.digest and repr(again) == repr(network)
    with pytest.raises(tobari.DecodeError):
        infer.Network.from_bytes(network.to_bytes()[:-1])
    enclave = infer.load_onnx(CORPUS / "signal.onnx", images=pictures(SIGNAL, 24, 1), engine="enclave")
    assert enclave.engine == "enclave" and enclave.error < network.error
    image = infer.pixels(pictures(SIGNAL, 1, 2)[0])
    assert np.abs(enclave.simulate(image)["logits"] - enclave.forward(image)).max() < 1e-6
    with pytest.raises(tobari.Error, match="--infer-enclave mixed-plain-reset"):
        infer.Server(enclave)
    with pytest.raises(tobari.Error, match="expected levels, refresh or enclave"):
        infer.load_onnx(CORPUS / "signal.onnx", images=pictures(SIGNAL, 24, 1), engine="magic")
    # without images there are no ranges
    with pytest.raises(tobari.Error, match="--images|images"):
        infer.load_onnx(CORPUS / "signal.onnx", engine="levels")
