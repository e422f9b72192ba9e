// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Known answers for the project's elliptic curves, computed by OpenSSL's libcrypto (3.0 or later).
//
//   cc -std=c11 -O2 -Wall -Wextra -Wpedantic -o make-curve-vectors make.c -lcrypto
//   ./make-curve-vectors parameters.json OUTPUT_DIRECTORY
//
// Writes OUTPUT_DIRECTORY/NAME.txt for every distinct curve of parameters.json, in the format of ../README.md, and
// never overwrites a file. The output depends on nothing but parameters.json and, in one comment, on OpenSSL's version.
//
// Every group is built from explicit parameters and compared with OpenSSL's own curve of that name where it has one.
// Every point in the output comes from EC_POINT_mul, EC_POINT_add or an on-curve check of OpenSSL; every encoding is
// written, and every refusal (`off`, `nosqrt`) confirmed, by OpenSSL's encoder and decoder. Nothing here is secret or
// long-lived: memory is left to the end of the process, and any failed call ends it.

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/objects.h>
#include <openssl/sha.h>

#define MAX_CURVES 16
#define MAX_BYTES 66
#define COUNT(array) (sizeof(array) / sizeof *(array))
#define MUST(condition) must((condition), #condition, __LINE__)

struct curve {
    char name[32];
    BIGNUM *p, *a, *b, *gx, *gy, *n;
    EC_GROUP *group;
    int width;  // bytes of one coordinate
    FILE *out;
};

static BN_CTX *ctx;

static void must(int condition, const char *text, int line) {
    if (condition) return;
    fprintf(stderr, "make.c:%d: failed: %s\n", line, text);
    ERR_print_errors_fp(stderr);
    exit(1);
}

// ---- Integers ------------------------------------------------------------------------------------------------------

static BIGNUM *number(unsigned long value) {
    BIGNUM *r = BN_new();
    MUST(r != NULL && BN_set_word(r, value));
    return r;
}

// base + delta
static BIGNUM *offset(const BIGNUM *base, int delta) {
    BIGNUM *r = BN_dup(base);
    MUST(r != NULL);
    MUST(delta < 0 ? BN_sub_word(r, (BN_ULONG)-delta) : BN_add_word(r, (BN_ULONG)delta));
    return r;
}

// 2^exponent + delta
static BIGNUM *power_of_two(int exponent, int delta) {
    BIGNUM *r = number(0);
    MUST(BN_set_bit(r, exponent));
    return offset(r, delta);
}

static BIGNUM *sum(const BIGNUM *a, const BIGNUM *b, const BIGNUM *modulus) {
    BIGNUM *r = number(0);
    MUST(BN_mod_add(r, a, b, modulus, ctx));
    return r;
}

static BIGNUM *difference(const BIGNUM *a, const BIGNUM *b, const BIGNUM *modulus) {
    BIGNUM *r = number(0);
    MUST(BN_mod_sub(r, a, b, modulus, ctx));
    return r;
}

static BIGNUM *product(const BIGNUM *a, const BIGNUM *b, const BIGNUM *modulus) {
    BIGNUM *r = number(0);
    MUST(BN_mod_mul(r, a, b, modulus, ctx));
    return r;
}

static BIGNUM *quotient(const BIGNUM *a, const BIGNUM *b, const BIGNUM *modulus) {
    BIGNUM *inverse = BN_mod_inverse(NULL, b, modulus, ctx);
    MUST(inverse != NULL);
    return product(a, inverse, modulus);
}

static BIGNUM *power(const BIGNUM *a, const BIGNUM *exponent, const BIGNUM *modulus) {
    BIGNUM *r = number(0);
    MUST(BN_mod_exp(r, a, exponent, modulus, ctx));
    return r;
}

// A square root, or NULL where there is none.
static BIGNUM *square_root(const BIGNUM *a, const BIGNUM *modulus) {
    if (BN_kronecker(a, modulus, ctx) == -1) return NULL;
    BIGNUM *r = BN_mod_sqrt(NULL, a, modulus, ctx);
    MUST(r != NULL);
    return r;
}

// A pseudo-random number in 1..n-1: 1 + (SHA-256(label " 0") || SHA-256(label " 1")) mod (n - 1), big-endian.
static BIGNUM *draw(const struct curve *c, const char *use, unsigned counter) {
    unsigned char digest[2 * SHA256_DIGEST_LENGTH];
    for (int block = 0; block < 2; block++) {
        char label[128];
        int length = snprintf(label, sizeof label, "tobari/vectors/curve/1 %s %s %u %d", c->name, use, counter, block);
        MUST(length > 0 && (size_t)length < sizeof label);
        SHA256((const unsigned char *)label, (size_t)length, digest + block * SHA256_DIGEST_LENGTH);
    }
    BIGNUM *r = BN_bin2bn(digest, sizeof digest, NULL);
    MUST(r != NULL && BN_mod(r, r, offset(c->n, -1), ctx));
    return offset(r, 1);
}

// ---- Points --------------------------------------------------------------------------------------------------------

static EC_POINT *blank(const struct curve *c) {
    EC_POINT *r = EC_POINT_new(c->group);
    MUST(r != NULL);
    return r;
}

static EC_POINT *identity(const struct curve *c) {
    EC_POINT *r = blank(c);
    MUST(EC_POINT_set_to_infinity(c->group, r));
    return r;
}

// k times the generator
static EC_POINT *times_generator(const struct curve *c, const BIGNUM *k) {
    EC_POINT *r = blank(c);
    MUST(EC_POINT_mul(c->group, r, k, NULL, NULL, ctx));
    return r;
}

// k times q
static EC_POINT *times(const struct curve *c, const BIGNUM *k, const EC_POINT *q) {
    EC_POINT *r = blank(c);
    MUST(EC_POINT_mul(c->group, r, NULL, q, k, ctx));
    return r;
}

static EC_POINT *add(const struct curve *c, const EC_POINT *p, const EC_POINT *q) {
    EC_POINT *r = blank(c);
    MUST(EC_POINT_add(c->group, r, p, q, ctx));
    return r;
}

static EC_POINT *negate(const struct curve *c, const EC_POINT *p) {
    EC_POINT *r = EC_POINT_dup(p, c->group);
    MUST(r != NULL && EC_POINT_invert(c->group, r, ctx));
    return r;
}

static EC_POINT *draw_point(const struct curve *c, const char *use, unsigned counter) {
    return times_generator(c, draw(c, use, counter));
}

// The point (x, y), which OpenSSL refuses when it is not on the curve.
static EC_POINT *point(const struct curve *c, const BIGNUM *x, const BIGNUM *y) {
    EC_POINT *r = blank(c);
    MUST(EC_POINT_set_affine_coordinates(c->group, r, x, y, ctx));
    return r;
}

static void coordinates(const struct curve *c, const EC_POINT *p, BIGNUM **x, BIGNUM **y) {
    *x = number(0);
    *y = number(0);
    MUST(EC_POINT_get_affine_coordinates(c->group, p, *x, *y, ctx));
}

// x^3 + ax + b
static BIGNUM *right_side(const struct curve *c, const BIGNUM *x) {
    BIGNUM *r = sum(product(x, x, c->p), c->a, c->p);
    return sum(product(r, x, c->p), c->b, c->p);
}

// The point with the smallest x, other than the generator's, and even y.
static EC_POINT *smallest_x(const struct curve *c) {
    EC_POINT *r = blank(c);
    for (unsigned long x = 0;; x++) {
        int found = EC_POINT_set_compressed_coordinates(c->group, r, number(x), 0, ctx);
        if (found && !BN_is_word(c->gx, x)) return r;
        ERR_clear_error();
    }
}

// A point with a small positive y, so that y + p still fits the width, and x not small: the first y for which Cardano's
// formula, x = v - a/(3v), v^3 = u = -q/2 + sqrt(q^2/4 + a^3/27), q = b - y^2, stays in the field and gives v by one
// power: with p - 1 = 3^s t (3 not dividing t) and u^t = 1, v = u^(1/3 mod t).
static EC_POINT *small_y(const struct curve *c) {
    const BIGNUM *three = number(3), *p = c->p;
    BIGNUM *t = offset(p, -1);
    while (BN_mod_word(t, 3) == 0) MUST(BN_div_word(t, 3) == 0);
    BIGNUM *exponent = BN_mod_inverse(NULL, three, t, ctx), *third = quotient(c->a, three, p);
    BIGNUM *third_cubed = product(product(third, third, p), third, p);
    for (unsigned long y = 1;; y++) {
        BIGNUM *half = quotient(difference(number(y * y), c->b, p), number(2), p);  // -q/2
        BIGNUM *root = square_root(sum(product(half, half, p), third_cubed, p), p);
        if (root == NULL) continue;
        BIGNUM *u = sum(half, root, p);
        if (BN_is_zero(u)) u = difference(half, root, p);
        if (!BN_is_one(power(u, t, p))) continue;
        BIGNUM *v = power(u, exponent, p);
        BIGNUM *x = difference(v, quotient(third, v, p), p);
        if (BN_num_bits(x) > 32) return point(c, x, number(y));
    }
}

// A point with the same y and another x: the line through it is horizontal. x' solves X^2 + xX + x^2 + a = 0.
static EC_POINT *same_y(const struct curve *c, const EC_POINT *q) {
    BIGNUM *x, *y, *p = c->p;
    coordinates(c, q, &x, &y);
    BIGNUM *square = product(number(3), product(x, x, p), p);
    BIGNUM *root = square_root(difference(number(0), sum(square, product(number(4), c->a, p), p), p), p);
    if (root == NULL) return NULL;
    return point(c, quotient(difference(root, x, p), number(2), p), y);
}

// ---- Fields of a line: each is written with the space before it -----------------------------------------------------

static void put_scalar(const struct curve *c, const BIGNUM *k) {
    char *text = BN_bn2hex(k);
    MUST(text != NULL);
    const char *digits = text + strspn(text, "0");
    fputc(' ', c->out);
    for (const char *d = *digits ? digits : "0"; *d; d++) fputc(tolower(*d), c->out);
    OPENSSL_free(text);
}

static void put_bytes(const struct curve *c, char before, const unsigned char *bytes, size_t length) {
    fputc(before, c->out);
    for (size_t i = 0; i < length; i++) fprintf(c->out, "%02x", bytes[i]);
}

static void put_coordinate(const struct curve *c, char before, const BIGNUM *x) {
    unsigned char bytes[MAX_BYTES];
    MUST(BN_bn2binpad(x, bytes, c->width) == c->width);
    put_bytes(c, before, bytes, (size_t)c->width);
}

static void put_point(const struct curve *c, const EC_POINT *p) {
    BIGNUM *x, *y;
    if (EC_POINT_is_at_infinity(c->group, p)) {
        fputs(" inf", c->out);
    } else {
        coordinates(c, p, &x, &y);
        put_coordinate(c, ' ', x);
        put_coordinate(c, ',', y);
    }
}

static void comment(const struct curve *c, const char *text) {
    fprintf(c->out, "# %s\n", text);
}

// ---- Records -------------------------------------------------------------------------------------------------------

static void put_mul(const struct curve *c, const BIGNUM *k) {
    fputs("mul", c->out);
    put_scalar(c, k);
    put_point(c, times_generator(c, k));
    fputc('\n', c->out);
}

// digit, digit, digit, ... every `period` bits, as often as stays below 2^(bits of n - 1)
static BIGNUM *repeated(const struct curve *c, int period, const BIGNUM *digit) {
    BIGNUM *r = number(0), *shifted = number(0);
    for (int at = 0; at + BN_num_bits(digit) < BN_num_bits(c->n); at += period)
        MUST(BN_lshift(shifted, digit, at) && BN_add(r, r, shifted));
    return r;
}

static void write_mul_edges(const struct curve *c) {
    comment(c, "mul: 0 to 20, the order n and its neighbourhood, its half");
    for (unsigned long k = 0; k <= 20; k++) put_mul(c, number(k));
    for (int below = 0; below <= 3; below++) put_mul(c, offset(c->n, -below));
    BIGNUM *half = number(0);
    MUST(BN_rshift1(half, c->n));
    for (int above = 0; above <= 1; above++) put_mul(c, offset(half, above));

    comment(c, "mul: powers of two at the ends of 32- and 64-bit limbs");
    static const int limbs[] = {31, 32, 63, 64, 127, 128, 159, 160, 191, 192, 255, 256, 319, 320, 383};
    for (size_t i = 0; i < COUNT(limbs); i++)
        if (limbs[i] < BN_num_bits(c->n)) put_mul(c, power_of_two(limbs[i], 0));
}

static void write_mul_patterns(const struct curve *c) {
    int top = BN_num_bits(c->n) - 1;
    comment(c, "mul: one below, at and above some ends of 6-, 8- and 12-bit windows, the last near the top");
    int windows[] = {6, 8, 12, 126, (top - 1) / 6 * 6};
    for (size_t i = 0; i < COUNT(windows); i++)
        for (int delta = -1; delta <= 1; delta++) put_mul(c, power_of_two(windows[i], delta));

    comment(c, "mul: all ones, up to one bit less than n");
    int ones[] = {32, 64, 128, 192, 256, top};
    for (size_t i = 0; i < COUNT(ones); i++)
        if (ones[i] <= top) put_mul(c, power_of_two(ones[i], -1));

    comment(c, "mul: the highest bit of every 5-, 6-, 8- and 12-bit window; ones in every other half limb, or limb");
    static const int widths[] = {5, 6, 8, 12};
    for (size_t i = 0; i < COUNT(widths); i++) put_mul(c, repeated(c, widths[i], power_of_two(widths[i] - 1, 0)));
    put_mul(c, repeated(c, 64, power_of_two(32, -1)));
    BIGNUM *odd_limb = number(0);
    MUST(BN_lshift(odd_limb, power_of_two(64, -1), 64));
    put_mul(c, repeated(c, 128, odd_limb));

    comment(c, "mul: 32 pseudo-random numbers");
    for (unsigned i = 0; i < 32; i++) put_mul(c, draw(c, "mul", i));
}

static void put_add(const struct curve *c, const EC_POINT *p, const EC_POINT *q) {
    fputs("add", c->out);
    put_point(c, p);
    put_point(c, q);
    put_point(c, add(c, p, q));
    fputc('\n', c->out);
}

static void write_add(const struct curve *c) {
    const EC_POINT *g = times_generator(c, number(1)), *two_g = times_generator(c, number(2));
    const EC_POINT *p = draw_point(c, "add-edge", 0), *inf = identity(c);
    const EC_POINT *minus_p = negate(c, p), *two_p = add(c, p, p);
    comment(c, "add: G+G G+2G G+(-G)");
    put_add(c, g, g);
    put_add(c, g, two_g);
    put_add(c, g, negate(c, g));
    comment(c, "add: P+P P+(-P) P+inf inf+P inf+inf 2P+(-P) P+(-2P)");
    put_add(c, p, p);
    put_add(c, p, minus_p);
    put_add(c, p, inf);
    put_add(c, inf, p);
    put_add(c, inf, inf);
    put_add(c, two_p, minus_p);
    put_add(c, p, negate(c, two_p));

    comment(c, "add: equal y, different x (x x', then x' x''); then y of one the negative of the other's");
    EC_POINT *q = NULL, *other = NULL;
    for (unsigned i = 0; other == NULL; i++) other = same_y(c, q = draw_point(c, "add-same-y", i));
    put_add(c, q, other);
    put_add(c, other, negate(c, add(c, q, other)));
    put_add(c, q, negate(c, other));

    comment(c, "add: 16 pseudo-random pairs");
    for (unsigned i = 0; i < 16; i++) put_add(c, draw_point(c, "add-left", i), draw_point(c, "add-right", i));
}

static void put_var(const struct curve *c, const BIGNUM *k, const EC_POINT *q) {
    fputs("var", c->out);
    put_scalar(c, k);
    put_point(c, q);
    put_point(c, times(c, k, q));
    fputc('\n', c->out);
}

static void write_var(const struct curve *c) {
    comment(c, "var: 0, 1, 2, n-2, n-1 and n times one point");
    const EC_POINT *q = draw_point(c, "var-edge", 0);
    for (unsigned long k = 0; k <= 2; k++) put_var(c, number(k), q);
    for (int below = 2; below >= 0; below--) put_var(c, offset(c->n, -below), q);
    if (BN_is_zero(c->a)) {
        comment(c, "var: L and L+1, where L^2 + L + 1 = 0 mod n, so that L*(x, y) = (x', y) with another x'");
        BIGNUM *root = square_root(difference(number(0), number(3), c->n), c->n);
        MUST(root != NULL);
        BIGNUM *lambda = quotient(difference(root, number(1), c->n), number(2), c->n);
        put_var(c, lambda, q);
        put_var(c, offset(lambda, 1), q);
    }
    comment(c, "var: 4 pseudo-random pairs");
    for (unsigned i = 0; i < 4; i++) put_var(c, draw(c, "var", i), draw_point(c, "var-point", i));
}

static void put_sec1(const struct curve *c, const EC_POINT *p) {
    static const point_conversion_form_t forms[] = {POINT_CONVERSION_COMPRESSED, POINT_CONVERSION_UNCOMPRESSED};
    fputs("sec1", c->out);
    put_point(c, p);
    for (size_t i = 0; i < COUNT(forms); i++) {
        unsigned char bytes[1 + 2 * MAX_BYTES];
        size_t length = EC_POINT_point2oct(c->group, p, forms[i], bytes, sizeof bytes, ctx);
        EC_POINT *back = blank(c);
        MUST(length > 0 && EC_POINT_oct2point(c->group, back, bytes, length, ctx));
        MUST(EC_POINT_cmp(c->group, back, p, ctx) == 0);
        put_bytes(c, ' ', bytes, length);
    }
    fputc('\n', c->out);
}

static void write_sec1(const struct curve *c) {
    const EC_POINT *points[] = {times_generator(c, number(1)), smallest_x(c), small_y(c), draw_point(c, "sec1", 0)};
    comment(c, "sec1: the generator, the smallest x, a small y, a pseudo-random point; each, then its negative");
    for (size_t i = 0; i < COUNT(points); i++) {
        put_sec1(c, points[i]);
        put_sec1(c, negate(c, points[i]));
    }
}

// Whether OpenSSL decodes tag || x, or tag || x || y.
static int decodes(const struct curve *c, unsigned char tag, const BIGNUM *x, const BIGNUM *y) {
    unsigned char bytes[1 + 2 * MAX_BYTES];
    size_t length = 1 + (size_t)c->width * (y != NULL ? 2 : 1);
    bytes[0] = tag;
    MUST(BN_bn2binpad(x, bytes + 1, c->width) == c->width);
    MUST(y == NULL || BN_bn2binpad(y, bytes + 1 + c->width, c->width) == c->width);
    int decoded = EC_POINT_oct2point(c->group, blank(c), bytes, length, ctx);
    ERR_clear_error();
    return decoded;
}

static void put_off(const struct curve *c, const char *why, const BIGNUM *x, const BIGNUM *y) {
    MUST(!decodes(c, POINT_CONVERSION_UNCOMPRESSED, x, y));
    fprintf(c->out, "# off: %s\noff", why);
    put_coordinate(c, ' ', x);
    put_coordinate(c, ',', y);
    fputc('\n', c->out);
}

// The first x from `start` on whose right side plus `shift` is a square (residue = 1) or not (residue = -1).
static BIGNUM *first_x(const struct curve *c, const BIGNUM *start, unsigned long shift, int residue) {
    for (BIGNUM *x = sum(start, number(0), c->p);; x = sum(x, number(1), c->p))
        if (BN_kronecker(sum(right_side(c, x), number(shift), c->p), c->p, ctx) == residue) return x;
}

static void write_off(const struct curve *c, const struct curve *other) {
    BIGNUM *x, *y, *above = number(0);
    put_off(c, "zero and zero", number(0), number(0));
    put_off(c, "the generator's y plus one", c->gx, sum(c->gy, number(1), c->p));
    x = first_x(c, draw(c, "off-b-plus-1", 0), 1, 1);
    y = square_root(sum(right_side(c, x), number(1), c->p), c->p);
    put_off(c, "a point of y^2 = x^3 + ax + b + 1", x, y);
    put_off(c, "y = 0, a point of order 2 on a curve with another b", draw(c, "off-order-2", 0), number(0));
    put_off(c, "an x without a point, the generator's y", first_x(c, draw(c, "off-no-point", 0), 0, -1), c->gy);
    coordinates(c, smallest_x(c), &x, &y);
    MUST(BN_add(above, x, c->p));
    put_off(c, "a point whose x is written as x + p", above, y);
    coordinates(c, small_y(c), &x, &y);
    MUST(BN_add(above, y, c->p));
    put_off(c, "a point whose y is written as y + p", x, above);
    char why[64];
    snprintf(why, sizeof why, "the generator of %s", other->name);
    put_off(c, why, other->gx, other->gy);
}

static void put_nosqrt(const struct curve *c, const BIGNUM *x) {
    MUST(!decodes(c, 2, x, NULL) && !decodes(c, 3, x, NULL));
    fputs("nosqrt", c->out);
    put_coordinate(c, ' ', x);
    fputc('\n', c->out);
}

static void write_nosqrt(const struct curve *c) {
    comment(c, "nosqrt: the four smallest x without a point, and four from pseudo-random places on");
    BIGNUM *x = first_x(c, number(0), 0, -1);
    for (int i = 0; i < 4; i++, x = first_x(c, offset(x, 1), 0, -1)) put_nosqrt(c, x);
    for (unsigned i = 0; i < 4; i++) put_nosqrt(c, first_x(c, draw(c, "nosqrt", i), 0, -1));
}

static void put_elgamal(const struct curve *c, const BIGNUM *s, const BIGNUM *r, long m) {
    EC_POINT *message = times_generator(c, number((unsigned long)labs(m)));
    if (m < 0) message = negate(c, message);
    EC_POINT *public_key = times_generator(c, s);
    fputs("elgamal", c->out);
    put_scalar(c, s);
    put_scalar(c, r);
    fprintf(c->out, " %ld", m);
    put_point(c, add(c, message, times(c, r, public_key)));
    put_point(c, times_generator(c, r));
    fputc('\n', c->out);
}

static void write_elgamal(const struct curve *c) {
    static const long messages[] = {0, 1, -1, 32767, 32768, -32768, 33554432, -33554432};
    const BIGNUM *one = number(1), *last = offset(c->n, -1);
    comment(c, "elgamal: pseudo-random key and randomness");
    for (unsigned i = 0; i < COUNT(messages); i++)
        put_elgamal(c, draw(c, "elgamal-key", i), draw(c, "elgamal-randomness", i), messages[i]);
    comment(c, "elgamal: key 1; randomness 1; randomness n-1; mP = r(sP), a doubling; mP = -r(sP), S is the identity");
    put_elgamal(c, one, draw(c, "elgamal-edge", 0), 12345);
    put_elgamal(c, draw(c, "elgamal-edge", 1), one, -12345);
    put_elgamal(c, draw(c, "elgamal-edge", 2), last, 32767);
    put_elgamal(c, one, one, 1);
    put_elgamal(c, one, one, -1);
}

// ---- Curves --------------------------------------------------------------------------------------------------------

static BIGNUM **field(struct curve *c, const char *key) {
    static const char *const keys[] = {"p", "a", "b", "gx", "gy", "n"};
    BIGNUM **const fields[] = {&c->p, &c->a, &c->b, &c->gx, &c->gy, &c->n};
    for (size_t i = 0; i < COUNT(keys); i++)
        if (strcmp(key, keys[i]) == 0) return fields[i];
    return NULL;
}

// Reads parameters.json, which has one field on a line; lines other than "key": "0xhex" and the name are passed over.
static size_t read_curves(const char *path, struct curve *curves) {
    FILE *in = fopen(path, "r");
    MUST(in != NULL);
    size_t count = 0;
    char line[512], key[16], value[256];
    while (fgets(line, sizeof line, in)) {
        if (sscanf(line, " \"%15[^\"]\": \"%255[^\"]\"", key, value) != 2) continue;
        if (strcmp(key, "name") == 0) {
            MUST(count < MAX_CURVES && strlen(value) < sizeof curves->name);
            strcpy(curves[count++].name, value);
            continue;
        }
        MUST(count > 0);
        BIGNUM **slot = field(&curves[count - 1], key);
        if (slot == NULL) continue;
        MUST(*slot == NULL && strncmp(value, "0x", 2) == 0 && BN_hex2bn(slot, value + 2) == (int)strlen(value) - 2);
    }
    fclose(in);
    return count;
}

// OpenSSL's own curve of this name, or NULL.
static EC_GROUP *named_group(const char *name) {
    char nist[16];
    snprintf(nist, sizeof nist, "P-%.8s", name + strcspn(name, "0123456789"));
    int nid = strncmp(name, "NIST_P", 6) == 0 ? EC_curve_nist2nid(nist) : OBJ_sn2nid(name);
    return nid == NID_undef ? NULL : EC_GROUP_new_by_curve_name(nid);
}

// Whether `group` has this curve's p, a, b, generator, order, and cofactor 1. (EC_GROUP_cmp fails for groups whose
// arithmetic differs.)
static int has_parameters(const struct curve *c, const EC_GROUP *group) {
    BIGNUM *p = number(0), *a = number(0), *b = number(0), *x = number(0), *y = number(0);
    MUST(EC_GROUP_get_curve(group, p, a, b, ctx) && EC_GROUP_get0_generator(group) != NULL);
    MUST(EC_POINT_get_affine_coordinates(group, EC_GROUP_get0_generator(group), x, y, ctx));
    return BN_cmp(p, c->p) == 0 && BN_cmp(a, c->a) == 0 && BN_cmp(b, c->b) == 0 && BN_cmp(x, c->gx) == 0 &&
           BN_cmp(y, c->gy) == 0 && BN_cmp(EC_GROUP_get0_order(group), c->n) == 0 &&
           BN_is_one(EC_GROUP_get0_cofactor(group));
}

static void build_group(struct curve *c) {
    MUST(c->p && c->a && c->b && c->gx && c->gy && c->n);
    MUST((c->width = BN_num_bytes(c->p)) <= MAX_BYTES);
    c->group = EC_GROUP_new_curve_GFp(c->p, c->a, c->b, ctx);
    MUST(c->group != NULL);
    MUST(EC_GROUP_set_generator(c->group, point(c, c->gx, c->gy), c->n, BN_value_one()));
    MUST(EC_GROUP_check(c->group, ctx));
    EC_GROUP *named = named_group(c->name);
    MUST(named == NULL || has_parameters(c, named));
    fprintf(stderr, "%s: %s\n", c->name, named ? "equal to OpenSSL's own" : "OpenSSL has none of this name");
}

// Of the other curves whose generator's coordinates are below this one's p: one with the largest p.
static const struct curve *neighbour(const struct curve *c, const struct curve *curves, size_t count) {
    const struct curve *best = NULL;
    for (const struct curve *d = curves; d < curves + count; d++) {
        if (has_parameters(c, d->group) || BN_cmp(d->gx, c->p) >= 0 || BN_cmp(d->gy, c->p) >= 0) continue;
        if (best == NULL || BN_cmp(d->p, best->p) > 0) best = d;
    }
    MUST(best != NULL);
    return best;
}

static void write_curve(struct curve *c, const struct curve *other, const char *directory) {
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s.txt", directory, c->name);
    MUST(length > 0 && (size_t)length < sizeof path);
    MUST((c->out = fopen(path, "wx")) != NULL);
    fprintf(c->out, "# Known answers for %s: format in vectors/README.md\n", c->name);
    fprintf(c->out, "# made by make.c with %s\n", OpenSSL_version(OPENSSL_VERSION));
    write_mul_edges(c);
    write_mul_patterns(c);
    write_add(c);
    write_var(c);
    write_sec1(c);
    write_off(c, other);
    write_nosqrt(c);
    write_elgamal(c);
    MUST(fclose(c->out) == 0);
}

int main(int argc, char **argv) {
    static struct curve curves[MAX_CURVES];
    if (argc != 3) return fprintf(stderr, "usage: %s parameters.json OUTPUT_DIRECTORY\n", argv[0]), 2;
    MUST((ctx = BN_CTX_new()) != NULL);
    size_t count = read_curves(argv[1], curves);
    MUST(count > 0);
    for (size_t i = 0; i < count; i++) build_group(&curves[i]);
    for (size_t i = 0; i < count; i++) {
        int earlier = 0;
        for (size_t j = 0; j < i; j++) earlier |= has_parameters(&curves[i], curves[j].group);
        if (!earlier) write_curve(&curves[i], neighbour(&curves[i], curves, count), argv[2]);
    }
    return 0;
}
