//! Results of Microsoft SEAL, read from `vectors/lattice`; `vectors/README.md` says how they were
//! made.
//!
//! SEAL's transform keeps the value at `ψ^(2 rev(i) + 1)` at place `i`, as [`Ntt`] does, but its
//! `ψ` is the **smallest** root of unity of order `2N` modulo each prime, `ψ = φ^u` for our `φ` and
//! an odd `u`. So its value at place `i` is ours at the place of the exponent `u (2 rev(i) + 1)`.
//! Its slots are at the powers of 3; every other one is the negative of a power of 5.

use super::SecretKey;
use crate::params::{LatticeParameters, Plaintext};
use crate::ring::{Eval, Modulus, Ntt, Poly, Reconstruction, reverse};

/// Hexadecimal digits of a residue in a file.
const DIGITS: usize = 10;

/// A file of records, and its parameters: one special prime, a digit for each data prime.
pub(crate) struct Answers {
    pub(crate) name: String,
    pub(crate) parameters: LatticeParameters,
    records: Vec<Vec<String>>,
}

impl Answers {
    pub(crate) fn read(name: &str) -> Self {
        let path = format!("{}/../../vectors/lattice/{name}.txt", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let records: Vec<Vec<String>> = lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect();
        let numbers = |kind: &str| -> Vec<u64> {
            let found = records.iter().find(|fields| fields[0] == kind);
            found.map_or(Vec::new(), |fields| fields[1..].iter().map(|field| field.parse().unwrap()).collect())
        };
        let plaintext = match numbers("modulus")[..] {
            [t] => Plaintext::Integers(Modulus::new(t).unwrap()),
            _ => Plaintext::Approximate,
        };
        let (degree, primes) = (numbers("degree")[0] as usize, numbers("primes"));
        let (special, data) = primes.split_last().unwrap();
        let parameters =
            LatticeParameters::insecure_for_tests(degree, data, &[*special], data.len(), plaintext).unwrap();
        Self { name: name.to_owned(), parameters, records }
    }

    /// All records of a kind: the fields after it.
    pub(crate) fn all(&self, kind: &str) -> impl Iterator<Item = &[String]> {
        self.records.iter().filter(move |fields| fields[0] == kind).map(|fields| &fields[1..])
    }

    /// The fields after kind and name.
    pub(crate) fn one(&self, kind: &str, name: &str) -> &[String] {
        &self.all(kind).find(|fields| fields[0] == name).unwrap_or_else(|| panic!("no {kind} {name}"))[1..]
    }

    /// SEAL's secret: one row of values for each prime, or for the first ones only. All rows must
    /// belong to one ternary polynomial.
    pub(crate) fn secret(&self) -> SecretKey {
        let ring = self.parameters.ring();
        let rows = self.all("secret").next().unwrap();
        let tables = ring.data_primes().iter().chain(ring.special_primes());
        let coefficients: Vec<Vec<i64>> = rows
            .iter()
            .zip(tables)
            .map(|(row, table)| {
                let mut values = in_our_order(table, &residues(row));
                table.inverse(&mut values);
                values.iter().map(|value| table.modulus().centred(*value)).collect()
            })
            .collect();
        assert!(coefficients.iter().all(|row| *row == coefficients[0] && row.iter().all(|s| (-1..=1).contains(s))));
        for value in -1..=1 {
            assert!(
                coefficients[0].iter().filter(|s| **s == value).count() > ring.degree() / 5,
                "not a uniform secret"
            );
        }
        SecretKey::from_ternary(&self.parameters, &coefficients[0])
    }

    /// An element over the first `level` data primes from SEAL's values.
    pub(crate) fn element(&self, values: &str, level: usize) -> Poly<Eval> {
        let (ring, values) = (self.parameters.ring(), residues(values));
        let rows = values.chunks_exact(ring.degree()).zip(ring.data_primes());
        let ours: Vec<u64> = rows.flat_map(|(row, table)| in_our_order(table, row)).collect();
        Poly::from_values(ring, ring.basis(level), &ours)
    }

    /// The parts of a ciphertext.
    pub(crate) fn parts(&self, parts: &[String], level: usize) -> Vec<Poly<Eval>> {
        parts.iter().map(|part| self.element(part, level)).collect()
    }
}

pub(super) fn residues(text: &str) -> Vec<u64> {
    assert!(text.len().is_multiple_of(DIGITS));
    (0..text.len() / DIGITS).map(|i| u64::from_str_radix(&text[DIGITS * i..DIGITS * (i + 1)], 16).unwrap()).collect()
}

/// Puts SEAL's values modulo one prime into the order of our transform.
fn in_our_order(table: &Ntt, values: &[u64]) -> Vec<u64> {
    let (degree, u) = (table.degree(), seals_root(table));
    assert!(values.len() == degree && values.iter().all(|value| *value < table.modulus().value()));
    let mut ours = vec![0; degree];
    for (place, value) in values.iter().enumerate() {
        let exponent = u * (2 * reverse(place, degree) + 1) % (2 * degree);
        ours[reverse(exponent / 2, degree)] = *value;
    }
    ours
}

/// The `u` for which `φ^u` is the smallest root of order `2N`.
pub(crate) fn seals_root(table: &Ntt) -> usize {
    let mut x = vec![0; table.degree()];
    x[1] = 1;
    table.forward(&mut x);
    let root = x[0]; // the value of X at our root itself
    (1..2 * table.degree()).step_by(2).min_by_key(|u| table.modulus().pow(root, *u as u64)).unwrap()
}

/// `base^power mod 2N`, negative powers too: the order of every odd number divides `N/2`.
pub(crate) fn power(degree: usize, base: usize, power: i64) -> usize {
    let power = power.rem_euclid(degree as i64 / 2);
    (0..power).fold(1, |product, _| product * base % (2 * degree))
}

/// `(j, sign)` with `exponent = sign 5^j mod 2N`: our slot, and whether the sign is negative.
pub(crate) fn slot(degree: usize, exponent: usize) -> (usize, bool) {
    let opposite = exponent % 4 == 3;
    let wanted = if opposite { 2 * degree - exponent } else { exponent };
    ((0..degree / 2).find(|j| power(degree, 5, *j as i64) == wanted).unwrap(), opposite)
}

/// The largest coefficient, which must be below `2^64`, in absolute value.
pub(crate) fn largest(element: Poly<Eval>) -> u64 {
    let mut largest = 0;
    let element = element.inverse();
    Reconstruction::new(element.ring(), element.basis()).for_each(&element, |_, coefficient| {
        assert!(coefficient.words[1..].iter().all(|word| *word == 0));
        largest = largest.max(coefficient.words[0]);
    });
    largest
}

#[test]
fn phases_of_seals_products_and_switches_differ_by_small_errors_only() {
    // under s itself, and before and after a relinearisation by SEAL's key
    for (name, bound) in [("seal-bgv-64", 1 << 20), ("seal-ckks-64", 1 << 12)] {
        let answers = Answers::read(name);
        let secret = answers.secret();
        let phase = |name: &str| {
            let fields = answers.one("ciphertext", name);
            let level = fields[0].parse().unwrap();
            let ciphertext = super::Ciphertext::new(&answers.parameters, None, answers.parts(&fields[2..], level));
            (*secret.phase(&ciphertext)).clone().forward()
        };
        let mut difference = phase("product");
        difference.sub_assign(&phase("relinearised"));
        let error = largest(difference);
        assert!(0 < error && error < bound, "{name}: {error}");
        let mut product = phase("fresh-a");
        product.mul_assign(&phase("fresh-b"));
        assert!(product == phase("product"), "{name}");
    }
}
