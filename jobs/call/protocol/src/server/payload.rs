//! The ciphertexts of a room, in the mode that its first member asked for.

use tobari_curve::{
    Adder,
    elgamal::{Ciphertexts, Mode, SharedCiphertexts},
    params::Parameters,
    wire::{self, PacketHeader, Payload, SumHeader, WireError},
};

use super::Fault;

/// The ciphertexts of a packet or of a sum, in any mode.
///
/// A room learns its mode when it opens, as it learns its curve. The mode is therefore a choice at
/// run time, and the rules of a room are written once.
#[derive(Clone, PartialEq)]
pub enum AnyPayload {
    /// In mode `elgamal`.
    Elgamal(Ciphertexts),
    /// In mode `elgamal-shared`.
    ElgamalShared(SharedCiphertexts),
}

impl From<Ciphertexts> for AnyPayload {
    fn from(ciphertexts: Ciphertexts) -> Self {
        Self::Elgamal(ciphertexts)
    }
}

impl From<SharedCiphertexts> for AnyPayload {
    fn from(ciphertexts: SharedCiphertexts) -> Self {
        Self::ElgamalShared(ciphertexts)
    }
}

impl AnyPayload {
    /// The neutral element of addition in `mode`: `samples` samples of silence. It hides nothing.
    pub fn zero(mode: Mode, parameters: Parameters, samples: usize) -> Self {
        match mode {
            Mode::Elgamal => Ciphertexts::zero(parameters, samples).into(),
            Mode::ElgamalShared => SharedCiphertexts::zero(parameters, samples).into(),
        }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Elgamal(_) => Mode::Elgamal,
            Self::ElgamalShared(_) => Mode::ElgamalShared,
        }
    }

    /// The parameters.
    pub fn parameters(&self) -> Parameters {
        match self {
            Self::Elgamal(ciphertexts) => ciphertexts.parameters(),
            Self::ElgamalShared(ciphertexts) => ciphertexts.parameters(),
        }
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        match self {
            Self::Elgamal(ciphertexts) => ciphertexts.len(),
            Self::ElgamalShared(ciphertexts) => ciphertexts.len(),
        }
    }

    /// Adds sample by sample.
    ///
    /// # Errors
    /// [`Fault`] if mode, curve or length differ; `self` is unchanged then.
    pub(super) fn add_assign_with(&mut self, other: &Self, adder: &mut Adder) -> Result<(), Fault> {
        let expected = self.mode();
        let added = match (self, other) {
            (Self::Elgamal(sum), Self::Elgamal(other)) => sum.add_assign_with(other, adder),
            (Self::ElgamalShared(sum), Self::ElgamalShared(other)) => sum.add_assign_with(other, adder),
            (_, other) => return Err(Fault::Mode { found: other.mode(), expected }),
        };
        // The room has already checked curve and length.
        added.map_err(|_| Fault::Internal)
    }

    /// The bytes of a sum.
    pub(super) fn encode_sum(&self, header: &SumHeader) -> Vec<u8> {
        match self {
            Self::Elgamal(sum) => wire::encode_sum(header, sum),
            Self::ElgamalShared(sum) => wire::encode_sum(header, sum),
        }
    }

    /// The head of a packet in `mode`. No point is read.
    pub(super) fn decode_header(mode: Mode, packet: &[u8], parameters: Parameters) -> Result<PacketHeader, WireError> {
        match mode {
            Mode::Elgamal => wire::decode_packet_header::<Ciphertexts>(packet, parameters),
            Mode::ElgamalShared => wire::decode_packet_header::<SharedCiphertexts>(packet, parameters),
        }
    }

    /// A whole packet in `mode`.
    pub(super) fn decode(mode: Mode, packet: &[u8], parameters: Parameters) -> Result<(PacketHeader, Self), WireError> {
        fn of<P: Payload + Into<AnyPayload>>(
            packet: &[u8],
            parameters: Parameters,
        ) -> Result<(PacketHeader, AnyPayload), WireError> {
            let (header, ciphertexts) = wire::decode_packet::<P>(packet, parameters)?;
            Ok((header, ciphertexts.into()))
        }
        match mode {
            Mode::Elgamal => of::<Ciphertexts>(packet, parameters),
            Mode::ElgamalShared => of::<SharedCiphertexts>(packet, parameters),
        }
    }
}
