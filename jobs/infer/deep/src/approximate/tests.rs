use super::remez::{Terms, minimax};
use super::sign::{MARGIN, Sign};
use super::*;
use rand_core::SeedableRng;
use tobari_lattice::ckks::{Ciphertext, Decryptor, Encoder, EvaluationKeys, Evaluator, Scale};
use tobari_lattice::params::{LatticeParameters, Plaintext};
use tobari_lattice::rlwe::SecretKey;

/// `Σ c_k T_k(t)` by cosines.
fn by_cosines(series: &[f64], t: f64) -> f64 {
    let angle = t.clamp(-1.0, 1.0).acos();
    series.iter().enumerate().map(|(k, c)| c * (k as f64 * angle).cos()).sum()
}

/// A small generator of numbers in [0, 1).
fn numbers(mut state: u64) -> impl FnMut() -> f64 {
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
fn series_are_sums_of_cosines_and_cost_what_the_evaluator_spends() {
    let mut next = numbers(1);
    for degree in 0..40 {
        let series: Vec<f64> = (0..=degree).map(|_| next() - 0.5).collect();
        for _ in 0..20 {
            let t = 2.0 * next() - 1.0;
            assert!((series::value(&series, t) - by_cosines(&series, t)).abs() < 1e-12);
        }
    }
    // the evaluator's own numbers for full series
    for (degree, expected) in [(0, 0), (1, 0), (3, 2), (7, 4), (15, 7), (23, 8), (31, 10), (63, 15)] {
        assert_eq!(series::products(&vec![0.3; degree + 1]), expected, "{degree}");
    }
    // T_8 = T_2(T_2(T_2)), and T_3 = 2 T_2 T_1 - T_1
    assert_eq!(series::products(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]), 3);
    assert_eq!(series::products(&[0.0, 0.0, 0.0, 1.0]), 2);
    assert_eq!([0, 1, 2, 3, 4, 7, 8, 63, 64].map(series::levels), [0, 1, 2, 2, 3, 3, 4, 6, 7]);
}

/// Checks the alternation on a uniform grid, which shares nothing with the algorithm's.
fn alternates(function: impl Fn(f64) -> f64, series: &[f64], [a, b]: [f64; 2], error: f64, count: usize) {
    let points = 200_000;
    let (mut runs, mut sign, mut largest) = (0, 0.0, 0.0f64);
    for j in 0..=points {
        let x = a + (b - a) * f64::from(j) / f64::from(points);
        let e = function(x) - by_cosines(series, x);
        largest = largest.max(e.abs());
        if e.abs() >= error * (1.0 - 1e-3) && e.signum() != sign {
            (runs, sign) = (runs + 1, e.signum());
        }
    }
    assert!(runs >= count, "{runs} of {count}");
    assert!(largest <= error * (1.0 + 1e-9) + 1e-12, "{largest:e} of {error:e}");
}

#[test]
fn errors_of_minimax_polynomials_alternate() {
    let sigmoid = |t: f64| 1.0 / (1.0 + (-8.0 * t).exp());
    for degree in [1, 2, 3, 5, 8, 13, 21] {
        let found = minimax(sigmoid, Terms::All, degree, [-1.0, 1.0], &[]).unwrap();
        assert!(found.error - found.least <= 1e-6 * found.error, "{degree}: {found:?}");
        alternates(sigmoid, &found.series, [-1.0, 1.0], found.error, degree + 2);
    }
    for degree in [1, 4, 9, 16, 30, 63] {
        let kink = |t: f64| (t - 0.3).max(0.0);
        let interval = if degree < 10 { [-0.9, 1.0] } else { [-1.0, 1.0] };
        let found = minimax(kink, Terms::All, degree, interval, &[0.3]).unwrap();
        assert_eq!(found.points.len(), degree + 2);
        alternates(kink, &found.series, interval, found.error, degree + 2);
    }
    for (degree, edge) in [(3, 0.3), (7, 0.1), (15, 0.01), (27, 0.05), (63, 0.02)] {
        let found = minimax(|_| 1.0, Terms::Odd, degree, [edge, 1.0], &[]).unwrap();
        assert!(found.series.iter().step_by(2).all(|c| *c == 0.0));
        alternates(|_| 1.0, &found.series, [edge, 1.0], found.error, degree.div_ceil(2) + 1);
        // on both halves: as a polynomial of this degree for the sign
        let points: Vec<f64> = found.points.iter().flat_map(|x| [-x, *x]).collect();
        assert_eq!(points.len(), degree + 3);
    }
}

#[test]
fn minimax_errors_are_those_of_formulas() {
    let error = |function: &dyn Fn(f64) -> f64, degree: usize| {
        minimax(function, Terms::All, degree, [-1.0, 1.0], &[0.0]).unwrap().error
    };
    // x^n less its polynomial of degree n - 1 is T_n/2^(n-1)
    for n in [2usize, 5, 8, 12] {
        let found = error(&|x| x.powi(n as i32), n - 1);
        assert!((found * 2f64.powi(n as i32 - 1) - 1.0).abs() < 1e-6, "{n}: {found:e}");
    }
    // the line for e^x touches where the slope is sinh 1
    let slope = 1f64.sinh();
    assert!((error(&f64::exp, 1) - (1f64.exp() - 2.0 * slope + slope * slope.ln()) / 2.0).abs() < 1e-9);
    assert!((error(&f64::exp, 4) - 5.4667e-4).abs() < 1e-8, "{:e}", error(&f64::exp, 4));
    // |x| by x² + 1/8, and Bernstein's constant
    assert!((error(&f64::abs, 2) - 0.125).abs() < 1e-9);
    let even = minimax(f64::abs, Terms::Even, 2, [0.0, 1.0], &[]).unwrap();
    assert!(even.series.iter().zip([0.625, 0.0, 0.5]).all(|(c, e)| (c - e).abs() < 1e-9), "{even:?}");
    for (degree, within) in [(14, 1e-3), (30, 3e-4), (126, 2e-5), (254, 1e-5)] {
        let found = minimax(f64::abs, Terms::Even, degree, [0.0, 1.0], &[]).unwrap();
        assert!((found.error * degree as f64 - 0.280_169_499).abs() < within, "{degree}: {found:?}");
    }
    // all terms find the same polynomial, also from a symmetric start
    for degree in [2, 5, 8, 14, 26, 30, 62] {
        let even = minimax(f64::abs, Terms::Even, degree, [0.0, 1.0], &[]).unwrap().error;
        assert!((error(&f64::abs, degree) / even - 1.0).abs() < 1e-6, "{degree}");
    }
    // the sign by c x and by a x - b x³, from the equations of their extrema
    for edge in [0.5, 0.1, 0.01] {
        let odd = |degree| minimax(|_| 1.0, Terms::Odd, degree, [edge, 1.0], &[]).unwrap().error;
        assert!((odd(1) - (1.0 - edge) / (1.0 + edge)).abs() < 1e-9);
        let k: f64 = 1.0 + edge + edge * edge;
        let (top, ends) = (2.0 / 3.0 * k * (k / 3.0).sqrt(), edge * (1.0 + edge));
        assert!((odd(3) - (top - ends) / (top + ends)).abs() < 1e-9, "{edge}");
    }
}

#[test]
fn what_has_no_minimax_polynomial_is_an_error() {
    let refused = |terms, degree, interval| minimax(f64::exp, terms, degree, interval, &[]).unwrap_err();
    for (terms, degree, interval) in [
        (Terms::All, 256, [-1.0, 1.0]),
        (Terms::Even, usize::MAX, [0.0, 1.0]),
        (Terms::All, 3, [1.0, -1.0]),
        (Terms::All, 3, [0.5, 0.5]),
        (Terms::All, 3, [f64::NAN, 1.0]),
        (Terms::All, 3, [-1.0, 1.5]),
        (Terms::Odd, 3, [-0.5, 1.0]),
        (Terms::Odd, 0, [0.5, 1.0]),
    ] {
        assert_eq!(refused(terms, degree, interval), ApproximationError::Interval { degree });
    }
    let values = |function: fn(f64) -> f64| minimax(function, Terms::All, 5, [-1.0, 1.0], &[]).unwrap_err();
    assert_eq!(values(|x| 1.0 / x), ApproximationError::NotFinite);
    assert_eq!(values(f64::sqrt), ApproximationError::NotFinite);
    assert_eq!(values(|x| if x > 0.1 { f64::INFINITY } else { x }), ApproximationError::NotFinite);
    // a jump has a best polynomial, too; noise of many signs ends in a result or an error
    assert!((minimax(f64::signum, Terms::All, 6, [-1.0, 1.0], &[]).unwrap().error - 1.0).abs() < 0.01);
    let noise = |x: f64| (1e9 * x).sin();
    let _ = minimax(noise, Terms::All, 20, [-1.0, 1.0], &[]);
    // rounding errors: a polynomial is its own minimax polynomial
    let exact = minimax(|x| x * x * x - 0.5, Terms::All, 7, [-1.0, 1.0], &[]).unwrap();
    assert!(exact.error < 1e-13, "{exact:?}");
}

/// A composition by cosines; `noise` changes each number between stages.
fn compose(sign: &Sign, u: f64, mut noise: impl FnMut(f64) -> f64) -> f64 {
    let (last, stages) = sign.stages().split_last().unwrap();
    let mut y = u;
    for stage in stages {
        y = noise(by_cosines(stage, y));
        assert!(y.abs() <= 1.0, "{y}");
    }
    by_cosines(last, y)
}

#[test]
fn compositions_are_near_the_sign_also_with_noise() {
    let mut next = numbers(7);
    for (degrees, edge, depth) in [
        (&[7][..], 0.3, 3),
        (&[3, 5], 0.2, 5),
        (&[15, 15], 0.02, 8),
        (&[3, 3, 5, 5], 0.05, 10),
        (&[15, 15, 27], 0.0018, 13),
    ] {
        let sign = Sign::new(degrees, edge).unwrap();
        assert_eq!((sign.depth(), sign.stages().len()), (depth, degrees.len()));
        let (mut largest, mut before) = (0f64, 0.0);
        for j in 0..=60_000 {
            // dense near the edge
            let u = edge.powf(f64::from(j) / 60_000.0);
            let error = compose(&sign, u, |y| y) - 1.0;
            assert!((compose(&sign, -u, |y| y) + 1.0 + error).abs() < 1e-12);
            assert!((sign.value(u) - 1.0 - error).abs() < 1e-11, "{u}");
            largest = largest.max(error.abs());
            let noisy = compose(&sign, u, |y| y * (1.0 + MARGIN * (next() - 0.5)));
            assert!((noisy - 1.0).abs() <= sign.error() * (1.0 + 1e-9), "{degrees:?} {u}: {noisy}");
            // below the edge it grows
            let inner = compose(&sign, edge * f64::from(j) / 60_000.0, |y| y);
            assert!(inner >= before - 1e-9 && inner <= 1.0 + sign.error(), "{degrees:?}: {inner} after {before}");
            before = inner;
        }
        assert!(largest <= sign.error() && largest > 0.75 * sign.error(), "{degrees:?}: {largest:e} {sign:?}");
    }
    for (degrees, edge) in [(&[][..], 0.5), (&[4], 0.5), (&[3], 0.0), (&[3], 1.0), (&[3], f64::NAN), (&[257], 0.5)] {
        assert!(matches!(Sign::new(degrees, edge), Err(ApproximationError::Interval { .. })), "{degrees:?} {edge}");
    }
}

#[test]
fn published_degrees_reach_the_published_errors() {
    // Lee et al. (ICML 2022 and the work before it): max(x, 0) on [-1, 1] within 2^-α
    let pieces = pieces::pieces(Activation::Relu, -1.0, 1.0).unwrap().unwrap();
    let form = gates::Form::new(&pieces, [-1.0, 1.0], 1.0, &Limits::default()).unwrap().unwrap();
    for (degrees, alpha) in [
        (&[5][..], 4),
        (&[13], 5),
        (&[3, 7], 6),
        (&[7, 7], 7),
        (&[7, 15], 8),
        (&[15, 15], 9),
        (&[7, 7, 13], 10),
        (&[7, 7, 27], 11),
        (&[7, 15, 27], 12),
        (&[15, 15, 27], 13),
        (&[15, 27, 29], 14),
    ] {
        let found = form.with(degrees).unwrap();
        assert!((-0.8..=0.0).contains(&(found.error().log2() + f64::from(alpha))), "{degrees:?}: {}", found.error());
        let error = measured(Activation::Relu, -1.0, 1.0, &found);
        assert!(error <= found.error() && error > 0.95 * found.error(), "{degrees:?}: {error} {}", found.error());
    }
}

/// The largest error over many points, dense around the kinks.
fn measured(activation: Activation, low: f64, high: f64, found: &Approximation) -> f64 {
    let mut points: Vec<f64> = (0..=50_000).map(|j| low + (high - low) * f64::from(j) / 50_000.0).collect();
    for kink in pieces::pieces(activation, low, high).unwrap().iter().flat_map(|pieces| &pieces.kinks) {
        let near = (0..25_000).flat_map(|j| {
            let distance = (high - low) * (-f64::from(j) / 1_500.0).exp();
            [kink - distance, kink + distance]
        });
        points.extend(near.filter(|x| (low..=high).contains(x)));
    }
    points.iter().map(|x| (activation.value(*x) - found.value(*x)).abs()).fold(0.0, f64::max)
}

/// Every kind of activation, with its range.
fn activations() -> Vec<(Activation, f64, f64)> {
    vec![
        (Activation::Relu, -1.0, 1.0),
        (Activation::Relu, -3.0, 11.0),
        (Activation::LeakyRelu { slope: 0.1 }, -6.0, 4.0),
        (Activation::LeakyRelu { slope: -1.0 }, -2.0, 2.0),
        (Activation::Elu { alpha: 1.0 }, -5.0, 5.0),
        (Activation::Elu { alpha: 0.3 }, -4.0, 6.0),
        (Activation::Absolute, -10.0, 10.0),
        (Activation::Clip { low: 0.0, high: 6.0 }, -7.0, 9.0),
        (Activation::Clip { low: -1.0, high: 1.0 }, -3.0, 3.0),
        (Activation::Clip { low: f64::NEG_INFINITY, high: 2.0 }, -3.0, 4.0),
        (Activation::Clip { low: -0.5, high: f64::INFINITY }, -3.0, 4.0),
        (Activation::Sigmoid, -8.0, 8.0),
        (Activation::Sigmoid, -2.0, 7.0),
        (Activation::Tanh, -4.0, 4.0),
        (Activation::Softplus, -9.0, 6.0),
        (Activation::Silu, -7.0, 7.0),
        (Activation::Gelu, -5.0, 6.0),
        (Activation::HardSigmoid { slope: 0.2, offset: 0.5 }, -6.0, 6.0),
        (Activation::HardSigmoid { slope: -0.3, offset: 0.2 }, -6.0, 8.0),
        (Activation::HardSwish, -8.0, 8.0),
        (Activation::HardSwish, -4.0, 2.5),
    ]
}

#[test]
fn approximations_are_as_near_as_they_say() {
    for (activation, low, high) in activations() {
        let mut last = Cost { depth: 0, products: 0 };
        for bits in [3, 6, 8, 10] {
            let tolerance = 2f64.powi(-bits) * (high - low) / 2.0;
            let name = format!("{activation:?} on [{low}, {high}] within 2^-{bits}");
            let found = approximate(activation, low, high, tolerance, &Limits::default()).expect(&name);
            let error = measured(activation, low, high, &found);
            assert!(error <= found.error() && found.error() <= tolerance, "{name}: {error:e}, {:e}", found.error());
            assert!(error > 0.5 * found.error() || error < 1e-12, "{name}: {error:e}, {:e}", found.error());
            // the parts take numbers in [-1, 1]
            for x in [low, high, (low + high) / 2.0] {
                let t = (x - found.center()) / found.radius();
                assert!(t.abs() <= 1.0 + 1e-12, "{name}");
                assert!(found.gates().iter().all(|gate| (t - gate.shift()).abs() <= 1.0 + 1e-12), "{name}");
            }
            assert!(found.cost() >= last, "{name}");
            last = found.cost();
        }
    }
}

#[test]
fn no_cheaper_form_is_left() {
    // gates where series are too short, series elsewhere
    let few = Limits { degree: 31, ..Limits::default() };
    let found = approximate(Activation::Relu, -1.0, 1.0, 2f64.powi(-9), &few).unwrap();
    assert_eq!((found.gates().len(), found.cost()), (1, Cost { depth: 9, products: 15 }));
    let found = approximate(Activation::Relu, -1.0, 1.0, 2f64.powi(-9), &Limits::default()).unwrap();
    assert_eq!((found.gates().len(), found.cost()), (0, Cost { depth: 7, products: 11 }));
    // with few products, more levels
    let few = Limits { products: 10, ..Limits::default() };
    let found = approximate(Activation::Relu, -1.0, 1.0, 2f64.powi(-7), &few).unwrap();
    assert!(found.cost().products <= 10 && found.error() <= 2f64.powi(-7), "{found:?}");
    let few = Limits { products: 14, depth: 14, ..Limits::default() };
    let found = approximate(Activation::Relu, -1.0, 1.0, 2f64.powi(-10), &few).unwrap();
    assert_eq!(found.cost(), Cost { depth: 12, products: 14 });
    // the cost of the parts is the cost of the whole
    let few = Limits { degree: 15, ..Limits::default() };
    let gates = approximate(Activation::HardSwish, -8.0, 8.0, 2f64.powi(-7), &few).unwrap();
    let [left, right] = gates.gates() else { panic!("{gates:?}") };
    assert_eq!((left.factor().len(), right.factor().len(), left.shift()), (3, 3, -right.shift()));
    for products in 0..=gates.cost().products {
        let few = Limits { products, ..few };
        let spent = match approximate(Activation::HardSwish, -8.0, 8.0, 2f64.powi(-6), &few) {
            Ok(found) => found.cost().products,
            Err(ApproximationError::Unreachable { products, .. }) => products,
            Err(error) => panic!("{error}"),
        };
        assert!(spent <= products, "{spent} of {products}");
    }
    // two products with the factors and one for T_2
    assert_eq!(gates.cost().products, left.sign().products() + right.sign().products() + 3);
    assert_eq!(gates.cost().depth, left.sign().depth() + 1);
}

#[test]
fn a_range_without_kink_gives_the_exact_polynomial() {
    for (activation, low, high, expected, cost) in [
        (Activation::Relu, 0.0, 5.0, (1.0, 0.0), (1, 0)),
        (Activation::Relu, 1e-3, 5.0, (1.0, 0.0), (1, 0)),
        (Activation::Relu, -5.0, 0.0, (0.0, 0.0), (0, 0)),
        (Activation::Absolute, -5.0, -1.0, (-1.0, 0.0), (1, 0)),
        (Activation::LeakyRelu { slope: 1.0 }, -5.0, 1.0, (1.0, 0.0), (1, 0)),
        (Activation::Elu { alpha: 2.0 }, 0.0, 3.0, (1.0, 0.0), (1, 0)),
        (Activation::Clip { low: -1.0, high: 1.0 }, 1.0, 3.0, (0.0, 1.0), (0, 0)),
        (Activation::Clip { low: 2.0, high: 2.0 }, -1.0, 3.0, (0.0, 2.0), (0, 0)),
        (Activation::Clip { low: f64::NEG_INFINITY, high: f64::INFINITY }, -1.0, 3.0, (1.0, 0.0), (1, 0)),
        (Activation::HardSigmoid { slope: 0.0, offset: 7.0 }, -1.0, 3.0, (0.0, 1.0), (0, 0)),
        (Activation::HardSigmoid { slope: 1e-9, offset: 0.5 }, -1.0, 3.0, (1e-9, 0.5), (1, 0)),
        (Activation::HardSwish, 3.0, 9.0, (1.0, 0.0), (1, 0)),
    ] {
        let found = approximate(activation, low, high, 1e-9, &Limits::default()).unwrap();
        assert!(found.gates().is_empty() && found.error() < 1e-12, "{activation:?}: {found:?}");
        assert_eq!((found.cost().depth, found.cost().products), cost, "{activation:?}: {found:?}");
        for x in [low, high, low + 0.3 * (high - low)] {
            assert!((found.value(x) - (expected.0 * x + expected.1)).abs() < 1e-12, "{activation:?}");
        }
    }
    let square = approximate(Activation::HardSwish, -2.0, 2.5, 1e-9, &Limits::default()).unwrap();
    assert_eq!(square.cost(), Cost { depth: 2, products: 1 });
    assert!((square.value(1.5) - 1.5 * 4.5 / 6.0).abs() < 1e-14);
    // a constant is enough for a wide tolerance
    let constant = approximate(Activation::Sigmoid, 30.0, 31.0, 1e-9, &Limits::default()).unwrap();
    assert_eq!(constant.cost(), Cost { depth: 0, products: 0 });
}

#[test]
fn impossible_requests_are_errors_that_say_what_is_possible() {
    let limits = Limits::default();
    for (activation, low, high) in activations() {
        let tolerance = 1e-12;
        match approximate(activation, low, high, tolerance, &limits) {
            Ok(found) => assert!(measured(activation, low, high, &found) <= tolerance, "{activation:?}"),
            Err(ApproximationError::Unreachable { best, depth, products, .. }) => {
                let wider = approximate(activation, low, high, best * 1.001, &limits).unwrap();
                assert!(wider.error() <= best * 1.001 && wider.cost() <= Cost { depth, products }, "{activation:?}");
            }
            Err(error) => panic!("{activation:?}: {error}"),
        }
    }
    let shallow = Limits { depth: 3, ..limits };
    let error = approximate(Activation::Relu, -1.0, 1.0, 1e-3, &shallow).unwrap_err();
    // x/2 and half of |x| in degree 6
    let best = minimax(f64::abs, Terms::Even, 6, [0.0, 1.0], &[]).unwrap().error / 2.0;
    assert!(
        matches!(error, ApproximationError::Unreachable { best: found, depth: 3, products: 3, .. }
        if (found / best - 1.0).abs() < 1e-3),
        "{error}"
    );
    assert!(error.to_string().contains("--engine enclave"), "{error}");
    let none = Limits { depth: 0, degree: 0, products: 0 };
    let error = approximate(Activation::Tanh, -1.0, 1.0, 1e-3, &none).unwrap_err();
    assert!(matches!(error, ApproximationError::Unreachable { depth: 0, products: 0, .. }), "{error}");
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (-1e13, 1.0)] {
        let error = approximate(Activation::Relu, low, high, 0.1, &limits).unwrap_err();
        assert!(matches!(error, ApproximationError::Range { .. }), "{error}");
    }
    for tolerance in [0.0, -1.0, f64::NAN] {
        let error = approximate(Activation::Relu, -1.0, 1.0, tolerance, &limits).unwrap_err();
        assert!(matches!(error, ApproximationError::Tolerance { .. }), "{error}");
    }
    for activation in [
        Activation::LeakyRelu { slope: f64::INFINITY },
        Activation::LeakyRelu { slope: f64::NAN },
        Activation::Elu { alpha: f64::NAN },
        Activation::Clip { low: 1.0, high: 0.0 },
        Activation::Clip { low: f64::NAN, high: 0.0 },
        Activation::Clip { low: f64::INFINITY, high: f64::INFINITY },
        Activation::HardSigmoid { slope: f64::NAN, offset: 0.0 },
        Activation::HardSigmoid { slope: 1.0, offset: f64::INFINITY },
    ] {
        let error = approximate(activation, -1.0, 1.0, 0.1, &limits).unwrap_err();
        assert_eq!(error, ApproximationError::NotFinite, "{activation:?}");
    }
}

#[test]
fn odd_requests_end() {
    let few = Limits { degree: 31, depth: 9, products: 30 };
    let wild = [1e-300, 1e-9, 1.0, 1e9, 1e300];
    let mut next = numbers(3);
    for (activation, ..) in activations() {
        for (low, high) in [(-1e12, 1e12), (-1e-9, 1e-9), (-1e-300, 1e-300), (-1e9, 1e-3), (1.0, 1.0 + 1e-15)] {
            let tolerance = wild[(next() * 5.0) as usize];
            if let Ok(found) = approximate(activation, low, high, tolerance, &few) {
                let x = low + next() * (high - low);
                assert!((found.value(x) - activation.value(x)).abs() <= tolerance, "{activation:?} {low} {high}");
            }
        }
    }
    for size in wild {
        for activation in [
            Activation::Elu { alpha: size },
            Activation::LeakyRelu { slope: -size },
            Activation::HardSigmoid { slope: size, offset: -size },
            Activation::Clip { low: -size, high: size },
        ] {
            let _ = approximate(activation, -1.0, 1.0, 0.1, &few);
        }
    }
}

#[test]
fn fits_have_the_least_squares() {
    // a bell, by sums of uniform numbers
    let mut next = numbers(5);
    let samples: Vec<f64> = (0..4_000).map(|_| (0..6).map(|_| next() - 0.5).sum::<f64>() * 2.0 - 0.3).collect();
    for degree in 0..=MAX_FIT {
        let found = fit(Activation::Relu, &samples, degree).unwrap();
        let powers = found.powers();
        assert_eq!(powers.len(), degree + 1);
        let errors: Vec<f64> = samples.iter().map(|x| found.value(*x) - x.max(0.0)).collect();
        // the error is orthogonal to all powers: the normal equations
        for k in 0..=degree {
            let product: f64 = samples.iter().zip(&errors).map(|(x, e)| e * x.powi(k as i32)).sum();
            let size: f64 = samples.iter().map(|x| x.powi(2 * k as i32)).sum::<f64>().sqrt();
            assert!(product.abs() < 1e-9 * size * 100.0, "{degree}, {k}: {product:e}");
        }
        let rms = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
        let largest = errors.iter().fold(0.0, |largest: f64, e| largest.max(e.abs()));
        assert!((rms - found.rms()).abs() < 1e-12 && (largest - found.largest()).abs() < 1e-12);
        for x in samples.iter().take(50) {
            let horner = powers.iter().rev().fold(0.0, |sum, c| sum * x + c);
            assert!((horner - found.value(*x)).abs() < 1e-9, "{degree}");
        }
    }
    // uniform samples on [-1, 1]: 3/32 + x/2 + 15/32 x² for max(x, 0)
    let uniform: Vec<f64> = (0..20_001).map(|j| f64::from(j - 10_000) / 10_000.0).collect();
    let powers = quadratic(Activation::Relu, &uniform).unwrap().powers();
    assert!(powers.iter().zip([3.0 / 32.0, 0.5, 15.0 / 32.0]).all(|(c, e)| (c - e).abs() < 1e-3), "{powers:?}");
    // few samples: a polynomial through all of them
    for samples in [&[2.0][..], &[2.0, 2.0, -1.0], &[-1.0, 0.0, 3.0]] {
        let found = fit(Activation::Absolute, samples, 5).unwrap();
        assert!(found.largest() < 1e-12 && found.series().len() <= samples.len(), "{found:?}");
    }
    let refused = |samples: &[f64], degree| fit(Activation::Relu, samples, degree).unwrap_err();
    assert_eq!(refused(&[], 2), ApproximationError::Samples);
    assert_eq!(refused(&[1.0, f64::NAN], 2), ApproximationError::Samples);
    assert_eq!(refused(&[1e13], 2), ApproximationError::Samples);
    assert_eq!(refused(&[1.0], 9), ApproximationError::Interval { degree: 9 });
}

/// The approximation of encrypted `t`.
fn encrypted(
    (evaluator, keys): (&Evaluator, &EvaluationKeys),
    input: &Ciphertext,
    found: &Approximation,
) -> Ciphertext {
    let series = |x: &Ciphertext, series: &[f64]| evaluator.chebyshev(x, series, keys).unwrap();
    let gate = |gate: &Gate| {
        let mut y = evaluator.add_constant(input, -gate.shift()).unwrap();
        for stage in gate.sign().stages() {
            y.declare_magnitude(1.0).unwrap();
            y = series(&y, stage);
        }
        evaluator.mul_reduced(&series(input, gate.factor()), &y, keys).unwrap()
    };
    let base = series(input, found.base());
    let gates = found.gates().iter().map(gate).reduce(|a, b| evaluator.add(&a, &b).unwrap());
    gates.map_or(base.clone(), |gates| {
        let (base, gates) = evaluator.align(&base, &gates).unwrap();
        evaluator.add(&base, &gates).unwrap()
    })
}

#[test]
fn ciphertexts_take_the_levels_and_have_the_values() {
    const LEVELS: usize = 12;
    let mut rng = chacha20::ChaCha20Rng::from_seed([3; 32]);
    let data: Vec<u32> = std::iter::once(50).chain(std::iter::repeat_n(42, LEVELS - 1)).collect();
    let parameters =
        LatticeParameters::insecure_of_sizes(1 << 10, &data, &[50], LEVELS, Plaintext::Approximate).unwrap();
    let secret = SecretKey::generate(&parameters, &mut rng);
    let keys = EvaluationKeys::new(&parameters).with_relinearization(&secret, LEVELS, &mut rng).unwrap();
    let (encoder, evaluator) = (Encoder::new(&parameters).unwrap(), Evaluator::new(&parameters).unwrap());
    let few = Limits { degree: 15, ..Limits::default() };
    for (activation, low, high, tolerance, gates) in [
        (Activation::Sigmoid, -6.0, 6.0, 0.01, 0),
        (Activation::Relu, -1.0, 2.0, 0.01, 1),
        (Activation::Clip { low: 0.0, high: 1.0 }, -1.0, 2.0, 0.01, 2),
        (Activation::HardSwish, -5.0, 5.0, 0.02, 2),
    ] {
        let found = approximate(activation, low, high, tolerance, &few).unwrap();
        assert_eq!(found.gates().len(), gates, "{activation:?}");
        let x: Vec<f64> = (0..400).map(|j| low + (high - low) * f64::from(j) / 399.0).collect();
        let t: Vec<f64> = x.iter().map(|x| (x - found.center()) / found.radius()).collect();
        let plain = encoder.encode(&t, &Scale::power_of_two(42), LEVELS).unwrap();
        let input = plain.encrypt_seeded(&secret, &mut rng).unwrap().expand();
        let result = encrypted((&evaluator, &keys), &input, &found);
        assert_eq!(LEVELS - result.level(), found.cost().depth, "{activation:?}");
        let values = Decryptor::new(&secret, &encoder).unwrap().decrypt(&result).unwrap();
        for (x, value) in x.iter().zip(values.iter()) {
            assert!((value - found.value(*x)).abs() < 1e-4, "{activation:?} at {x}: {value}");
            assert!((value - activation.value(*x)).abs() < tolerance + 1e-4, "{activation:?} at {x}: {value}");
        }
    }
}
