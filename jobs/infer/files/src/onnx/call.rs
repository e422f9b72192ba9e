//! One node of the file with the values of its inputs, and access to its attributes.

use super::import::{Computed, Fault, Value};
use super::model::{Attribute, Node};
use super::tensor::Tensor;
use std::rc::Rc;

pub(super) struct Call<'n, 'a> {
    pub(super) node: &'n Node<'a>,
    pub(super) inputs: Vec<Option<Value>>,
    /// The version of the standard operators.
    pub(super) version: i64,
}

impl Call<'_, '_> {
    pub(super) fn operator(&self) -> &str {
        self.node.operator
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.node.attributes.contains_key(name)
    }

    pub(super) fn int(&self, name: &str, default: i64) -> Result<i64, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(default),
            Some(Attribute::Integer(integer)) => Ok(*integer),
            Some(_) => Err(format!("an attribute {name} that is no integer")),
        }
    }

    pub(super) fn float(&self, name: &str, default: f32) -> Result<f64, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(default.into()),
            Some(Attribute::Float(x)) => Ok((*x).into()),
            Some(_) => Err(format!("an attribute {name} that is no number")),
        }
    }

    pub(super) fn text(&self, name: &str, default: &str) -> Result<String, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(default.to_owned()),
            Some(Attribute::Text(text)) => Ok(text.clone()),
            Some(_) => Err(format!("an attribute {name} that is no short text")),
        }
    }

    pub(super) fn ints(&self, name: &str) -> Result<Option<&[i64]>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Integers(all)) => Ok(Some(all)),
            Some(_) => Err(format!("an attribute {name} that is no list of integers")),
        }
    }

    pub(super) fn floats(&self, name: &str) -> Result<Option<&[f32]>, Fault> {
        match self.node.attributes.get(name) {
            None => Ok(None),
            Some(Attribute::Floats(all)) => Ok(Some(all)),
            Some(_) => Err(format!("an attribute {name} that is no list of numbers")),
        }
    }

    /// The sizes in an attribute, each at most 2^20.
    pub(super) fn sizes(&self, name: &str) -> Result<Option<Vec<usize>>, Fault> {
        let Some(all) = self.ints(name)? else { return Ok(None) };
        let size = |size: &i64| usize::try_from(*size).ok().filter(|size| *size <= 1 << 20);
        let all: Option<Vec<usize>> = all.iter().map(size).collect();
        all.map(Some).ok_or_else(|| format!("an attribute {name} with sizes that are negative or beyond 2^20"))
    }

    pub(super) fn value(&self, at: usize) -> Option<&Value> {
        self.inputs.get(at).and_then(Option::as_ref)
    }

    pub(super) fn required(&self, at: usize) -> Result<&Value, Fault> {
        self.value(at).ok_or_else(|| format!("no input {at}"))
    }

    /// An input that depends on the picture.
    pub(super) fn computed(&self, at: usize) -> Result<&Computed, Fault> {
        match self.required(at)? {
            Value::Computed(x) => Ok(x),
            Value::Constant(_) => {
                Err(format!("a constant as input {at}: expected a value that depends on the picture"))
            }
            _ => Err(format!("input {at} is a comparison: expected a value")),
        }
    }

    /// A constant that may be missing.
    pub(super) fn constant(&self, at: usize) -> Result<Option<&Rc<Tensor>>, Fault> {
        match self.value(at) {
            None => Ok(None),
            Some(Value::Constant(tensor)) => Ok(Some(tensor)),
            Some(_) => Err(format!("input {at} depends on the picture, expected a constant")),
        }
    }

    pub(super) fn needed(&self, at: usize) -> Result<&Rc<Tensor>, Fault> {
        self.constant(at)?.ok_or_else(|| format!("no input {at}"))
    }

    /// Integers from an attribute in older versions, and from an input in newer ones.
    pub(super) fn list(&self, name: &str, at: usize) -> Result<Option<Vec<i64>>, Fault> {
        if let Some(all) = self.ints(name)? {
            return Ok(Some(all.to_vec()));
        }
        Ok(self.constant(at)?.map(|tensor| tensor.integers()))
    }

    /// A number from an attribute in older versions, and from an input in newer ones.
    pub(super) fn number(&self, name: &str, at: usize) -> Result<Option<f64>, Fault> {
        if self.has(name) {
            return self.float(name, 0.0).map(Some);
        }
        let Some(tensor) = self.constant(at)? else { return Ok(None) };
        match tensor.numbers[..] {
            [number] => Ok(Some(number)),
            _ => Err(format!("input {at} of several numbers, expected one")),
        }
    }

    /// An axis from an integer attribute.
    pub(super) fn axis(&self, default: i64, rank: usize) -> Result<usize, Fault> {
        super::tensor::axis(self.int("axis", default)?, rank)
    }
}
