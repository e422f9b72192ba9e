//! poulpy on the task of `tobari-bench lattice`, on one thread.
//!
//!     ./poulpy SET [WHAT,WHAT...]
//!
//! prints one JSON line for each operation (bench/README.md has the shape), and nothing for a set
//! that the library does not have
//!
//! The library has no prime chain: a polynomial is in digits of 52 bits, `level` is their number,
//! and every product is divided and normalised. So it has a part of the list only. The secret is
//! ternary and dense; the generator is ChaCha8, which is not meant for keys. `add` does not
//! normalise, as the library does not.

use poulpy_ckks::api::{
    CKKSAddOps, CKKSAllOpsTmpBytes, CKKSDecryptOps, CKKSEncodingHostOps, CKKSEncryptOps, CKKSModuleInfos, CKKSMulOps,
    CKKSRotateOps,
};
use poulpy_ckks::layouts::{CKKSCiphertextAlloc, CKKSCiphertextOwned, CKKSPlaintextAlloc, CKKSPlaintextOwned};
use poulpy_ckks::{CKKSLayout, GLWEPlaintextMeta, Scale, SetCKKSInfos, SlotsKind};
use poulpy_core::api::{
    GLWEAutomorphismKeyPreparedFactory, GLWESecretPreparedFactory, GLWESecretSampling, GLWETensorKeyPreparedFactory,
};
use poulpy_core::layouts::{
    Base2K, Degree, GGLWELayout, GLWEAutomorphismKeyAlloc, GLWEAutomorphismKeyLayout, GLWELayout, GLWESecretAlloc,
    GLWETensorKeyAlloc, GLWETensorKeyLayout, LWEInfos, Rank, TorusPrecision, k_digit_of,
};
use poulpy_core::{GLWEAutomorphismKeyEncryptSk, GLWETensorKeyEncryptSk};
#[cfg(feature = "avx2")]
use poulpy_cpu_avx::NTT4x30Avx as Backend;
#[cfg(not(feature = "avx2"))]
use poulpy_cpu_avx512::NTT3x42Ifma as Backend;
use poulpy_hal::api::{ScratchOwnedAlloc, ScratchOwnedBorrow};
use poulpy_hal::layouts::{Module, ScratchOwned};
use poulpy_hal::source::Source;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

const DIGIT: usize = 52;

struct Set {
    name: &'static str,
    n: usize,
    modulus: usize, // bits
    scale: usize,   // bits
    grouped: usize, // digits of 52 bits in a digit of the key switch
}

const SETS: [Set; 2] = [
    Set { name: "A", n: 1 << 14, modulus: 208, scale: 30, grouped: 1 },
    Set { name: "B", n: 1 << 15, modulus: 676, scale: 49, grouped: 2 },
];

struct Bench {
    set: &'static Set,
    filter: Option<Vec<String>>,
    dnum: usize,
    log_qp: usize,
}

impl Bench {
    /// Times `work`: some 0.2 s, but at least 9 runs.
    fn measure(&self, what: &str, mut work: impl FnMut()) {
        if self.filter.as_ref().is_some_and(|filter| !filter.iter().any(|wanted| wanted == what)) {
            return;
        }
        (work(), work()); // warm up
        let (mut ns, mut total) = (Vec::new(), 0.0);
        while ns.len() < 9 || (total < 2e8 && ns.len() < 20_000) {
            let start = Instant::now();
            work();
            let taken = start.elapsed().as_nanos() as f64;
            total += taken;
            ns.push(taken);
        }
        ns.sort_by(f64::total_cmp);
        println!(
            "{{\"job\":\"lattice\",\"what\":\"{what}\",\"engine\":\"poulpy 0.10.0\",\"params\":{{\"set\":\"{}\",\
             \"scheme\":\"ckks\",\"n\":{},\"level\":{},\"dnum\":{},\"log_qp\":{}}},\"backend\":\"{}\",\
             \"threads\":1,\"unit\":\"ns\",\"median\":{:.1},\"min\":{:.1},\"max\":{:.1},\"runs\":{},\"labels\":[]}}",
            self.set.name,
            self.set.n,
            self.set.modulus.div_ceil(DIGIT),
            self.dnum,
            self.log_qp,
            if cfg!(feature = "avx2") { "avx2" } else { "avx512ifma" },
            ns[ns.len() / 2],
            ns[0],
            ns[ns.len() - 1],
            ns.len()
        );
    }
}

/// splitmix64, uniform in [-1, 1): for messages only.
fn next(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as i64 as f64 / 2f64.powi(63)
}

/// Rotations by these steps in turn find their keys in memory, not in a cache.
const STEPS: i64 = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() || arguments.len() > 2 {
        eprintln!("usage: poulpy SET [WHAT,WHAT...]");
        std::process::exit(2);
    }
    let Some(set) = SETS.iter().find(|set| set.name == arguments[0]) else { return };
    let filter = arguments.get(1).map(|list| list.split(',').map(str::to_owned).collect());

    // Layouts. A key has room for a digit and log n bits below the ciphertext's modulus.
    let (n, base2k, rank) = (Degree(set.n as u32), Base2K(DIGIT as u32), Rank(1));
    let ciphertext = GLWELayout { n, base2k, k: TorusPrecision(set.modulus as u32), rank };
    let k_digit = k_digit_of(DIGIT, set.grouped);
    let dnum = GGLWELayout::dnum_for_input(ciphertext.k, k_digit);
    let k_aux = TorusPrecision((set.grouped * DIGIT) as u32 + set.n.ilog2());
    let tensor_layout = GLWETensorKeyLayout { n, base2k, dnum, k_aux, rank, k_digit };
    let rotation_layout = GLWEAutomorphismKeyLayout { n, base2k, dnum, k_aux, rank, k_digit };
    let meta = GLWEPlaintextMeta { scale: Scale::Log(set.scale), slots: SlotsKind::Complex, log_sparsity: 0 };
    let plaintext =
        CKKSLayout { glwe_layout: GLWELayout { k: TorusPrecision(set.scale as u32 + 10), ..ciphertext }, meta };
    let bench = Bench { set, filter, dnum: dnum.into(), log_qp: tensor_layout.k().into() };

    // Keys.
    let module: Module<Backend> = Module::new(set.n as u64);
    let mut sized = module.ckks_ciphertext_alloc_from_glwe_infos(&ciphertext);
    sized.set_meta(meta);
    let bytes = module.ckks_all_ops_with_atk_tmp_bytes(&sized, &plaintext, &tensor_layout, &rotation_layout);
    let encoding = CKKSEncodingHostOps::<Backend, f64>::ckks_encoding_host_tmp_bytes(&module, set.n / 2);
    let mut arena = ScratchOwned::<Backend>::alloc(bytes.max(encoding));
    let (mut mask, mut noise) = (Source::new([1; 32]), Source::new([2; 32]));
    let mut raw = module.glwe_secret_alloc_from_infos(&ciphertext);
    module.glwe_secret_fill_ternary_prob(&mut raw, 2.0 / 3.0, &mut Source::new([3; 32]));
    let mut secret = module.glwe_secret_prepared_alloc_from_infos(&ciphertext);
    module.glwe_secret_prepare(&mut secret, &raw);
    let mut tensor = module.glwe_tensor_key_alloc_from_infos(&tensor_layout);
    module.glwe_tensor_key_encrypt_sk(&mut tensor, &raw, &mut noise, &mut mask, &mut arena.borrow());
    let mut tensor_key = module.glwe_tensor_key_prepared_alloc_from_infos(&tensor_layout);
    module.glwe_tensor_key_prepare(&mut tensor_key, &tensor, &mut arena.borrow());
    let mut rotation_keys = HashMap::new();
    for step in 1..=STEPS {
        let element = module.ckks_galois_element(step);
        let mut rotation = module.glwe_automorphism_key_alloc_from_infos(&rotation_layout);
        module.glwe_automorphism_key_encrypt_sk(
            &mut rotation, element, &raw, &mut noise, &mut mask, &mut arena.borrow(),
        );
        let mut rotation_key = module.glwe_automorphism_key_prepared_alloc_from_infos(&rotation_layout);
        module.glwe_automorphism_key_prepare(&mut rotation_key, &rotation, &mut arena.borrow());
        rotation_keys.insert(element, rotation_key);
    }

    // Messages and ciphertexts.
    let slots = set.n / 2;
    let mut state = 1;
    let mut numbers = || -> Vec<f64> { (0..slots).map(|_| next(&mut state)).collect() };
    let (x, y) = ([numbers(), numbers()], [numbers(), numbers()]);
    let new_plaintext = || -> CKKSPlaintextOwned<Backend> { module.ckks_plaintext_alloc_from_infos(&plaintext) };
    let new_ciphertext =
        || -> CKKSCiphertextOwned<Backend> { module.ckks_ciphertext_alloc_from_glwe_infos(&ciphertext) };
    let mut found = [vec![0.0; slots], vec![0.0; slots]];
    let (mut p, mut q, mut opened) = (new_plaintext(), new_plaintext(), new_plaintext());
    let (mut a, mut b, mut out) = (new_ciphertext(), new_ciphertext(), new_ciphertext());
    module.ckks_encode_slots_host_into(&mut p, &x[0], &x[1], &mut arena.borrow()).unwrap();
    module.ckks_encode_slots_host_into(&mut q, &y[0], &y[1], &mut arena.borrow()).unwrap();
    module.ckks_encrypt_sk(&mut a, &p, &secret, &mut noise, &mut mask, &mut arena.borrow()).unwrap();
    module.ckks_encrypt_sk(&mut b, &q, &secret, &mut noise, &mut mask, &mut arena.borrow()).unwrap();

    // Every operation is right.
    let mut expect = |c: &CKKSCiphertextOwned<Backend>, what: &str, right: &dyn Fn(usize) -> [f64; 2]| {
        let [re, im] = &mut found;
        module.ckks_decrypt(&mut opened, c, &secret, &mut arena.borrow()).unwrap();
        module.ckks_decode_slots_host_into(&opened, re, im, &mut arena.borrow()).unwrap();
        for i in 0..slots {
            let [wanted_re, wanted_im] = right(i);
            if (re[i] - wanted_re).abs().max((im[i] - wanted_im).abs()) >= 0.02 {
                eprintln!("wrong: {what}");
                std::process::exit(1);
            }
        }
    };
    expect(&a, "encrypt_secret", &|i| [x[0][i], x[1][i]]);
    let mut own = ScratchOwned::<Backend>::alloc(bytes);
    module.ckks_add_into(&mut out, &a, &b, &mut own.borrow()).unwrap();
    expect(&out, "add", &|i| [x[0][i] + y[0][i], x[1][i] + y[1][i]]);
    let mut product = new_ciphertext();
    module.ckks_mul_into(&mut product, &a, &b, &tensor_key, &mut own.borrow()).unwrap();
    expect(&product, "mul", &|i| [x[0][i] * y[0][i] - x[1][i] * y[1][i], x[0][i] * y[1][i] + x[1][i] * y[0][i]]);
    module.ckks_rotate_into(1, &mut out, &a, &rotation_keys, &mut own.borrow()).unwrap();
    expect(&out, "rotate", &|i| [x[0][(i + 1) % slots], x[1][(i + 1) % slots]]);

    bench.measure("encode", || {
        module.ckks_encode_slots_host_into(&mut p, &x[0], &x[1], &mut arena.borrow()).unwrap();
    });
    bench.measure("encrypt_secret", || {
        module.ckks_encrypt_sk(&mut out, &p, &secret, &mut noise, &mut mask, &mut arena.borrow()).unwrap();
    });
    bench.measure("decrypt", || module.ckks_decrypt(&mut opened, &a, &secret, &mut arena.borrow()).unwrap());
    let [re, im] = &mut found;
    bench.measure("decode", || {
        module.ckks_decode_slots_host_into(&opened, re, im, &mut arena.borrow()).unwrap();
        black_box((&re, &im));
    });
    bench.measure("add", || module.ckks_add_into(&mut out, &a, &b, &mut arena.borrow()).unwrap());
    bench.measure("mul", || {
        module.ckks_mul_into(&mut product, &a, &b, &tensor_key, &mut arena.borrow()).unwrap();
    });
    bench.measure("rotate", || {
        module.ckks_rotate_into(1, &mut out, &a, &rotation_keys, &mut arena.borrow()).unwrap();
    });
    let mut step = 0;
    bench.measure("rotate_keys", || {
        step = step % STEPS + 1;
        module.ckks_rotate_into(step, &mut out, &a, &rotation_keys, &mut arena.borrow()).unwrap();
    });
}
