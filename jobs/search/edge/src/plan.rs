//! The positional Burrows-Wheeler transform under encryption: the job of `tobari plan search` and
//! `tobari-bench search --paper`.
//!
//! The panel is simulated: the operations and the running time depend on sizes alone. Patterns of
//! more than ten sites are in the module `long`.

use crate::long;
use chacha20::rand_core::Rng;
use clap::{Args, ValueEnum};
use std::process::ExitCode;
use std::sync::Arc;
use tobari_command::output::Failure;
use tobari_engine::{BgvEngine, BgvValue};
use tobari_lattice::bgv::{Decryptor, Encoder};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::ring::Seed;
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_plan::cost::Costs;
use tobari_plan::plan::bytes;
use tobari_plan::program::{Program, Value};
use tobari_reference::{Examples, Reference, RunArguments, Work, explain, generator, measure};
use tobari_search::panel::{Panel, Pattern};
use tobari_search::pbwt::maps::Maps;
use tobari_search::pbwt::program::{self, Input};
use tobari_search::pbwt::{self, Layout, Size, client};

/// `tobari plan search`
#[derive(Args)]
#[command(after_help = "\
Examples:
    tobari plan search --length 5 --memory 1GiB
    tobari plan search --length 5 --memory 1GiB --json
    tobari plan search --method pbwt-bits --length 8 --memory 8GiB --run")]
pub struct SearchPlan {
    #[command(flatten)]
    common: RunArguments,
    /// Plan this algorithm.
    #[arg(long, value_enum, default_value_t = SearchMethod::PbwtHe)]
    method: SearchMethod,
    /// Search a pattern of this many sites.
    #[arg(long, default_value_t = 5, value_name = "SITES")]
    length: usize,
    #[command(flatten)]
    panel: PanelArguments,
    /// Run the plan, too, and check the result.
    #[arg(long)]
    run: bool,
}

/// An algorithm for a search that is run as a job within a memory limit.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchMethod {
    /// The paper's: the positional Burrows-Wheeler transform under encryption. Patterns of more
    /// than ten sites take pbwt-bits.
    PbwtHe,
    /// The same on bits that are refreshed: for any length, faster, and in memory.
    PbwtBits,
}

impl SearchPlan {
    /// Plans the search and prints the plan, and runs it if the options say so.
    ///
    /// # Errors
    /// [`Failure`] if the search or its plan is impossible.
    pub fn explain(&self) -> Result<ExitCode, Failure> {
        let size = self.panel.size(self.length);
        if self.length > pbwt::LONGEST || self.method == SearchMethod::PbwtBits {
            return long::explain(size, &self.common, self.run);
        }
        let job = Reference::new(Pbwt::new(size)?);
        explain(&job, &self.common, self.run)
    }
}

/// A made-up panel.
#[derive(Args, Clone)]
pub struct PanelArguments {
    /// Haplotypes of the panel, which is made up.
    #[arg(long, default_value_t = 2184, value_name = "N")]
    pub haplotypes: usize,
    /// Places that are searched at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub places: usize,
}

impl PanelArguments {
    /// The size of a search in the panel for a pattern of `length` sites.
    pub fn size(&self, length: usize) -> Size {
        Size { haplotypes: self.haplotypes, places: self.places, length }
    }
}

/// The founders of the simulated haplotypes. Few founders make haplotypes share patterns.
const FOUNDERS: usize = 12;

/// A search with its program and the parties' inputs.
pub struct Pbwt {
    engine: BgvEngine,
    layout: Layout,
    parameters: LatticeParameters,
    secret: SecretKey,
    maps: Maps,
    /// The pattern of the question at place 0, which some haplotype has.
    pattern: Vec<bool>,
    /// The number of haplotypes with the pattern.
    expected: u64,
    program: Program,
    inputs: Vec<Input>,
}

impl Pbwt {
    /// A search of a size.
    pub fn new(size: Size) -> Result<Self, Failure> {
        let set = NamedSet::from_name(pbwt::SET);
        let parameters = set.ok_or_else(|| Failure::Work(format!("there is no set {}", pbwt::SET)))?.parameters()?;
        let layout = Layout::new(&parameters, size).map_err(|error| Failure::Call(error.to_string()))?;
        let secret = SecretKey::from_seed(&parameters, Seed::random(&mut generator(11, 0)));
        let public = PublicKey::generate(&secret, &mut generator(12, 0));
        let engine = BgvEngine::new(&parameters, Some(public), &mut generator(3, 0))?;
        let windows: Vec<Vec<Vec<bool>>> = (0..size.places).map(|place| window(size, place)).collect();
        let pattern: Vec<bool> = windows[0].iter().map(|site| site[0]).collect();
        let mut panel = Panel::new(size.haplotypes)?;
        windows[0].iter().try_for_each(|site| panel.push(site))?;
        let bits = pattern.iter().enumerate().fold(0, |all, (site, allele)| all | Pattern::from(*allele) << site);
        let expected = u64::from(panel.count(0, size.length, bits)?);
        let (program, inputs) = program::record(&engine, &layout)?;
        let maps = Maps::new(&layout, &windows)?;
        Ok(Self { engine, layout, parameters, secret, maps, pattern, expected, program, inputs })
    }

    fn of(&self, input: Input, number: usize) -> Result<BgvValue, Failure> {
        if let Input::Symbol(site) = input {
            let (allele, rng) = (self.pattern[site], &mut generator(14, number));
            let symbol = client::symbol(&self.layout, &self.secret, 0, site, allele, rng)?;
            return Ok(self.engine.ciphertext(symbol.expand())?);
        }
        if let Some(key) = client::key(&self.layout, &self.secret, input, &mut generator(15, number)) {
            return Ok(self.engine.key(key)?);
        }
        let site = match input {
            Input::Map { site, .. } => site,
            Input::Last => self.pattern.len() - 1,
            _ => 0,
        };
        let slots = self.maps.slots(input).ok_or_else(|| Failure::Work("expected an input, found none".to_owned()))?;
        Ok(self.engine.compact(&slots, self.layout.level(site))?)
    }
}

/// Alleles by site and haplotype: mosaics of a few founders.
pub(crate) fn window(size: Size, place: usize) -> Vec<Vec<bool>> {
    let mut rng = generator(13, place);
    let mut below = |most: usize| rng.next_u32() as usize % most;
    let mut ancestors: Vec<usize> = (0..size.haplotypes).map(|_| below(FOUNDERS)).collect();
    let mut site = || {
        let founders: Vec<bool> = (0..FOUNDERS).map(|_| below(3) == 0).collect();
        for ancestor in &mut ancestors {
            if below(50) == 0 {
                *ancestor = below(FOUNDERS);
            }
        }
        ancestors.iter().map(|ancestor| founders[*ancestor]).collect()
    };
    (0..size.length).map(|_| site()).collect()
}

impl Work for Pbwt {
    fn job(&self) -> &'static str {
        "search"
    }

    fn set(&self) -> &'static str {
        pbwt::SET
    }

    fn title(&self) -> String {
        let Size { haplotypes, places, length } = self.layout.size();
        let places = if places == 1 { "one place".to_owned() } else { format!("{places} places") };
        let inputs = bytes(self.program.bytes()[1]);
        format!(
            "{length} encrypted alleles through the transform of {haplotypes} haplotypes at {places}: {inputs} of inputs"
        )
    }

    fn sizes(&self) -> serde_json::Value {
        let Size { haplotypes, places, length } = self.layout.size();
        serde_json::json!({ "method": "pbwt-he", "length": length, "haplotypes": haplotypes, "places": places })
    }

    fn engine(&self) -> &BgvEngine {
        &self.engine
    }

    fn program(&self) -> &Program {
        &self.program
    }

    fn input(&self, value: Value) -> Result<BgvValue, String> {
        self.of(self.inputs[value.index()], value.index()).map_err(|failure| failure.to_string())
    }

    fn measure(&self) -> Result<Costs, Failure> {
        let (primes, level) = (self.parameters.data_primes(), self.engine.top_level());
        let (encoder, holder) = (Encoder::new(&self.parameters)?, Decryptor::new(&self.secret)?);
        let slots = client::slots(&self.layout, 0, true)?;
        let vector = encoder.encode(&slots)?.encrypt_seeded(holder.key(), primes, &mut generator(16, 0))?.expand();
        // keys at the whole set's level, although a shorter pattern begins at a lower one
        let rng = &mut generator(16, 1);
        let none = || tobari_lattice::bgv::EvaluationKeys::new(&self.parameters);
        let (rotation, product) = (
            none().with_rotation(&self.secret, 1, primes, rng)?,
            none().with_relinearization(&self.secret, primes, rng)?,
        );
        let examples = Examples {
            vector: self.engine.ciphertext(vector)?,
            plain: self.engine.compact(&self.maps.slots(Input::Last).unwrap_or(slots), level)?,
            steps: 1,
            rotation: self.engine.key(rotation)?,
            product: self.engine.key(product)?,
        };
        measure(&self.engine, &examples)
    }

    fn is_right(&self, outputs: &[Arc<BgvValue>]) -> Result<bool, Failure> {
        let answer = outputs
            .first()
            .and_then(|output| output.as_ciphertext())
            .ok_or_else(|| Failure::Work("the output is no ciphertext".to_owned()))?;
        Ok(client::count(&self.layout, &self.secret, 0, answer)? == self.expected)
    }
}
