//! The groups of an order.

use super::{MAX_DEVICES, MAX_GROUPS};
use crate::lists::AtMost;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use std::fmt;

/// Groups. Reading stops at the first group too many, the first empty group, or the first device
/// too many over all groups together.
struct Groups;

impl<'de> Visitor<'de> for Groups {
    type Value = Vec<Vec<u32>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at most {MAX_GROUPS} groups, none of them empty, of at most {MAX_DEVICES} devices in all")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut groups, mut devices): (Vec<Vec<u32>>, usize) = (Vec::new(), 0);
        while let Some(group) = list.next_element_seed(AtMost::<u32>::new(MAX_DEVICES - devices))? {
            if group.is_empty() || groups.len() == MAX_GROUPS {
                return Err(A::Error::invalid_length(groups.len() + 1, &self));
            }
            devices += group.len();
            groups.push(group);
        }
        Ok(groups)
    }
}

pub(super) fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<u32>>, D::Error> {
    deserializer.deserialize_seq(Groups)
}
