//! The curves by name, with their constants: SEC 2 (versions 1 and 2), FIPS 186-4, and mcl's test
//! curve p160_1.
//!
//! Each was checked for: `p` and `n` prime, generator on the curve, `nG = O`, the Hasse bound, not
//! anomalous, embedding degree above 29. The known answers in `vectors/curve` pin the constants.
//!
//! A [`Curve`] is a name with its sizes and wire number, and every build knows all nine. The four
//! below 112 bits of security only serve to repeat the paper's measurements, and their loops take a
//! quarter of this crate's compile time. So their arithmetic is only in builds with the feature
//! `paper`. A [`BuiltCurve`] is a curve with arithmetic.

use super::built::BuiltCurve;
use super::endomorphism::Halves;
#[cfg(any(not(target_pointer_width = "32"), test))]
use crate::kernels::Element;
use crate::kernels::{Coefficient, CurveConstants, CurveKernels, Form, Portable, Prime};
#[cfg(any(target_pointer_width = "32", test))]
use crate::kernels::{Narrow, limbs29};
use std::fmt;

/// The curves of the paper's table 4. Ten rows, nine curves: NIST_P384 is secp384r1.
///
/// ```
/// use tobari_curve::Curve;
/// let curve = Curve::from_name("P-256").unwrap();
/// assert_eq!(curve, Curve::NistP256);
/// assert_eq!(curve.security_bits(), 128);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Curve {
    /// SEC 2 v1, 160 bits, `a = 0`; its order has 161 bits.
    Secp160k1,
    /// mcl's test curve over `p = 2^160 + 7` (161 bits), named in IEEE 1363 style by the paper.
    P160_1,
    /// SEC 2, 192 bits, `a = 0`.
    Secp192k1,
    /// SEC 2, 224 bits, `a = 0`; its order has 225 bits.
    Secp224k1,
    /// SEC 2, 256 bits, `a = 0`. The default.
    Secp256k1,
    /// SEC 2, 384 bits, `a = -3`; also NIST P-384.
    Secp384r1,
    /// NIST P-192, also secp192r1, `a = -3`.
    NistP192,
    /// NIST P-224, also secp224r1, `a = -3`.
    NistP224,
    /// NIST P-256, also secp256r1 and prime256v1, `a = -3`.
    NistP256,
}

/// A name that belongs to no curve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown curve {name:?}: expected one of {}", Curve::PAPER_NAMES.map(|(name, _)| name).join(", "))]
pub struct UnknownCurve {
    name: String,
}

impl Curve {
    /// Every distinct curve, in the paper's order.
    pub const ALL: [Curve; 9] = [
        Curve::Secp160k1,
        Curve::P160_1,
        Curve::Secp192k1,
        Curve::Secp224k1,
        Curve::Secp256k1,
        Curve::Secp384r1,
        Curve::NistP192,
        Curve::NistP224,
        Curve::NistP256,
    ];

    /// The ten rows of the paper's table 4.
    pub const PAPER_NAMES: [(&'static str, Curve); 10] = [
        ("secp160k1", Curve::Secp160k1),
        ("p160_1", Curve::P160_1),
        ("secp192k1", Curve::Secp192k1),
        ("secp224k1", Curve::Secp224k1),
        ("secp256k1", Curve::Secp256k1),
        ("secp384r1", Curve::Secp384r1),
        ("NIST_P192", Curve::NistP192),
        ("NIST_P224", Curve::NistP224),
        ("NIST_P256", Curve::NistP256),
        ("NIST_P384", Curve::Secp384r1),
    ];

    /// Other names in use.
    const ALIASES: [(&'static str, Curve); 8] = [
        ("secp192r1", Curve::NistP192),
        ("P-192", Curve::NistP192),
        ("secp224r1", Curve::NistP224),
        ("P-224", Curve::NistP224),
        ("secp256r1", Curve::NistP256),
        ("prime256v1", Curve::NistP256),
        ("P-256", Curve::NistP256),
        ("P-384", Curve::Secp384r1),
    ];

    /// The curve of this name: the paper's, or SEC 2's or NIST's, in any case.
    ///
    /// # Errors
    /// [`UnknownCurve`], which lists the names.
    pub fn from_name(name: &str) -> Result<Curve, UnknownCurve> {
        let known = Self::PAPER_NAMES.iter().chain(&Self::ALIASES);
        let found = known.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|&(_, curve)| curve).ok_or_else(|| UnknownCurve { name: name.chars().take(64).collect() })
    }

    /// The paper's name for the curve.
    pub fn name(self) -> &'static str {
        match self {
            Curve::Secp160k1 => "secp160k1",
            Curve::P160_1 => "p160_1",
            Curve::Secp192k1 => "secp192k1",
            Curve::Secp224k1 => "secp224k1",
            Curve::Secp256k1 => "secp256k1",
            Curve::Secp384r1 => "secp384r1",
            Curve::NistP192 => "NIST_P192",
            Curve::NistP224 => "NIST_P224",
            Curve::NistP256 => "NIST_P256",
        }
    }

    /// Security in bits against Pollard's rho (see [`crate::params`]).
    pub fn security_bits(self) -> u32 {
        match self {
            Curve::Secp160k1 | Curve::P160_1 => 80,
            Curve::Secp192k1 | Curve::NistP192 => 96,
            Curve::Secp224k1 | Curve::NistP224 => 112,
            Curve::Secp256k1 | Curve::NistP256 => 128,
            Curve::Secp384r1 => 192,
        }
    }

    /// The curve's number in every wire format; never reused.
    pub fn wire_id(self) -> u8 {
        1 + self as u8
    }

    /// The curve of a wire number.
    pub fn from_wire_id(id: u8) -> Option<Curve> {
        Self::ALL.into_iter().find(|curve| curve.wire_id() == id)
    }

    /// Bytes of a coordinate: the length of `p` (21 for p160_1, whose `p` has 161 bits).
    pub fn coordinate_bytes(self) -> usize {
        self.field_bits().div_ceil(8) as usize
    }

    /// Bytes of a scalar: the length of the order (21 for secp160k1, 29 for secp224k1).
    pub fn scalar_bytes(self) -> usize {
        self.order_bits().div_ceil(8) as usize
    }

    /// Bits of `p`.
    const fn field_bits(self) -> u32 {
        match self {
            Curve::Secp160k1 => 160,
            Curve::P160_1 => 161,
            Curve::Secp192k1 | Curve::NistP192 => 192,
            Curve::Secp224k1 | Curve::NistP224 => 224,
            Curve::Secp256k1 | Curve::NistP256 => 256,
            Curve::Secp384r1 => 384,
        }
    }

    /// Bits of the order, which may be one more or less than those of `p`.
    const fn order_bits(self) -> u32 {
        match self {
            Curve::P160_1 => 160,
            Curve::Secp160k1 => 161,
            Curve::Secp224k1 => 225,
            _ => self.field_bits(),
        }
    }

    /// The curve to compute on, if this build has its arithmetic.
    pub fn built(self) -> Option<BuiltCurve> {
        BuiltCurve::ALL.into_iter().find(|built| Curve::from(*built) == self)
    }
}

impl fmt::Display for Curve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Sizes of a curve.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// 64-bit words of a field element or scalar.
    pub(crate) words: usize,
    /// Bits of the order.
    pub(crate) order_bits: u32,
    /// The order, least significant word first.
    pub(crate) order: &'static [u64],
    /// The generator's canonical `x` and `y`.
    pub(crate) generator: &'static [u64],
    /// The constants to halve scalars, if `a = 0`.
    pub(crate) halves: Option<&'static Halves>,
}

/// Limbs of 52 bits for a field of `words` 64-bit words, with room for a factor of 16 above the
/// prime.
#[cfg(any(target_arch = "x86_64", test))]
pub(crate) const fn limbs52(words: usize) -> usize {
    (64 * words + 3) / 52 + 1
}

/// Declares the marker type of a curve and hands its constants to the loops.
macro_rules! curve {
    (
        $name:ident, limbs: $limbs:literal, a: $a:expr,
        form: $form:expr, p: $p:expr, b: $b:expr, gx: $gx:expr, gy: $gy:expr, n: $n:expr, beta: $beta:expr,
        halves: $halves:expr,
    ) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name;

        impl Prime<$limbs> for $name {
            const MODULUS: [u64; $limbs] = $p;
            const BITS: u32 = Curve::$name.field_bits();
            const FORM: Form = $form;
        }

        impl CurveConstants<$limbs> for $name {
            #[cfg(target_pointer_width = "32")]
            type Scalar = Narrow<$name, $limbs, { limbs29(Curve::$name.field_bits()) }>;
            #[cfg(not(target_pointer_width = "32"))]
            type Scalar = Element<$name, $limbs>;
            const A: Coefficient = $a;
            const B: [u64; $limbs] = $b;
            const GENERATOR: [[u64; $limbs]; 2] = [$gx, $gy];
            const ORDER: [u64; $limbs] = $n;
            const BETA: [u64; $limbs] = $beta;
        }

        impl $name {
            pub(super) const CURVE: Curve = Curve::$name;
            pub(crate) const WORDS: usize = $limbs;
            /// The loops that define the results of all others.
            #[cfg(test)]
            pub(crate) const PORTABLE: &'static CurveKernels =
                &Portable::<$name, Element<$name, $limbs>, $limbs>::KERNELS;
            #[cfg(test)]
            pub(crate) const NARROW: [CurveKernels; 2] = {
                type Loops = Portable<$name, Narrow<$name, $limbs, { limbs29(Curve::$name.field_bits()) }>, $limbs>;
                [Loops::KERNELS, Loops::SHUFFLING]
            };
            pub(super) const SCALAR: &'static CurveKernels =
                &Portable::<$name, <$name as CurveConstants<$limbs>>::Scalar, $limbs>::KERNELS;
            pub(super) const SHAPE: Shape = Shape {
                words: $limbs,
                order_bits: Curve::$name.order_bits(),
                order: &<$name as CurveConstants<$limbs>>::ORDER,
                generator: <$name as CurveConstants<$limbs>>::GENERATOR.as_flattened(),
                halves: $halves,
            };

            /// The loops on vectors, if this machine has any.
            pub(crate) fn vector_kernels() -> Option<&'static CurveKernels> {
                #[cfg(target_arch = "x86_64")]
                return crate::kernels::Avx512Kernels::<$name, $limbs, { limbs52($limbs) }>::detect();
                #[cfg(not(target_arch = "x86_64"))]
                None
            }
        }
    };
}

#[cfg(feature = "paper")]
curve! {
    Secp160k1, limbs: 3, a: Coefficient::Zero,
    form: Form::PseudoMersenne { fold: 0x1_0000_538d },
    p: [0xffff_fffe_ffff_ac73, 0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff],
    b: [0x0000_0000_0000_0007, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
    gx: [0x3036_f4f5_dd4d_7ebb, 0xe37a_a192_a401_9e76, 0x0000_0000_3b4c_382c],
    gy: [0x5317_33c3_f03c_4fee, 0x318f_dced_6bc2_8286, 0x0000_0000_938c_f935],
    n: [0x16df_ab9a_ca16_b6b3, 0x0000_0000_0001_b8fa, 0x0000_0001_0000_0000],
    beta: [0xcf4d_5d1e_1e6c_bb68, 0xa143_4649_42cc_46d7, 0x0000_0000_645b_7345],
    halves: Some(&Halves {
        #[cfg(test)]
        lambda: [0xf787_a6ec_6d16_b2be, 0x4c5c_9288_fe47_f1df, 0x0000_0000_f3c6_393c, 0x0000_0000_0000_0000],
        g: [
            [0x42b6_27e3_a043_9577, 0x6631_aa87_c293_67af, 0x82ec_ffa1_02d3_85ab, 0x0001_2797_1af8_7217, 0x0000_0000_0000_0000],
            [0xde9b_64db_93fb_7cf6, 0x0d02_2691_c8d0_10e6, 0x472a_0a9d_058f_d763, 0x0000_9162_fbe7_3984, 0x0000_0000_0000_0000],
        ],
        basis: [
            [
                [0x1f11_3893_3bc2_f505, 0x0000_0000_0000_9634, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x0418_c67b_b8d5_f562, 0xffff_ffff_ffff_6e9d, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
            ],
            [
                [0xfbe7_3984_472a_0a9e, 0x0000_0000_0000_9162, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x1af8_7217_82ec_ffa3, 0x0000_0000_0001_2797, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
            ],
        ],
    }),
}

#[cfg(feature = "paper")]
curve! {
    P160_1, limbs: 3, a: Coefficient::Small(10),
    form: Form::Montgomery { top: &[(-1, 4), (1, 1)] },
    p: [0x0000_0000_0000_0007, 0x0000_0000_0000_0000, 0x0000_0001_0000_0000],
    b: [0x208f_394c_f73c_c816, 0xb7cb_931b_8b34_6fa1, 0x0000_0000_eb5a_93ab],
    gx: [0x0000_0000_0000_0001, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
    gy: [0xaa28_afea_dfed_4094, 0x5caa_a1be_e2b9_5053, 0x0000_0000_d89b_9e0c],
    n: [0xe983_af80_2e3b_4441, 0xffff_ffff_fffe_e9a4, 0x0000_0000_ffff_ffff],
    beta: [0; 3],
    halves: None,
}

#[cfg(feature = "paper")]
curve! {
    Secp192k1, limbs: 3, a: Coefficient::Zero,
    form: Form::PseudoMersenne { fold: 0x1_0000_11c9 },
    p: [0xffff_fffe_ffff_ee37, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
    b: [0x0000_0000_0000_0003, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
    gx: [0x1da5_d1b1_eae0_6c7d, 0x26b0_7d02_80b7_f434, 0xdb4f_f10e_c057_e9ae],
    gy: [0x4082_aa88_d95e_2f9d, 0x8441_63d0_15be_8634, 0x9b2f_2f6d_9c56_28a7],
    n: [0x0f69_466a_74de_fd8d, 0xffff_fffe_26f2_fc17, 0xffff_ffff_ffff_ffff],
    beta: [0x0cb4_f55b_35f4_33c2, 0xd087_f601_554b_96b8, 0xbb85_6919_39b8_69c1],
    halves: Some(&Halves {
        #[cfg(test)]
        lambda: [0x33b1_a580_0175_d0b1, 0x4f3d_5166_13c1_7590, 0x3d84_f26c_1223_8d7b, 0x0000_0000_0000_0000],
        g: [
            [0x855d_f94b_37e8_213e, 0xd0f8_85ee_42a6_0a2d, 0x330b_3038_edb0_25f1, 0x0000_0000_7116_9be7, 0x0000_0000_0000_0000],
            [0x4944_e9af_c9ba_5dfd, 0x4c94_4996_f60f_5441, 0xdec5_c4ad_ceb8_655d, 0x0000_0000_b3fb_3400, 0x0000_0000_0000_0000],
        ],
        basis: [
            [
                [0x330b_3038_edb0_25f1, 0x0000_0000_7116_9be7, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x213a_3b52_3147_9aa4, 0xffff_ffff_4c04_cbff, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
            ],
            [
                [0x11d0_f4e6_bc68_8b4d, 0x0000_0001_2511_cfe8, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x330b_3038_edb0_25f1, 0x0000_0000_7116_9be7, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
            ],
        ],
    }),
}

curve! {
    Secp224k1, limbs: 4, a: Coefficient::Zero,
    form: Form::PseudoMersenne { fold: 0x1_0000_1a93 },
    p: [0xffff_fffe_ffff_e56d, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff],
    b: [0x0000_0000_0000_0005, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
    gx: [0x0f7e_650e_b6b7_a45c, 0x69a4_67e9_e470_75a9, 0x4df0_99df_30fc_28a1, 0x0000_0000_a145_5b33],
    gy: [0xe2ca_4bdb_556d_61a5, 0xf7e3_19f7_c0b0_bd59, 0x7fba_3442_82ca_fbd6, 0x0000_0000_7e08_9fed],
    n: [0xcaf0_a971_769f_b1f7, 0x0001_dce8_d2ec_6184, 0x0000_0000_0000_0000, 0x0000_0001_0000_0000],
    beta: [0x49c3_7cf5_b84d_6768, 0x1d55_2a85_0b3f_58b7, 0x5b4e_8376_1908_c513, 0x0000_0000_fe0e_8700],
    halves: Some(&Halves {
        #[cfg(test)]
        lambda: [0x7f9b_3304_6c9e_4788, 0xbdd6_1073_9ec3_4e31, 0x4c4c_bc0b_e6ee_efc2, 0x0000_0000_60dc_d210],
        g: [
            [0xa152_5484_1392_f207, 0x27be_aad4_6e56_a2d4, 0x9d67_0590_37a4_2080, 0xf07d_4ca7_5c88_957d, 0x0000_0000_0000_6b8c],
            [0x50dd_9834_3976_aa21, 0xe9b1_0bc5_7c33_c48b, 0x6c9c_637b_a7f4_9db0, 0xf137_8a6e_b734_09fa, 0x0000_0000_0000_b8ad],
        ],
        basis: [
            [
                [0x5c88_957d_9d67_0591, 0x0000_6b8c_f07d_4ca7, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x48cb_f605_9363_9c83, 0xffff_4752_0ec8_7591, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
            ],
            [
                [0x13bc_9f78_0a03_690e, 0x0001_243a_e1b4_d716, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x5c88_957d_9d67_0591, 0x0000_6b8c_f07d_4ca7, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
            ],
        ],
    }),
}

curve! {
    Secp256k1, limbs: 4, a: Coefficient::Zero,
    form: Form::PseudoMersenne { fold: 0x1_0000_03d1 },
    p: [0xffff_fffe_ffff_fc2f, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
    b: [0x0000_0000_0000_0007, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
    gx: [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac],
    gy: [0x9c47_d08f_fb10_d4b8, 0xfd17_b448_a685_5419, 0x5da4_fbfc_0e11_08a8, 0x483a_da77_26a3_c465],
    n: [0xbfd2_5e8c_d036_4141, 0xbaae_dce6_af48_a03b, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff],
    beta: [0x3ec6_93d6_8e6a_fa40, 0x630f_b68a_ed0a_766a, 0x919b_b861_53cb_cb16, 0x8516_95d4_9a83_f8ef],
    halves: Some(&Halves {
        #[cfg(test)]
        lambda: [0xe0cf_c810_b512_83ce, 0xa880_b9fc_8ec7_39c2, 0x5ad9_e3fd_77ed_9ba4, 0xac9c_52b3_3fa3_cf1f],
        g: [
            [0xfe04_d548_d0a0_2fa2, 0x5fbc_92c1_0fdd_d145, 0x57c1_108d_9d44_cfd9, 0x14ca_50f7_a8e2_f3f6, 0x0000_0000_0000_0001],
            [0xe893_209a_45db_b031, 0x3daa_8a14_71e8_ca7f, 0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0x0000_0000_0000_0000],
        ],
        basis: [
            [
                [0x6f54_7fa9_0abf_e4c3, 0xe443_7ed6_010e_8828, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x1793_6f1b_6d7b_14eb, 0xcf79_2dde_582b_9432, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
            ],
            [
                [0xe86c_90e4_9284_eb15, 0x3086_d221_a7d4_6bcd, 0x0000_0000_0000_0000, 0x0000_0000_0000_0000],
                [0x57c1_108d_9d44_cfd8, 0x14ca_50f7_a8e2_f3f6, 0x0000_0000_0000_0001, 0x0000_0000_0000_0000],
            ],
        ],
    }),
}

curve! {
    Secp384r1, limbs: 6, a: Coefficient::MinusThree,
    form: Form::Montgomery { top: &[(1, 128), (1, 96), (-1, 32), (1, 0)] },
    p: [0x0000_0000_ffff_ffff, 0xffff_ffff_0000_0000, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
    b: [0x2a85_c8ed_d3ec_2aef, 0xc656_398d_8a2e_d19d, 0x0314_088f_5013_875a, 0x181d_9c6e_fe81_4112, 0x988e_056b_e3f8_2d19, 0xb331_2fa7_e23e_e7e4],
    gx: [0x3a54_5e38_7276_0ab7, 0x5502_f25d_bf55_296c, 0x59f7_41e0_8254_2a38, 0x6e1d_3b62_8ba7_9b98, 0x8eb1_c71e_f320_ad74, 0xaa87_ca22_be8b_0537],
    gy: [0x7a43_1d7c_90ea_0e5f, 0x0a60_b1ce_1d7e_819d, 0xe9da_3113_b5f0_b8c0, 0xf8f4_1dbd_289a_147c, 0x5d9e_98bf_9292_dc29, 0x3617_de4a_9626_2c6f],
    n: [0xecec_196a_ccc5_2973, 0x581a_0db2_48b0_a77a, 0xc763_4d81_f437_2ddf, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff],
    beta: [0; 6],
    halves: None,
}

#[cfg(feature = "paper")]
curve! {
    NistP192, limbs: 3, a: Coefficient::MinusThree,
    form: Form::Montgomery { top: &[(1, 64), (1, 0)] },
    p: [0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_fffe, 0xffff_ffff_ffff_ffff],
    b: [0xfeb8_deec_c146_b9b1, 0x0fa7_e9ab_7224_3049, 0x6421_0519_e59c_80e7],
    gx: [0xf4ff_0afd_82ff_1012, 0x7cbf_20eb_43a1_8800, 0x188d_a80e_b030_90f6],
    gy: [0x73f9_77a1_1e79_4811, 0x6310_11ed_6b24_cdd5, 0x0719_2b95_ffc8_da78],
    n: [0x146b_c9b1_b4d2_2831, 0xffff_ffff_99de_f836, 0xffff_ffff_ffff_ffff],
    beta: [0; 3],
    halves: None,
}

curve! {
    NistP224, limbs: 4, a: Coefficient::MinusThree,
    form: Form::Montgomery { top: &[(1, 96), (-1, 0)] },
    p: [0x0000_0000_0000_0001, 0xffff_ffff_0000_0000, 0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff],
    b: [0x270b_3943_2355_ffb4, 0x5044_b0b7_d7bf_d8ba, 0x0c04_b3ab_f541_3256, 0x0000_0000_b405_0a85],
    gx: [0x3432_80d6_115c_1d21, 0x4a03_c1d3_56c2_1122, 0x6bb4_bf7f_3213_90b9, 0x0000_0000_b70e_0cbd],
    gy: [0x44d5_8199_8500_7e34, 0xcd43_75a0_5a07_4764, 0xb5f7_23fb_4c22_dfe6, 0x0000_0000_bd37_6388],
    n: [0x13dd_2945_5c5c_2a3d, 0xffff_16a2_e0b8_f03e, 0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff],
    beta: [0; 4],
    halves: None,
}

curve! {
    NistP256, limbs: 4, a: Coefficient::MinusThree,
    form: Form::Montgomery { top: &[(1, 224), (-1, 192), (-1, 96), (1, 0)] },
    p: [0xffff_ffff_ffff_ffff, 0x0000_0000_ffff_ffff, 0x0000_0000_0000_0000, 0xffff_ffff_0000_0001],
    b: [0x3bce_3c3e_27d2_604b, 0x651d_06b0_cc53_b0f6, 0xb3eb_bd55_7698_86bc, 0x5ac6_35d8_aa3a_93e7],
    gx: [0xf4a1_3945_d898_c296, 0x7703_7d81_2deb_33a0, 0xf8bc_e6e5_63a4_40f2, 0x6b17_d1f2_e12c_4247],
    gy: [0xcbb6_4068_37bf_51f5, 0x2bce_3357_6b31_5ece, 0x8ee7_eb4a_7c0f_9e16, 0x4fe3_42e2_fe1a_7f9b],
    n: [0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000],
    beta: [0; 4],
    halves: None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_names_are_nine_curves_and_wire_numbers_are_stable() {
        let names: std::collections::BTreeSet<_> = Curve::PAPER_NAMES.iter().map(|(_, curve)| curve).collect();
        assert_eq!(names.len(), 9);
        for (i, curve) in Curve::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(curve.wire_id()), i + 1);
            assert_eq!(Curve::from_wire_id(curve.wire_id()), Some(curve));
            assert_eq!(Curve::from_name(curve.name()), Ok(curve));
        }
        assert_eq!(Curve::from_wire_id(0), None);
        assert_eq!(Curve::from_wire_id(10), None);
        assert_eq!(Curve::from_name("nist_p384"), Ok(Curve::Secp384r1));
    }

    #[test]
    fn unknown_names_are_refused_with_the_list() {
        let message = Curve::from_name("secp256k2").unwrap_err().to_string();
        assert!(message.contains("secp256k2") && message.contains("NIST_P384"), "{message}");
    }

    #[test]
    fn odd_sizes_are_sized_by_their_own_numbers() {
        assert_eq!((Curve::P160_1.coordinate_bytes(), Curve::P160_1.scalar_bytes()), (21, 20));
        assert_eq!((Curve::Secp160k1.coordinate_bytes(), Curve::Secp160k1.scalar_bytes()), (20, 21));
        assert_eq!((Curve::Secp224k1.coordinate_bytes(), Curve::Secp224k1.scalar_bytes()), (28, 29));
        assert_eq!((Curve::Secp384r1.coordinate_bytes(), Curve::Secp384r1.scalar_bytes()), (48, 48));
    }
}
