//! Simulated haplotypes, as varied as real ones. Mutations occur on the branches of a genealogy of
//! founders, which changes along the chromosome; haplotypes are mosaics of the founders (Li and
//! Stephens, Genetics 2003; Kingman's coalescent). For demonstrations, benchmarks and tests: every
//! use says that the data are simulated.

/// Numbers that are the same on every machine, and not secret.
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// Numbers that follow from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    /// A uniform number below a small bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * bound as u128) >> 64) as usize
    }
}

const FOUNDERS: usize = 24;

/// Sets of founders, one for each branch of a random genealogy (Kingman's coalescent).
fn branches(numbers: &mut Numbers) -> Vec<u32> {
    let mut lineages: Vec<u32> = (0..FOUNDERS).map(|founder| 1 << founder).collect();
    let mut all = lineages.clone();
    while lineages.len() > 2 {
        let [a, b] = [0, 1].map(|_| lineages.swap_remove(numbers.below(lineages.len())));
        lineages.push(a | b);
        // upper branches are longer, and get more of the mutations
        (0..1 + FOUNDERS / lineages.len()).for_each(|_| all.push(a | b));
    }
    all
}

/// The alleles of all haplotypes, site by site.
pub fn columns(haplotypes: usize, sites: usize, seed: u64) -> Vec<Vec<bool>> {
    let mut numbers = Numbers::new(seed);
    let mut from: Vec<usize> = (0..haplotypes).map(|_| numbers.below(FOUNDERS)).collect();
    let mut tree = branches(&mut numbers);
    let column = |_| {
        if numbers.below(60) == 0 {
            tree = branches(&mut numbers);
        }
        for _ in 0..1 + haplotypes / 4_000 {
            let haplotype = numbers.below(haplotypes);
            from[haplotype] = numbers.below(FOUNDERS);
        }
        let branch = tree[numbers.below(tree.len())];
        from.iter().map(|founder| branch >> founder & 1 == 1).collect()
    };
    (0..sites).map(column).collect()
}
