// mcl's lifted ElGamal on the task of `tobari-bench call`: each run is one packet of 320 samples,
// on one thread.
//
//   ./bench CURVE       prints one JSON line for each of encrypt, add and decrypt
//   ./bench CURVE sum   prints one JSON line for each sum of 2, 4 ... 1024 packets
//
// bench/README.md has the shape of a line, and the build command.
//
// The library is used with its defaults: window tables for P and sP, a table of logarithms for 16
// bits, messages in [0, 32767] (its signed messages cost more), its XorShift generator, and
// Jacobian coordinates throughout. The library is variable-time.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cybozu/xorshift.hpp>
#include <mcl/g1_def.hpp>
#include <mcl/ecparam.hpp>
#include <mcl/elgamal.hpp>
#include <string>
#include <vector>

using mcl::Fr;
using mcl::G1;

static const size_t SAMPLES = 320;
static const int RUNS = 7;
static const size_t MOST_INPUTS = 1024;
static const size_t DISTINCT = 61; // packets; larger sums repeat them

struct Named {
	const char *name;
	const mcl::EcParam *param;
};

static const Named curves[] = {
	{"secp160k1", &mcl::ecparam::secp160k1}, {"p160_1", &mcl::ecparam::p160_1},
	{"secp192k1", &mcl::ecparam::secp192k1}, {"secp224k1", &mcl::ecparam::secp224k1},
	{"secp256k1", &mcl::ecparam::secp256k1},
#if MCL_FP_BIT >= 384
	{"secp384r1", &mcl::ecparam::secp384r1},
#endif
	{"NIST_P192", &mcl::ecparam::NIST_P192}, {"NIST_P224", &mcl::ecparam::NIST_P224},
	{"NIST_P256", &mcl::ecparam::NIST_P256},
};

template <class Work>
static void measure(const char *what, const char *curve, const char *more, Work work, int runs = RUNS) {
	std::vector<double> ns;
	for (int run = 0; run <= runs; run++) {
		const auto start = std::chrono::steady_clock::now();
		work();
		const auto end = std::chrono::steady_clock::now();
		if (run > 0) ns.push_back(std::chrono::duration<double, std::nano>(end - start).count() / SAMPLES);
	}
	std::sort(ns.begin(), ns.end());
	printf("{\"job\":\"call\",\"what\":\"%s\",\"engine\":\"mcl %x.%02x\",\"params\":{\"curve\":\"%s\",\"mode\":\"elgamal\","
		"\"timing\":\"variable\"%s},\"backend\":\"xbyak\",\"threads\":1,\"unit\":\"ns/sample\",\"median\":%.1f,"
		"\"min\":%.1f,\"max\":%.1f,\"runs\":%d,\"labels\":[]}\n",
		what, mcl::version >> 8, mcl::version & 255, curve, more, ns[ns.size() / 2], ns.front(), ns.back(), runs);
}

typedef std::vector<mcl::ElgamalEc::CipherText> Packet;

static void measureSums(const char *curve, const mcl::ElgamalEc::PublicKey &pub, cybozu::XorShift &random) {
	std::vector<Packet> packets(DISTINCT, Packet(SAMPLES));
	for (Packet &packet : packets) {
		for (size_t i = 0; i < SAMPLES; i++) pub.enc(packet[i], 7 * (int)i, random);
	}
	for (size_t inputs = 2; inputs <= MOST_INPUTS; inputs *= 2) {
		const std::string more = ",\"inputs\":" + std::to_string(inputs);
		measure("sum", curve, more.c_str(), [&] {
			Packet total = packets[0];
			for (size_t input = 1; input < inputs; input++) {
				for (size_t i = 0; i < SAMPLES; i++) total[i].add(packets[input % DISTINCT][i]);
			}
		}, 1);
	}
}

int main(int argc, char *argv[]) {
	const bool sums = argc == 3 && std::string(argv[2]) == "sum";
	const Named *curve = nullptr;
	for (const Named &named : curves) {
		if ((argc == 2 || sums) && std::string(argv[1]) == named.name) curve = &named;
	}
	if (curve == nullptr) {
		fprintf(stderr, "usage: bench CURVE [sum]\n");
		return 2;
	}
	G1 base;
	mcl::initCurve<G1>(curve->param->curveType, &base);
	cybozu::XorShift random;
	mcl::ElgamalEc::PrivateKey key;
	key.init(base, Fr::getBitSize(), random);
	key.setCache(-32768, 32767);
	mcl::ElgamalEc::PublicKey pub = key.getPublicKey();
	pub.enableWindowMethod();
	if (sums) {
		measureSums(curve->name, pub, random);
		return 0;
	}

	std::vector<int> messages(SAMPLES);
	for (int &m : messages) m = random.get32() & 32767;
	Packet packet(SAMPLES), sum(SAMPLES);
	for (size_t i = 0; i < SAMPLES; i++) pub.enc(packet[i], messages[i], random);
	sum = packet;

	measure("encrypt", curve->name, "", [&] {
		for (size_t i = 0; i < SAMPLES; i++) pub.enc(sum[i], messages[i], random);
	});
	measure("add", curve->name, "", [&] {
		for (size_t i = 0; i < SAMPLES; i++) sum[i].add(packet[i]);
	});
	bool right = true;
	measure("decrypt", curve->name, ",\"bits\":16", [&] {
		for (size_t i = 0; i < SAMPLES; i++) {
			bool found = false;
			right &= key.dec(packet[i], &found) == messages[i] && found;
		}
	});
	if (!right) {
		fprintf(stderr, "mcl decrypted something else\n");
		return 1;
	}
	return 0;
}
