//! `tobari.plan`: plans of computations with their reasons, as JSON for objects, and as the text of
//! `tobari plan`.

use crate::errors::failed;
use crate::randomness::generator;
use crate::work::{long, short};
use pyo3::prelude::*;
use serde_json::json;
use tobari_engine::BgvEngine;
use tobari_engine::matrix::{self, Size};
use tobari_infer::paper;
use tobari_infer::placement::{self, Inside, Protect};
use tobari_lattice::params::{LatticeParameters, NamedSet};
use tobari_lattice::rlwe::{PublicKey, SecretKey};
use tobari_plan::check::Requirements;
use tobari_plan::cost::Costs;
use tobari_plan::plan::plan;
use tobari_plan::program::Program;
use tobari_plan::site::Site;
use tobari_search::pbwt;
use tobari_sense::aes;

/// The place of each layer of the paper's network, by the paper's costs: JSON, and text. `protect`
/// names data, model and integrity; `reset` is none, masked or plain.
#[pyfunction]
#[pyo3(signature = (protect, side_channels=false, active_host=false, reset="none", enclave=true))]
fn infer(
    py: Python<'_>,
    protect: Vec<String>,
    side_channels: bool,
    active_host: bool,
    reset: &str,
    enclave: bool,
) -> PyResult<(String, String)> {
    if let Some(other) = protect.iter().find(|name| !["data", "model", "integrity"].contains(&name.as_str())) {
        return Err(failed(format!("expected data, model or integrity to protect, found {other:?}")));
    }
    let inside = match reset {
        "none" => None,
        // without side channels, plain data may be inside the enclave anyway
        "masked" => side_channels.then_some(Inside::Masked),
        "plain" => Some(Inside::Yes),
        other => return Err(failed(format!("expected a reset none, masked or plain, found {other:?}"))),
    };
    let protects = |what: &str| protect.iter().any(|name| name == what);
    let protect = Protect {
        user_data: protects("data"),
        model: protects("model"),
        integrity: protects("integrity"),
        side_channels,
        active_host,
        plain_in_enclave: inside,
        enclave,
        key_in_enclave: enclave,
    };
    let resets = reset != "none";
    short(py, || placed(&protect, resets))
}

fn placed(protect: &Protect, resets: bool) -> PyResult<(String, String)> {
    let rows = paper::layers(resets);
    let inference = paper::inference(&rows);
    let ways = placement::relaxations(&inference, protect);
    let placement = inference.place(protect).map_err(|error| {
        let ways: Vec<String> = ways.iter().map(|way| format!("{} ({:.3} s)", way.gives_up, way.seconds)).collect();
        match ways.is_empty() {
            true => failed(format!("no plan: {error}")),
            false => failed(format!("no plan: {error}\nthere is one if: {}", ways.join("; or "))),
        }
    })?;
    let (job, sites) = (inference.job(protect), placement::sites(protect));
    let steps = job.segments.iter().zip(&placement.choices).map(|(segment, choice)| {
        json!({
            "layer": segment.name, "way": segment.variants[choice.variant].name, "site": sites[choice.site].name,
            "conversion": choice.conversion.map(|(conversion, _)| conversion.to_string()),
            "moving_seconds": choice.seconds[0], "seconds": choice.seconds[1],
        })
    });
    let steps: Vec<_> = steps.collect();
    let relaxations: Vec<_> =
        ways.iter().map(|way| json!({ "gives_up": way.gives_up, "seconds": way.seconds })).collect();
    let found = json!({
        "job": "infer", "protect": protect.to_string(), "seconds": placement.seconds, "steps": steps,
        "relaxations": relaxations,
    });
    Ok((found.to_string(), placement.explain(&job, &sites)))
}

/// Encrypted vectors times a matrix with `diagonals` diagonals, within `memory` bytes for values:
/// when values are loaded, kept and dropped. JSON, and text.
#[pyfunction]
#[pyo3(signature = (vectors, diagonals, memory, cores=1))]
fn matrix_product(
    py: Python<'_>,
    vectors: usize,
    diagonals: usize,
    memory: u64,
    cores: u16,
) -> PyResult<(String, String)> {
    const MOST: usize = 4096;
    if vectors.max(diagonals) > MOST {
        return Err(failed(format!("expected at most {MOST} vectors and diagonals, found {vectors} and {diagonals}")));
    }
    long(py, None, move |_| {
        let engine = flooding(&parameters("bgv-b")?)?;
        let (program, _) = matrix::record(&engine, Size { vectors, diagonals }).map_err(failed)?;
        paged("matrix", program, memory, cores)
    })
}

/// The paper's search: `length` alleles through the transform of `haplotypes` haplotypes, within
/// `memory` bytes for values. JSON, and text.
#[pyfunction]
#[pyo3(signature = (length, haplotypes, places, memory, cores=1))]
fn search(
    py: Python<'_>,
    length: usize,
    haplotypes: usize,
    places: usize,
    memory: u64,
    cores: u16,
) -> PyResult<(String, String)> {
    long(py, None, move |_| {
        let parameters = parameters(pbwt::SET)?;
        let layout = pbwt::Layout::new(&parameters, pbwt::Size { haplotypes, places, length }).map_err(failed)?;
        let (program, _) = pbwt::program::record(&flooding(&parameters)?, &layout).map_err(failed)?;
        paged("search", program, memory, cores)
    })
}

/// A batch of devices' frames, decrypted from AES-128 under encryption within `memory` bytes for
/// values. The plan does not depend on the batch. JSON, and text.
#[pyfunction]
#[pyo3(signature = (memory, cores=1))]
fn sense(py: Python<'_>, memory: u64, cores: u16) -> PyResult<(String, String)> {
    long(py, None, move |_| {
        let chain = aes::Chain::new().map_err(failed)?;
        let parameters = chain.parameters().map_err(failed)?;
        let layout = aes::Layout::new(parameters.degree());
        let circuit = aes::Circuit::new(chain, layout.ok_or_else(|| failed("expected slots for a block, found none"))?);
        let engine = BgvEngine::new(&parameters, None, &mut generator()?).map_err(failed)?;
        let (program, _) = aes::program::record(&engine, &circuit).map_err(failed)?;
        paged("sense", program, memory, cores)
    })
}

fn parameters(set: &str) -> PyResult<LatticeParameters> {
    let set = NamedSet::from_name(set).ok_or_else(|| failed(format!("expected the set {set}, found none")))?;
    set.parameters().map_err(failed)
}

/// An engine that computes and floods its results; the plan needs the size of a result.
fn flooding(parameters: &LatticeParameters) -> PyResult<BgvEngine> {
    let mut rng = generator()?;
    let public = PublicKey::generate(&SecretKey::generate(parameters, &mut rng), &mut rng);
    BgvEngine::new(parameters, Some(public), &mut rng).map_err(failed)
}

/// Plans the memory of a program, and checks the plan. Only the command line measures costs: here
/// bytes and steps are the plan's, and the text says that its seconds are assumed.
fn paged(job: &str, program: Program, memory: u64, cores: u16) -> PyResult<(String, String)> {
    let (steps, [_, inputs]) = (program.steps().len(), program.bytes());
    let costs = Costs::unmeasured();
    // the owner of the matrix, the panel or the frames computes here
    let mut site = Site::blind("this machine", cores, memory);
    site.trusted_by.push(matrix::server());
    site.tier_of.push(matrix::server());
    let plan = plan(program, site, &costs).map_err(failed)?;
    let (forecast, kept) = (plan.forecast, plan.kept());
    let text = format!("costs are not measured: all seconds below are assumed\n{}", plan.explain(&costs));
    plan.check(&Requirements { protect: [matrix::server()].into() }).map_err(failed)?;
    let found = json!({
        "job": job, "memory": memory, "inputs": inputs, "program_steps": steps, "steps": forecast.steps,
        "again": forecast.again, "read": forecast.read, "written": forecast.written, "peak": forecast.peak, "kept": kept,
    });
    Ok((found.to_string(), text))
}

/// Makes the functions attributes of the module.
pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(infer, module)?)?;
    module.add_function(wrap_pyfunction!(matrix_product, module)?)?;
    module.add_function(wrap_pyfunction!(search, module)?)?;
    module.add_function(wrap_pyfunction!(sense, module)?)
}
