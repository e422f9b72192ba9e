//! Lists that stop reading at their limit.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// A list that stops reading at the first item too many, so that no text makes a list of many times
/// its own size: `[],` would already become an empty list of 24 bytes and more.
pub(crate) struct AtMost<T> {
    most: usize,
    items: PhantomData<T>,
}

impl<T> AtMost<T> {
    /// A list of at most `most` items.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, items: PhantomData }
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for AtMost<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} items", self.most)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() == self.most {
                return Err(A::Error::invalid_length(self.most + 1, &self));
            }
            items.push(item);
        }
        Ok(items)
    }
}

/// A field that is a list of at most `MOST` items.
pub(crate) fn at_most<'de, D: Deserializer<'de>, T: Deserialize<'de>, const MOST: usize>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    AtMost::<T>::new(MOST).deserialize(deserializer)
}
