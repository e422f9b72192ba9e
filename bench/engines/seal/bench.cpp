// Microsoft SEAL on the task of `tobari-bench lattice`, on one thread.
//
//   ./seal SET [WHAT,WHAT...]  prints one JSON line for each operation, and nothing for an unknown
//                              set; bench/README.md has the shape of a line
//
// The library is used with its defaults. It has one special prime, so dnum is the number of limbs,
// and it has no hoisted rotations. `add` and `mul_plain` are the forms in place. All other
// operations write to another ciphertext with allocated memory. In BGV `mul_plain` takes a
// transformed plaintext.
#include "../lattice.hpp"
#include <complex>
#include <cstdint>
#include <seal/seal.h>
#include <seal/util/ntt.h>

using namespace seal;
typedef std::complex<double> Slot;

struct Peer {
	Bench &bench;
	const bool ckks;
	const double scale;
	SEALContext context;
	KeyGenerator generator;
	PublicKey publicKey;
	RelinKeys relinKeys;
	GaloisKeys galoisKeys;
	Encryptor encryptor;
	Evaluator evaluator;
	Decryptor decryptor;

	static EncryptionParameters parameters(const Set &set) {
		std::vector<int> bits(set.level, set.bits);
		bits[0] = 50;
		bits.push_back(50); // the special prime
		EncryptionParameters params(strcmp(set.scheme, "ckks") == 0 ? scheme_type::ckks : scheme_type::bgv);
		params.set_poly_modulus_degree(set.n);
		params.set_coeff_modulus(CoeffModulus::Create(set.n, bits));
		if (params.scheme() == scheme_type::bgv) params.set_plain_modulus(PLAIN_MODULUS);
		return params;
	}

	static PublicKey makePublicKey(KeyGenerator &generator) {
		PublicKey key;
		generator.create_public_key(key);
		return key;
	}

	explicit Peer(Bench &bench)
		: bench(bench), ckks(strcmp(bench.set->scheme, "ckks") == 0), scale(std::ldexp(1.0, bench.set->bits)),
		  context(parameters(*bench.set)), generator(context), publicKey(makePublicKey(generator)),
		  encryptor(context, publicKey, generator.secret_key()), evaluator(context),
		  decryptor(context, generator.secret_key()) {
		check(context.parameters_set(), context.parameter_error_message());
		generator.create_relin_keys(relinKeys);
		generator.create_galois_keys(std::vector<int>{1}, galoisKeys);
	}

	void rotate(const Ciphertext &in, Ciphertext &out) {
		if (ckks) evaluator.rotate_vector(in, 1, galoisKeys, out);
		else evaluator.rotate_rows(in, 1, galoisKeys, out);
	}

	void rescale(const Ciphertext &in, Ciphertext &out) {
		if (ckks) evaluator.rescale_to_next(in, out);
		else evaluator.mod_switch_to_next(in, out);
	}

	void mul(const Ciphertext &a, const Ciphertext &b, Ciphertext &product, Ciphertext &out) {
		evaluator.multiply(a, b, product);
		evaluator.relinearize_inplace(product, relinKeys);
		rescale(product, out);
	}

	// Everything but encoding. `expect(ciphertext, what, f)` checks that slot i is f(i).
	template <class Expect, class Sum, class Product, class Rotated, class First>
	void operations(const Plaintext &plain, const Plaintext &factor, Expect expect, Sum sum, Product product,
		Rotated rotated, First first) {
		Ciphertext a, b, c, d, out;
		Plaintext opened;
		encryptor.encrypt(plain, a);
		encryptor.encrypt_symmetric(factor, b);
		expect(a, "encrypt_public", first);
		evaluator.add(a, b, c);
		expect(c, "encrypt_secret, add", sum);
		evaluator.multiply_plain(a, factor, c);
		expect(c, "mul_plain", product);
		rescale(c, d);
		expect(d, "rescale", product);
		evaluator.multiply(a, b, c);
		expect(c, "tensor", product);
		evaluator.relinearize(c, relinKeys, d);
		expect(d, "relinearize", product);
		mul(a, b, d, out);
		expect(out, "mul", product);
		rotate(a, out);
		expect(out, "rotate", rotated);

		bench.measure("encrypt_public", [&] { encryptor.encrypt(plain, out); });
		bench.measure("encrypt_secret", [&] { encryptor.encrypt_symmetric(plain, out); });
		bench.measure("decrypt", [&] { decryptor.decrypt(a, opened); });
		Ciphertext accumulator = a;
		bench.measure("add", [&] { evaluator.add_inplace(accumulator, b); });
		Plaintext prepared = factor;
		if (!ckks) evaluator.transform_to_ntt_inplace(prepared, context.first_parms_id());
		bench.measure("mul_plain", [&] {
			evaluator.multiply_plain_inplace(accumulator, prepared);
			accumulator.scale() = a.scale();
		});
		bench.measure("tensor", [&] { evaluator.multiply(a, b, out); });
		bench.measure("mul", [&] { mul(a, b, d, out); });
		evaluator.multiply(a, b, c);
		bench.measure("relinearize", [&] { evaluator.relinearize(c, relinKeys, out); });
		evaluator.relinearize(c, relinKeys, d);
		bench.measure("rescale", [&] { rescale(d, out); });
		bench.measure("rotate", [&] { rotate(a, out); });
	}

	void runCkks() {
		CKKSEncoder encoder(context);
		const size_t slots = encoder.slot_count();
		std::vector<Slot> x(slots), y(slots), found;
		for (size_t i = 0; i < slots; i++) {
			x[i] = Slot(nextReal(), nextReal());
			y[i] = Slot(nextReal(), nextReal());
		}
		Plaintext plain, factor, opened;
		encoder.encode(x, scale, plain);
		encoder.encode(y, scale, factor);
		operations(plain, factor, [&](const Ciphertext &c, const char *what, auto f) {
			decryptor.decrypt(c, opened);
			encoder.decode(opened, found);
			double worst = 0;
			for (size_t i = 0; i < slots; i++) worst = std::max(worst, std::abs(found[i] - f(i)));
			check(worst < 0.02, what);
		}, [&](size_t i) { return x[i] + y[i]; }, [&](size_t i) { return x[i] * y[i]; },
		[&](size_t i) { return x[(i + 1) % slots]; }, [&](size_t i) { return x[i]; });
		bench.measure("encode", [&] { encoder.encode(x, scale, plain); });
		Ciphertext c;
		encryptor.encrypt(plain, c);
		decryptor.decrypt(c, opened);
		bench.measure("decode", [&] { encoder.decode(opened, found); });
		bench.measure("open", [&] {
			decryptor.decrypt(c, opened);
			encoder.decode(opened, found);
		});
	}

	void runBgv() {
		BatchEncoder encoder(context);
		const size_t slots = encoder.slot_count(), half = slots / 2;
		const uint64_t t = PLAIN_MODULUS;
		std::vector<uint64_t> x(slots), y(slots), found;
		for (size_t i = 0; i < slots; i++) {
			x[i] = next() % t;
			y[i] = next() % t;
		}
		Plaintext plain, factor, opened;
		encoder.encode(x, plain);
		encoder.encode(y, factor);
		operations(plain, factor, [&](const Ciphertext &c, const char *what, auto f) {
			decryptor.decrypt(c, opened);
			encoder.decode(opened, found);
			for (size_t i = 0; i < slots; i++) check(found[i] == f(i), what);
		}, [&](size_t i) { return (x[i] + y[i]) % t; }, [&](size_t i) { return x[i] * y[i] % t; },
		[&](size_t i) { return x[i / half * half + (i + 1) % half]; }, [&](size_t i) { return x[i]; });
		bench.measure("encode", [&] { encoder.encode(x, plain); });
		Ciphertext c;
		encryptor.encrypt(plain, c);
		decryptor.decrypt(c, opened);
		bench.measure("decode", [&] { encoder.decode(opened, found); });
		bench.measure("open", [&] {
			decryptor.decrypt(c, opened);
			encoder.decode(opened, found);
		});
	}

	void transforms() {
		const size_t n = bench.set->n;
		const util::NTTTables &tables = context.first_context_data()->small_ntt_tables()[0];
		uint64_t *values = (uint64_t *)aligned_alloc(64, 8 * n);
		for (size_t i = 0; i < n; i++) values[i] = next() % tables.modulus().value();
		const std::vector<uint64_t> before(values, values + n);
		util::ntt_negacyclic_harvey(values, tables);
		check(!std::equal(before.begin(), before.end(), values), "ntt_forward");
		util::inverse_ntt_negacyclic_harvey(values, tables);
		check(std::equal(before.begin(), before.end(), values), "ntt_inverse");
		bench.measure("ntt_forward", [&] { util::ntt_negacyclic_harvey(values, tables); });
		bench.measure("ntt_inverse", [&] { util::inverse_ntt_negacyclic_harvey(values, tables); });
		free(values);
	}
};

int main(int argc, char *argv[]) {
	Bench bench(argc, argv);
	if (bench.set == nullptr) return 0;
	bench.engine = "seal " SEAL_VERSION;
	bench.backend = "scalar";
#ifdef SEAL_USE_INTEL_HEXL
	bench.engine += " + hexl " HEXL_VERSION;
	bench.backend = "hexl";
#endif
	Peer peer(bench);
	bench.dnum = bench.set->level;
	bench.logQP = peer.context.key_context_data()->total_coeff_modulus_bit_count();
	peer.transforms();
	if (peer.ckks) peer.runCkks();
	else peer.runBgv();
	return 0;
}
