/* libsecp256k1 on the task of `tobari-bench call`: one packet of 320 samples a run, on one thread.
 *
 *   ./libsecp256k1 CURVE     prints one JSON line for each of encrypt, add and decrypt (bench/README.md has the shape);
 *                            nothing for a curve other than secp256k1, which is the only one it has
 *   ./libsecp256k1 CURVE sum prints one for the sum of each of 2, 4 ... 256 packets
 *
 * Only the public interface is used, as it comes: every point goes in and out in affine coordinates. mG is read from a table
 * in encryption too, which the library does not have but a program that encrypts samples would. rQ and sR are
 * secp256k1_ec_pubkey_tweak_mul, which is variable-time; rG is secp256k1_ec_pubkey_create, which is constant-time. The
 * randomness is a toy. Messages are all of 16 bits with their sign. */
#include <secp256k1.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 320
#define RUNS 7
#define MOST_INPUTS 256
#define DISTINCT 61       /* packets, which are repeated */
#define BOUND 32768       /* largest message in absolute value */
#define SLOTS (1u << 17)  /* of the logarithm table */

typedef struct {
	secp256k1_pubkey s, r;
} ciphertext;

static const secp256k1_context *context;
static secp256k1_pubkey multiples[BOUND + 1]; /* mG; the first is not used */
static uint32_t slots[SLOTS];                 /* m at the place that mG's x says, or 0 */
static unsigned char secret_negated[32];
static secp256k1_pubkey public_key;
static int messages[SAMPLES];
static ciphertext packet[SAMPLES], sum[SAMPLES], packets[DISTINCT][SAMPLES];
static int inputs;            /* of a sum */

static void check(int right, const char *what) {
	if (right) return;
	fprintf(stderr, "libsecp256k1: %s\n", what);
	exit(1);
}

/* splitmix64: for timing only. */
static uint64_t next(void) {
	static uint64_t state = 1;
	uint64_t z = (state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void random_scalar(unsigned char scalar[32]) {
	do {
		for (int i = 0; i < 4; i++) {
			uint64_t word = next();
			memcpy(scalar + 8 * i, &word, 8);
		}
	} while (!secp256k1_ec_seckey_verify(context, scalar));
}

static secp256k1_pubkey add_points(const secp256k1_pubkey *a, const secp256k1_pubkey *b, int *finite) {
	const secp256k1_pubkey *both[2] = {a, b};
	secp256k1_pubkey out;
	*finite = secp256k1_ec_pubkey_combine(context, &out, both, 2);
	return out;
}

/* The compressed form: a byte with the sign, then x. */
static void serialize(const secp256k1_pubkey *point, unsigned char bytes[33]) {
	size_t len = 33;
	check(secp256k1_ec_pubkey_serialize(context, bytes, &len, point, SECP256K1_EC_COMPRESSED), "a point is none");
}

static uint32_t slot_of(const unsigned char bytes[33]) {
	uint32_t word;
	memcpy(&word, bytes + 1, 4);
	return word % SLOTS;
}

static void make_tables(void) {
	unsigned char one[32] = {0}, bytes[33];
	int finite;
	one[31] = 1;
	check(secp256k1_ec_pubkey_create(context, &multiples[1], one), "no generator");
	for (uint32_t m = 1; m <= BOUND; m++) {
		if (m > 1) multiples[m] = add_points(&multiples[m - 1], &multiples[1], &finite);
		serialize(&multiples[m], bytes);
		uint32_t slot = slot_of(bytes);
		while (slots[slot] != 0) slot = (slot + 1) % SLOTS;
		slots[slot] = m;
	}
}

/* m for mG; BOUND + 1 if there is none. */
static int logarithm(const secp256k1_pubkey *point) {
	unsigned char bytes[33], found[33];
	serialize(point, bytes);
	for (uint32_t slot = slot_of(bytes); slots[slot] != 0; slot = (slot + 1) % SLOTS) {
		serialize(&multiples[slots[slot]], found);
		if (memcmp(bytes + 1, found + 1, 32) == 0) {
			return bytes[0] == found[0] ? (int)slots[slot] : -(int)slots[slot];
		}
	}
	return BOUND + 1;
}

static ciphertext encrypt(int m) {
	unsigned char random[32];
	ciphertext out;
	int finite = 1;
	random_scalar(random);
	check(secp256k1_ec_pubkey_create(context, &out.r, random), "rG failed");
	out.s = public_key;
	check(secp256k1_ec_pubkey_tweak_mul(context, &out.s, random), "rQ failed");
	if (m != 0) {
		secp256k1_pubkey lifted = multiples[abs(m)];
		if (m < 0) check(secp256k1_ec_pubkey_negate(context, &lifted), "-mG failed");
		out.s = add_points(&out.s, &lifted, &finite);
	}
	check(finite, "a ciphertext at infinity");
	return out;
}

static void add(ciphertext *total, const ciphertext *other) {
	int finite_s, finite_r;
	total->s = add_points(&total->s, &other->s, &finite_s);
	total->r = add_points(&total->r, &other->r, &finite_r);
	check(finite_s && finite_r, "a sum at infinity");
}

static int decrypt(const ciphertext *in) {
	secp256k1_pubkey mask = in->r, lifted;
	int finite;
	check(secp256k1_ec_pubkey_tweak_mul(context, &mask, secret_negated), "sR failed");
	lifted = add_points(&in->s, &mask, &finite);
	return finite ? logarithm(&lifted) : 0;
}

static void encrypt_packet(void) {
	for (int i = 0; i < SAMPLES; i++) sum[i] = encrypt(messages[i]);
}

static void add_packet(void) {
	for (int i = 0; i < SAMPLES; i++) add(&sum[i], &packet[i]);
}

static void decrypt_packet(void) {
	for (int i = 0; i < SAMPLES; i++) check(decrypt(&packet[i]) == messages[i], "decrypted something else");
}

static void sum_packets(void) {
	memcpy(sum, packets[0], sizeof sum);
	for (int input = 1; input < inputs; input++) {
		for (int i = 0; i < SAMPLES; i++) add(&sum[i], &packets[input % DISTINCT][i]);
	}
}

static double now_ns(void) {
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
	const double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void measure(const char *what, const char *more, void (*work)(void), int runs) {
	double ns[RUNS];
	for (int run = -1; run < runs; run++) { /* the first warms up */
		const double start = now_ns();
		work();
		if (run >= 0) ns[run] = (now_ns() - start) / SAMPLES;
	}
	qsort(ns, runs, sizeof ns[0], ascending);
	printf("{\"job\":\"call\",\"what\":\"%s\",\"engine\":\"libsecp256k1 " VERSION "\",\"params\":{\"curve\":\"secp256k1\","
		"\"mode\":\"elgamal\",\"timing\":\"variable\"%s},\"backend\":\"5x52\",\"threads\":1,\"unit\":\"ns/sample\","
		"\"median\":%.1f,\"min\":%.1f,\"max\":%.1f,\"runs\":%d,\"labels\":[]}\n",
		what, more, ns[runs / 2], ns[0], ns[runs - 1], runs);
}

static void measure_sums(void) {
	char more[32];
	for (int input = 0; input < DISTINCT; input++) {
		for (int i = 0; i < SAMPLES; i++) packets[input][i] = encrypt(7 * i);
	}
	for (inputs = 2; inputs <= MOST_INPUTS; inputs *= 2) {
		snprintf(more, sizeof more, ",\"inputs\":%d", inputs);
		measure("sum", more, sum_packets, 1);
	}
}

int main(int argc, char *argv[]) {
	unsigned char secret[32];
	const int sums = argc == 3 && strcmp(argv[2], "sum") == 0;
	if (argc != 2 && !sums) {
		fprintf(stderr, "usage: libsecp256k1 CURVE [sum]\n");
		return 2;
	}
	if (strcmp(argv[1], "secp256k1") != 0) return 0;
	context = secp256k1_context_create(SECP256K1_CONTEXT_NONE);
	make_tables();
	random_scalar(secret);
	check(secp256k1_ec_pubkey_create(context, &public_key, secret), "no public key");
	memcpy(secret_negated, secret, 32);
	check(secp256k1_ec_seckey_negate(context, secret_negated), "no negative key");
	if (sums) {
		measure_sums();
		return 0;
	}
	for (int i = 0; i < SAMPLES; i++) {
		messages[i] = (int16_t)next();
		packet[i] = encrypt(messages[i]);
	}
	messages[0] = 0, messages[1] = -BOUND; /* the ends of the range */
	packet[0] = encrypt(messages[0]), packet[1] = encrypt(messages[1]);
	measure("encrypt", "", encrypt_packet, RUNS);
	memcpy(sum, packet, sizeof sum);
	measure("add", "", add_packet, RUNS);
	measure("decrypt", ",\"bits\":16", decrypt_packet, RUNS);
	return 0;
}
