// OpenFHE on the task of `tobari-bench lattice`, on one thread.
//
//   ./openfhe SET [WHAT,WHAT...]  prints one JSON line for each operation, and nothing for an
//                                 unknown set; bench/README.md has the shape of a line
//
// HYBRID key switching, FIXEDMANUAL scaling, real slots in CKKS. The library chooses its special
// primes, of 60 bits. It allocates a vector for each limb in each operation. glibc is told to keep
// memory, which makes the library faster. `add` is the form in place.
//
// In CKKS the library decrypts and decodes in one step. Here `decrypt` is the inner product with
// the secret key, as in the other libraries. `decode` is all the rest, including big integers and
// the noise that the library adds.
#include "../lattice.hpp"
#include <complex>
#include <malloc.h>
#include <openfhe.h>

using namespace lbcrypto;

typedef CryptoContext<DCRTPoly> Context;
typedef Ciphertext<DCRTPoly> Cipher;

struct Peer {
	Bench &bench;
	Context context;
	KeyPair<DCRTPoly> keys;
	static const int HOISTED = 8;

	template <class Scheme>
	static Context makeContext(const Set &set, int dnum) {
		CCParams<Scheme> params;
		params.SetRingDim(set.n);
		params.SetMultiplicativeDepth(set.level - 1);
		params.SetFirstModSize(50);
		params.SetScalingModSize(set.bits);
		params.SetScalingTechnique(FIXEDMANUAL);
		params.SetKeySwitchTechnique(HYBRID);
		params.SetNumLargeDigits(dnum);
		params.SetSecurityLevel(HEStd_128_classic);
		if constexpr (std::is_same_v<Scheme, CryptoContextBGVRNS>) params.SetPlaintextModulus(PLAIN_MODULUS);
		else params.SetBatchSize(set.n / 2);
		Context context = GenCryptoContext(params);
		for (PKESchemeFeature feature : {PKE, KEYSWITCH, LEVELEDSHE}) context->Enable(feature);
		return context;
	}

	Peer(Bench &bench, Context made) : bench(bench), context(made), keys(made->KeyGen()) {
		const auto params = std::dynamic_pointer_cast<CryptoParametersRNS>(context->GetCryptoParameters());
		check((int)params->GetElementParams()->GetParams().size() == bench.set->level, "the number of limbs");
		check((int)context->GetRingDimension() == bench.set->n, "the ring");
		check((int)params->GetNumPartQ() == bench.dnum, "the number of digits");
		bench.logQP = params->GetParamsQP()->GetModulus().GetMSB();
		context->EvalMultKeyGen(keys.secretKey);
		std::vector<int32_t> steps;
		for (int step = 1; step <= HOISTED; step++) steps.push_back(step);
		context->EvalRotateKeyGen(keys.secretKey, steps);
	}

	Cipher rescale(const Cipher &in) {
		return context->ModReduce(in); // the library's Rescale is the same
	}

	Cipher mul(const Cipher &a, const Cipher &b) {
		return rescale(context->EvalMult(a, b));
	}

	Cipher rotateHoisted(const Cipher &in) {
		const auto digits = context->EvalFastRotationPrecompute(in);
		Cipher out;
		for (int step = 1; step <= HOISTED; step++) {
			out = context->EvalFastRotation(in, step, 2 * bench.set->n, digits);
		}
		return out;
	}

	// Everything but encoding and decryption. `expect(ciphertext, what, f)` checks that slot i is
	// f(i).
	template <class Expect, class Sum, class Product, class Rotated, class First>
	Cipher operations(Plaintext plain, Plaintext factor, Expect expect, Sum sum, Product product, Rotated rotated, First first) {
		const Cipher a = context->Encrypt(keys.publicKey, plain), b = context->Encrypt(keys.secretKey, factor);
		expect(a, "encrypt_public", first);
		expect(context->EvalAdd(a, b), "encrypt_secret, add", sum);
		expect(context->EvalMult(a, factor), "mul_plain", product);
		expect(rescale(context->EvalMult(a, factor)), "rescale", product);
		const Cipher tensor = context->EvalMultNoRelin(a, b), relinearized = context->Relinearize(tensor);
		expect(relinearized, "tensor, relinearize", product);
		expect(mul(a, b), "mul", product);
		expect(context->EvalRotate(a, 1), "rotate", [&](size_t i) { return rotated(i, 1); });
		expect(rotateHoisted(a), "rotate_hoisted_8", [&](size_t i) { return rotated(i, HOISTED); });

		Cipher out;
		bench.measure("encrypt_public", [&] { out = context->Encrypt(keys.publicKey, plain); });
		bench.measure("encrypt_secret", [&] { out = context->Encrypt(keys.secretKey, plain); });
		Cipher accumulator = a->Clone();
		bench.measure("add", [&] { context->EvalAddInPlace(accumulator, b); });
		bench.measure("mul_plain", [&] { out = context->EvalMult(a, factor); });
		bench.measure("tensor", [&] { out = context->EvalMultNoRelin(a, b); });
		bench.measure("mul", [&] { out = mul(a, b); });
		bench.measure("relinearize", [&] { out = context->Relinearize(tensor); });
		bench.measure("rescale", [&] { out = rescale(relinearized); });
		bench.measure("rotate", [&] { out = context->EvalRotate(a, 1); });
		bench.measure("rotate_hoisted_8", [&] { out = rotateHoisted(a); }, HOISTED);
		return a;
	}

	void runCkks() {
		const size_t slots = bench.set->n / 2;
		std::vector<double> x(slots), y(slots);
		for (size_t i = 0; i < slots; i++) {
			x[i] = nextReal();
			y[i] = nextReal();
		}
		Plaintext plain = context->MakeCKKSPackedPlaintext(x), factor = context->MakeCKKSPackedPlaintext(y), opened;
		const auto matches = [&](const char *what, auto f) {
			const std::vector<double> found = opened->GetRealPackedValue();
			double worst = 0;
			for (size_t i = 0; i < slots; i++) worst = std::max(worst, std::abs(found[i] - f(i)));
			check(worst < 0.02, what);
		};
		const auto first = [&](size_t i) { return x[i]; };
		const Cipher a = operations(plain, factor, [&](const Cipher &c, const char *what, auto f) {
			context->Decrypt(keys.secretKey, c, &opened);
			matches(what, f);
		}, [&](size_t i) { return x[i] + y[i]; }, [&](size_t i) { return x[i] * y[i]; },
		[&](size_t i, int step) { return x[(i + step) % slots]; }, first);
		bench.measure("encode", [&] { plain = context->MakeCKKSPackedPlaintext(x); });
		DCRTPoly phase;
		bench.measure("decrypt", [&] { phase = context->GetScheme()->DecryptCore(a, keys.secretKey); });
		context->Decrypt(keys.secretKey, a, &opened);
		const auto packed = std::dynamic_pointer_cast<CKKSPackedEncoding>(opened);
		bench.measurePrepared("decode", [&] { phase = context->GetScheme()->DecryptCore(a, keys.secretKey); }, [&] {
			phase.SetFormat(COEFFICIENT);
			packed->GetElement<Poly>() = phase.CRTInterpolate();
			packed->Decode(a->GetNoiseScaleDeg(), a->GetScalingFactor(), FIXEDMANUAL, EXEC_EVALUATION);
		});
		matches("decode", first);
		bench.measure("open", [&] { context->Decrypt(keys.secretKey, a, &opened); });
	}

	void runBgv() {
		const size_t slots = bench.set->n, half = slots / 2;
		const int64_t t = PLAIN_MODULUS;
		std::vector<int64_t> x(slots), y(slots);
		for (size_t i = 0; i < slots; i++) {
			x[i] = (int64_t)(next() % t) - t / 2;
			y[i] = (int64_t)(next() % t) - t / 2;
		}
		Plaintext plain = context->MakePackedPlaintext(x), factor = context->MakePackedPlaintext(y), opened;
		const auto matches = [&](const char *what, auto f) {
			const std::vector<int64_t> &found = opened->GetPackedValue();
			for (size_t i = 0; i < slots; i++) check((found[i] - f(i)) % t == 0, what);
		};
		const auto first = [&](size_t i) { return x[i]; };
		const Cipher a = operations(plain, factor, [&](const Cipher &c, const char *what, auto f) {
			context->Decrypt(keys.secretKey, c, &opened);
			matches(what, f);
		}, [&](size_t i) { return x[i] + y[i]; }, [&](size_t i) { return x[i] * y[i]; },
		[&](size_t i, int step) { return x[i / half * half + (i + step) % half]; }, first);
		bench.measure("encode", [&] { plain = context->MakePackedPlaintext(x); });
		NativePoly message;
		bench.measure("decrypt", [&] { context->GetScheme()->Decrypt(a, keys.secretKey, &message); });
		context->GetScheme()->Decrypt(a, keys.secretKey, &message);
		context->Decrypt(keys.secretKey, a, &opened);
		bench.measurePrepared("decode", [&] { opened->GetElement<NativePoly>() = message; }, [&] { opened->Decode(); });
		matches("decode", first);
		bench.measure("open", [&] { context->Decrypt(keys.secretKey, a, &opened); });
	}

	void transforms() {
		DCRTPoly::DugType uniform;
		DCRTPoly all(uniform, context->GetElementParams(), COEFFICIENT);
		const NativePoly before = all.GetElementAtIndex(0);
		NativePoly poly = before;
		poly.SwitchFormat();
		check(poly.GetValues() != before.GetValues(), "ntt_forward");
		poly.SwitchFormat();
		check(poly.GetValues() == before.GetValues(), "ntt_inverse");
		bench.measurePrepared("ntt_forward", [&] { poly.OverrideFormat(COEFFICIENT); }, [&] { poly.SwitchFormat(); });
		bench.measurePrepared("ntt_inverse", [&] { poly.OverrideFormat(EVALUATION); }, [&] { poly.SwitchFormat(); });
	}
};

int main(int argc, char *argv[]) {
	Bench bench(argc, argv);
	if (bench.set == nullptr) return 0;
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mallopt(M_TOP_PAD, 64 << 20);
	const bool ckks = strcmp(bench.set->scheme, "ckks") == 0;
	bench.engine = "openfhe " VERSION;
	bench.backend = "scalar";
#ifdef HEXL_VERSION
	bench.engine += " + hexl " HEXL_VERSION;
	bench.backend = "hexl";
#endif
	bench.dnum = bench.set->n == 1 << 15 ? 5 : 3;
	Peer peer(bench, ckks ? Peer::makeContext<CryptoContextCKKSRNS>(*bench.set, bench.dnum)
	                      : Peer::makeContext<CryptoContextBGVRNS>(*bench.set, bench.dnum));
	peer.transforms();
	if (ckks) peer.runCkks();
	else peer.runBgv();
	return 0;
}
