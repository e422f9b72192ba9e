//! Inversion modulo an odd prime in constant time, by division steps.
//!
//! Bernstein and Yang, "Fast constant-time gcd computation and modular inversion" (TCHES 2019(3)),
//! with steps that start from `δ = 1/2`, which needs fewer steps. With `θ = δ - 1/2`, from `θ = 0`,
//! `f = p`, `g = x`, a step is
//!
//! ```text
//! (θ, f, g) ← (-θ, g, (g - f)/2)               if θ ≥ 0 and g is odd
//!             (θ + 1, f, (g + (g mod 2) f)/2)  otherwise
//! ```
//!
//! After `(45907 b + 26313)/19929` steps `g = 0` and `f = ±1` for `b`-bit inputs (Wuille's
//! convex-hull bound, 2021). A round of sixty-two steps reads only the lowest words and yields a
//! matrix, which is then applied to `f, g` exactly and to `d, e` modulo `p`. The invariants
//! `d x ≡ f` and `e x ≡ g` hold throughout, so at the end `x^(-1) = ±d`. This takes a fifth of the
//! time of an exponentiation.
//!
//! For public numbers [`Modulus::vartime_invert`] does the same steps until `g = 0`, with runs of
//! even `g` at once.
//!
//! Numbers are signed, in limbs of 62 bits of which only the highest has a sign.

/// Steps a round, and bits of a limb.
const STEPS: u32 = 62;
const MASK: u64 = u64::MAX >> (64 - STEPS);
/// Limbs of the longest number: 384 bits and a sign.
const MAX_LIMBS: usize = 7;

/// A signed number in limbs of 62 bits, the lower ones in `[0, 2^62)`.
type Signed = [i64; MAX_LIMBS];

/// The matrix of 62 steps on `(f, g)`, times `2^62`, by rows.
struct Rounds {
    f: [i64; 2],
    g: [i64; 2],
}

/// A modulus of `BITS` bits, prepared.
pub(crate) struct Modulus<const L: usize> {
    limbs: Signed,
    /// Limbs in use.
    count: usize,
    /// `1/p mod 2^62`.
    inverse: u64,
    rounds: u32,
}

impl<const L: usize> Modulus<L> {
    /// Prepares an odd `p` of `bits` bits; `negated_inverse` is `-1/p mod 2^64`.
    pub(super) const fn new(p: &[u64; L], bits: u32, negated_inverse: u64) -> Self {
        let count = (bits + 2).div_ceil(STEPS) as usize;
        let rounds = ((45_907 * bits + 26_313) / 19_929 + 1).div_ceil(STEPS);
        Self { limbs: split(p), count, inverse: negated_inverse.wrapping_neg() & MASK, rounds }
    }

    /// `1/x mod p`, and zero for zero, for `x < p`.
    #[inline(always)]
    pub(super) fn invert(&self, x: &[u64; L]) -> [u64; L] {
        let (mut f, mut g) = (self.limbs, split(x));
        let (mut d, mut e) = ([0; MAX_LIMBS], [0; MAX_LIMBS]);
        e[0] = 1;
        let mut theta = 0;
        for _ in 0..self.rounds {
            let matrix = steps(&mut theta, low_word(&f), low_word(&g));
            (f, g) = self.apply(&matrix, &f, &g);
            (d, e) = self.apply_modular(&matrix, &d, &e);
        }
        self.words(&d, super::opaque((f[self.count - 1] >> 63) as u64) as i64)
    }

    /// The same in a time that depends on `x`.
    #[inline(always)]
    pub(super) fn vartime_invert(&self, x: &[u64; L]) -> [u64; L] {
        let (mut f, mut g) = (self.limbs, split(x));
        let (mut d, mut e) = ([0; MAX_LIMBS], [0; MAX_LIMBS]);
        e[0] = 1;
        let mut theta = 0;
        while g != [0; MAX_LIMBS] {
            let matrix = vartime_steps(&mut theta, low_word(&f), low_word(&g));
            (f, g) = self.apply(&matrix, &f, &g);
            (d, e) = self.apply_modular(&matrix, &d, &e);
        }
        self.words(&d, f[self.count - 1] >> 63)
    }

    /// The matrix times `(f, g)`, over `2^62`: exact.
    #[inline(always)]
    fn apply(&self, matrix: &Rounds, f: &Signed, g: &Signed) -> (Signed, Signed) {
        let (mut new_f, mut new_g) = ([0; MAX_LIMBS], [0; MAX_LIMBS]);
        let (mut carry_f, mut carry_g) = (dot(&matrix.f, f[0], g[0]) >> STEPS, dot(&matrix.g, f[0], g[0]) >> STEPS);
        for i in 1..self.count {
            carry_f += dot(&matrix.f, f[i], g[i]);
            carry_g += dot(&matrix.g, f[i], g[i]);
            (new_f[i - 1], new_g[i - 1]) = (limb(carry_f), limb(carry_g));
            (carry_f, carry_g) = (carry_f >> STEPS, carry_g >> STEPS);
        }
        (new_f[self.count - 1], new_g[self.count - 1]) = (carry_f as i64, carry_g as i64);
        (new_f, new_g)
    }

    /// The matrix times `(d, e)`, over `2^62` modulo `p`; keeps both in `(-2p, p)`.
    #[inline(always)]
    fn apply_modular(&self, matrix: &Rounds, d: &Signed, e: &Signed) -> (Signed, Signed) {
        let top = self.count - 1;
        let (d_sign, e_sign) = (d[top] >> 63, e[top] >> 63);
        // the multiple of p to add: one for each negative operand, then enough to make the lowest
        // limb zero
        let multiple = |row: &[i64; 2]| {
            let base = (row[0] & d_sign).wrapping_add(row[1] & e_sign);
            let lowest = dot(row, d[0], e[0]) as u64;
            base.wrapping_sub((self.inverse.wrapping_mul(lowest).wrapping_add(base as u64) & MASK) as i64)
        };
        let (d_multiple, e_multiple) = (multiple(&matrix.f), multiple(&matrix.g));
        let (mut new_d, mut new_e) = ([0; MAX_LIMBS], [0; MAX_LIMBS]);
        let (mut carry_d, mut carry_e) = (0i128, 0i128);
        for i in 0..self.count {
            let modulus = i128::from(self.limbs[i]);
            carry_d += dot(&matrix.f, d[i], e[i]) + modulus * i128::from(d_multiple);
            carry_e += dot(&matrix.g, d[i], e[i]) + modulus * i128::from(e_multiple);
            if i > 0 {
                (new_d[i - 1], new_e[i - 1]) = (limb(carry_d), limb(carry_e));
            }
            (carry_d, carry_e) = (carry_d >> STEPS, carry_e >> STEPS);
        }
        (new_d[top], new_e[top]) = (carry_d as i64, carry_e as i64);
        (new_d, new_e)
    }

    /// `d` in `(-2p, p)`, negated if `sign` is all ones, as words in `[0, p)`.
    #[inline(always)]
    fn words(&self, d: &Signed, sign: i64) -> [u64; L] {
        let mut value = self.add_if_negative(d);
        // negated: in (-p, 2p) before, so in (-p, p) after one correction
        for limb in &mut value[..self.count] {
            *limb = (*limb ^ sign).wrapping_sub(sign);
        }
        let value = self.add_if_negative(&self.add_if_negative(&self.ripple(&value)));
        let mut words = [0; L];
        for (i, word) in words.iter_mut().enumerate() {
            let (limb, offset) = (64 * i / STEPS as usize, 64 * i as u32 % STEPS);
            *word = value[limb] as u64 >> offset;
            if limb + 1 < MAX_LIMBS {
                *word |= (value[limb + 1] as u64) << (STEPS - offset);
            }
            if offset > STEPS - 2 && limb + 2 < MAX_LIMBS {
                *word |= (value[limb + 2] as u64) << (2 * STEPS - offset);
            }
        }
        words
    }

    /// `value + p` if `value` is negative, else `value`.
    #[inline(always)]
    fn add_if_negative(&self, value: &Signed) -> Signed {
        let mask = super::opaque((value[self.count - 1] >> 63) as u64) as i64;
        let mut sum = *value;
        for (limb, modulus) in sum.iter_mut().zip(&self.limbs) {
            *limb += modulus & mask;
        }
        self.ripple(&sum)
    }

    #[inline(always)]
    fn ripple(&self, value: &Signed) -> Signed {
        let mut out = *value;
        for i in 0..self.count - 1 {
            out[i + 1] += out[i] >> STEPS;
            out[i] &= MASK as i64;
        }
        out
    }
}

/// Words to limbs of 62 bits.
const fn split<const L: usize>(words: &[u64; L]) -> Signed {
    let mut out = [0; MAX_LIMBS];
    let mut i = 0;
    while i < MAX_LIMBS {
        let (word, offset) = (STEPS as usize * i / 64, STEPS * i as u32 % 64);
        let low = if word < L { words[word] >> offset } else { 0 };
        let high = if offset > 2 && word + 1 < L { words[word + 1] << (64 - offset) } else { 0 };
        out[i] = ((low | high) & MASK) as i64;
        i += 1;
    }
    out
}

/// The lowest 64 bits.
#[inline(always)]
fn low_word(value: &Signed) -> u64 {
    value[0] as u64 | (value[1] as u64) << STEPS
}

#[inline(always)]
fn dot(row: &[i64; 2], x: i64, y: i64) -> i128 {
    i128::from(row[0]) * i128::from(x) + i128::from(row[1]) * i128::from(y)
}

#[inline(always)]
fn limb(carry: i128) -> i64 {
    (carry as u64 & MASK) as i64
}

/// Sixty-two steps on the lowest words.
#[inline(always)]
fn steps(theta: &mut i64, mut f: u64, mut g: u64) -> Rounds {
    let (mut u, mut v, mut q, mut r) = (1u64, 0u64, 0u64, 1u64);
    for _ in 0..STEPS {
        let odd = (g & 1).wrapping_neg();
        let swap = odd & !((*theta >> 63) as u64); // all ones iff θ ≥ 0 and g odd
        // (f, g) ← (g, -f) where swapped
        let (f_diff, u_diff, v_diff) = ((f ^ g) & swap, (u ^ q) & swap, (v ^ r) & swap);
        (f, u, v) = (f ^ f_diff, u ^ u_diff, v ^ v_diff);
        g = ((g ^ f_diff) ^ swap).wrapping_sub(swap);
        q = ((q ^ u_diff) ^ swap).wrapping_sub(swap);
        r = ((r ^ v_diff) ^ swap).wrapping_sub(swap);
        *theta = (*theta ^ swap as i64) + 1; // -θ where swapped
        g = g.wrapping_add(f & odd) >> 1;
        q = q.wrapping_add(u & odd);
        r = r.wrapping_add(v & odd);
        (u, v) = (u << 1, v << 1);
    }
    Rounds { f: [u as i64, v as i64], g: [q as i64, r as i64] }
}

/// The same, with all steps of even `g` at once, and up to six steps of odd `g` without a swap.
#[inline(always)]
fn vartime_steps(theta: &mut i64, mut f: u64, mut g: u64) -> Rounds {
    let (mut u, mut v, mut q, mut r) = (1u64, 0u64, 0u64, 1u64);
    let mut left = STEPS;
    loop {
        let zeros = (g | u64::MAX << left).trailing_zeros();
        (g, u, v) = (g >> zeros, u << zeros, v << zeros);
        *theta += i64::from(zeros);
        left -= zeros;
        if left == 0 {
            return Rounds { f: [u as i64, v as i64], g: [q as i64, r as i64] };
        }
        if *theta >= 0 {
            *theta = -*theta - 1; // the halving, which is to come, adds one
            (f, g) = (g, f.wrapping_neg());
            (u, q) = (q, u.wrapping_neg());
            (v, r) = (r, v.wrapping_neg());
        }
        // -θ steps swap nothing: w f cancels as many low bits of g
        let bits = left.min((-*theta).min(6) as u32);
        let w = f.wrapping_mul(g).wrapping_mul(f.wrapping_mul(f).wrapping_sub(2)) & ((1 << bits) - 1);
        g = g.wrapping_add(f.wrapping_mul(w));
        q = q.wrapping_add(u.wrapping_mul(w));
        r = r.wrapping_add(v.wrapping_mul(w));
    }
}
