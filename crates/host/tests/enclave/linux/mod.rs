//! The list of the tests, and a runner with the output of libtest.

mod confinement;
mod life;
mod probe;
mod secrecy;

use std::process::ExitCode;
use tobari_host::enclave::{is_inside, run_inside};

macro_rules! tests {
    ($($module:ident :: $name:ident),* $(,)?) => {
        const TESTS: &[tobari_host::testing::Test] = &[$((concat!(stringify!($module), "::", stringify!($name)), $module::$name)),*];
    };
}

tests![
    confinement::a_forbidden_system_call_kills_the_enclave_and_ends_the_session,
    confinement::what_memory_and_randomness_need_is_allowed,
    confinement::what_could_not_be_had_is_reported_and_what_is_required_is_enforced,
    confinement::without_namespaces_the_rest_still_holds,
    confinement::the_process_has_no_file_no_environment_and_its_own_namespaces,
    life::a_session_ends_with_its_script_and_gives_the_right_answers,
    life::messages_longer_than_the_ring_come_back_whole,
    life::an_enclave_over_pipes_is_confined_as_one_over_shared_memory,
    life::a_handler_that_panics_ends_the_enclave_with_a_clear_error,
    life::an_enclave_killed_in_the_middle_of_a_call_is_noticed_at_once,
    life::an_enclave_that_hangs_is_killed_at_its_time_limit,
    life::an_enclave_dies_with_its_host,
    life::a_refused_setup_or_configuration_does_not_start,
    life::sessions_are_capped_and_come_free_again,
    life::an_enclave_survives_the_thread_that_started_it,
    life::tampered_messages_end_their_session_and_no_other,
    secrecy::secrets_are_in_no_memory_of_the_host_and_are_wiped_inside_when_a_session_ends,
    secrecy::another_process_of_the_same_user_cannot_read_its_memory,
    secrecy::evidence_of_this_process_is_accepted_only_where_simulated_evidence_is,
];

pub(crate) fn main() -> ExitCode {
    if is_inside(probe::VERB) {
        return run_inside(probe::Probe::build);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(secrecy::AS_NOBODY) => return secrecy::as_nobody(),
        Some(secrecy::HOST_OF_ANOTHER) => return secrecy::host_of_another_client(),
        Some(life::HOST_THAT_IS_KILLED) => return life::host_that_is_killed(),
        _ => {}
    }
    tobari_host::testing::run_tests(TESTS, &arguments)
}
