//! ONNX files for tests, encoded from `onnx.proto`'s field numbers without the library's writer.

/// A message of protocol buffers.
#[derive(Clone, Default)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    fn put(&mut self, mut integer: u64) {
        while integer >= 0x80 {
            self.0.push(integer as u8 | 0x80);
            integer >>= 7;
        }
        self.0.push(integer as u8);
    }

    pub(crate) fn int(mut self, field: u64, value: i64) -> Self {
        self.put(field << 3);
        self.put(value as u64);
        self
    }

    pub(crate) fn bytes(mut self, field: u64, value: &[u8]) -> Self {
        self.put(field << 3 | 2);
        self.put(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }

    fn float(mut self, field: u64, value: f32) -> Self {
        self.put(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }
}

/// An attribute's value.
pub(crate) enum Value<'a> {
    Int(i64),
    Float(f32),
    Ints(&'a [i64]),
    Text(&'a str),
}

/// A file under construction. Its input is `x`.
pub(crate) struct File {
    graph: Message,
    version: i64,
    input: (Vec<i64>, String),
}

impl File {
    /// A file with an input of these dimensions; 0 stands for a name.
    pub(crate) fn new(version: i64, dims: &[i64]) -> Self {
        Self { graph: Message::default(), version, input: (dims.to_vec(), "x".to_owned()) }
    }

    pub(crate) fn floats(mut self, name: &str, dims: &[i64], numbers: &[f32]) -> Self {
        let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensor = dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
        self.graph = self.graph.bytes(5, &tensor.int(2, 1).bytes(8, name.as_bytes()).bytes(9, &raw).0);
        self
    }

    pub(crate) fn ints(mut self, name: &str, numbers: &[i64]) -> Self {
        let raw: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        let tensor = Message::default().int(1, numbers.len() as i64).int(2, 7).bytes(8, name.as_bytes());
        self.graph = self.graph.bytes(5, &tensor.bytes(9, &raw).0);
        self
    }

    /// A constant of one integer without dimensions.
    pub(crate) fn index(mut self, name: &str, number: i64) -> Self {
        let tensor = Message::default().int(2, 7).bytes(8, name.as_bytes()).bytes(9, &number.to_le_bytes());
        self.graph = self.graph.bytes(5, &tensor.0);
        self
    }

    /// A constant whose numbers are in another file.
    pub(crate) fn outside(mut self, name: &str, dims: &[i64], location: &str, offset: usize) -> Self {
        let entry = |key: &str, value: &str| Message::default().bytes(1, key.as_bytes()).bytes(2, value.as_bytes());
        let tensor = dims.iter().fold(Message::default(), |tensor, dim| tensor.int(1, *dim));
        let tensor = tensor.int(2, 1).bytes(8, name.as_bytes()).bytes(13, &entry("location", location).0);
        let tensor = tensor.bytes(13, &entry("offset", &offset.to_string()).0).int(14, 1);
        self.graph = self.graph.bytes(5, &tensor.0);
        self
    }

    /// A node; inputs and outputs are names with spaces between them.
    pub(crate) fn node(
        mut self,
        operator: &str,
        inputs: &str,
        outputs: &str,
        attributes: &[(&str, Value<'_>)],
    ) -> Self {
        let name = |name: &str| if name == "-" { String::new() } else { name.to_owned() };
        let node = inputs.split(' ').fold(Message::default(), |node, input| node.bytes(1, name(input).as_bytes()));
        let node = outputs.split(' ').fold(node, |node, output| node.bytes(2, output.as_bytes()));
        let node = node.bytes(4, operator.as_bytes());
        let node = attributes.iter().fold(node, |node, (name, value)| {
            let attribute = Message::default().bytes(1, name.as_bytes());
            let attribute = match value {
                Value::Int(x) => attribute.int(3, *x),
                Value::Float(x) => attribute.float(2, *x),
                Value::Ints(all) => all.iter().fold(attribute, |attribute, x| attribute.int(8, *x)),
                Value::Text(text) => attribute.bytes(4, text.as_bytes()),
            };
            node.bytes(5, &attribute.0)
        });
        self.graph = self.graph.bytes(1, &node.0);
        self
    }

    /// The bytes, with the output `y`.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let info = |name: &str, dims: &[i64]| {
            let shape = dims.iter().fold(Message::default(), |shape, dim| {
                let dim = if *dim == 0 { Message::default().bytes(2, b"n") } else { Message::default().int(1, *dim) };
                shape.bytes(1, &dim.0)
            });
            let tensor = Message::default().int(1, 1).bytes(2, &shape.0);
            Message::default().bytes(1, name.as_bytes()).bytes(2, &Message::default().bytes(1, &tensor.0).0)
        };
        let graph = self.graph.bytes(11, &info(&self.input.1, &self.input.0).0).bytes(12, &info("y", &[]).0);
        Message::default().int(1, 8).bytes(7, &graph.0).bytes(8, &Message::default().int(2, self.version).0).0
    }
}
