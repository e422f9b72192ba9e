//! The verbs.

pub(crate) mod bench;
pub(crate) mod call;
pub(crate) mod demo;
pub(crate) mod infer;
pub(crate) mod info;
pub(crate) mod plan;
pub(crate) mod search;
pub(crate) mod serve;
