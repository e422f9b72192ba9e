//! Every rule of a room, with real ciphertexts of a few samples and a clock that only the test
//! moves.

mod live;
mod lockstep;
mod manners;
mod modes;

use std::time::Duration;

use chacha20::{ChaCha20Rng, rand_core::SeedableRng};
use tobari_call::TICK_MS;
use tobari_call::messages::{ClientMessage, Code, Join, Pace, Welcome};
use tobari_call::server::{AnyPayload, Event, Fault, Limits, Refusal, Room, Tick};
use tobari_curve::{
    Curve, PointEncoding,
    elgamal::{
        Ciphertexts, Decryptor, Encryptor, Mode, SecretKey, SharedCiphertexts, SharedDecryptor, SharedEncryptor,
        SharedKey,
    },
    params::{Parameters, SecurityFloor},
    wire::{self, RoomId},
};

pub(crate) const ROOM: RoomId = RoomId(*b"the room");
pub(crate) const SAMPLES: usize = 3;
pub(crate) const WINDOW: u32 = 4;
pub(crate) const IDLE: Duration = Duration::from_secs(30);
pub(crate) const GATHER: Duration = Duration::from_secs(300);

pub(crate) fn limits() -> Limits {
    Limits { window: WINDOW, samples: SAMPLES, members: 8, idle: IDLE, gather: GATHER }
}

pub(crate) fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

pub(crate) fn lockstep(members: u16) -> Join {
    Join::new(Pace::Lockstep { members }, Curve::Secp256k1)
}

pub(crate) fn live() -> Join {
    Join::new(Pace::Live, Curve::Secp256k1)
}

pub(crate) fn received(tick: u32) -> ClientMessage {
    ClientMessage::Received { tick }
}

pub(crate) const END: ClientMessage = ClientMessage::End {};

/// A room, a clock, and the key, which the room does not have.
pub(crate) struct World {
    pub(crate) room: Room,
    pub(crate) join: Join,
    pub(crate) now: Duration,
    pub(crate) rng: ChaCha20Rng,
    pub(crate) encryptor: Encryptor,
    pub(crate) decryptor: Decryptor,
    pub(crate) shared_encryptor: SharedEncryptor,
    pub(crate) shared_decryptor: SharedDecryptor,
}

impl World {
    pub(crate) fn new(join: Join) -> Self {
        Self::at(join, Duration::ZERO)
    }

    pub(crate) fn at(join: Join, now: Duration) -> Self {
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        let parameters = Parameters::new(join.curve, SecurityFloor::Standard).unwrap();
        let key = SecretKey::generate(parameters, &mut rng);
        let room = Room::open(ROOM, &join, SecurityFloor::Standard, limits(), now).unwrap();
        let (encryptor, decryptor) = (Encryptor::new(&key.public_key()), Decryptor::new(&key, 100_000));
        let key = SharedKey::generate(parameters, SAMPLES, &mut rng);
        let (shared_encryptor, shared_decryptor) = (SharedEncryptor::new(&key), SharedDecryptor::new(&key, 100_000));
        Self { room, join, now, rng, encryptor, decryptor, shared_encryptor, shared_decryptor }
    }

    pub(crate) fn enter(&mut self) -> Welcome {
        self.room.join(&self.join.clone(), self.now).unwrap()
    }

    pub(crate) fn enter_mute(&mut self) -> Welcome {
        self.room.join(&Join { speak: false, ..self.join.clone() }, self.now).unwrap()
    }

    pub(crate) fn enter_deaf(&mut self) -> Welcome {
        self.room.join(&Join { listen: false, ..self.join.clone() }, self.now).unwrap()
    }

    /// Encrypts a packet in the room's mode.
    pub(crate) fn encrypt(&mut self, level: i32) -> AnyPayload {
        let samples = [level, -level, 1];
        match self.join.mode {
            Mode::Elgamal => self.encryptor.encrypt(&samples, &mut self.rng).unwrap().into(),
            Mode::ElgamalShared => self.shared_encryptor.encrypt(&samples, &mut self.rng).unwrap().into(),
        }
    }

    /// `member` sends a packet of loudness `level`.
    pub(crate) fn send(&mut self, member: u16, tick: u32, level: i32) {
        let packet = self.encrypt(level);
        self.room.packet(member, tick, packet);
    }

    pub(crate) fn poll(&mut self) -> Option<Event> {
        self.room.poll(self.now)
    }

    pub(crate) fn quiet(&mut self) {
        assert!(self.poll().is_none(), "something follows already");
    }

    /// Expects the next event: a closed tick with these speakers and late members.
    pub(crate) fn closes(&mut self, tick: u32, speakers: &[u16], late: &[u16]) -> Tick {
        match self.poll() {
            Some(Event::Closed(closed)) => {
                assert_eq!(closed.tick, tick);
                assert_eq!(closed.speakers.iter().collect::<Vec<_>>(), speakers);
                assert_eq!(closed.late.iter().collect::<Vec<_>>(), late);
                closed
            }
            Some(Event::Removed { member, fault }) => panic!("member {member} removed: {fault}"),
            Some(Event::Ended { ticks, .. }) => panic!("ended after {ticks}"),
            None => panic!("tick {tick} does not close"),
        }
    }

    pub(crate) fn removes(&mut self, member: u16, code: Code) -> Fault {
        match self.poll() {
            Some(Event::Removed { member: found, fault }) => {
                assert_eq!((found, fault.code()), (member, code), "{fault}");
                fault
            }
            _ => panic!("member {member} is not removed"),
        }
    }

    pub(crate) fn ends(&mut self, ticks: u32) {
        match self.poll() {
            Some(Event::Ended { ticks: found, .. }) => assert_eq!(found, ticks),
            _ => panic!("the room does not end"),
        }
        assert!(self.room.is_over());
        self.quiet();
    }

    /// The samples that a listener decrypts for a tick.
    pub(crate) fn hear(&self, tick: &Tick, encoding: PointEncoding) -> Vec<i32> {
        let (bytes, parameters) = (tick.encode(encoding), self.room.parameters());
        let (header, samples) = match self.join.mode {
            Mode::Elgamal => {
                let (header, sum) = wire::decode_sum::<Ciphertexts>(&bytes, parameters).unwrap();
                (header, self.decryptor.vartime_decrypt(&sum))
            }
            Mode::ElgamalShared => {
                let (header, sum) = wire::decode_sum::<SharedCiphertexts>(&bytes, parameters).unwrap();
                (header, self.shared_decryptor.vartime_decrypt(&sum))
            }
        };
        assert_eq!((header.room, header.tick, header.encoding), (ROOM, tick.tick, encoding));
        assert_eq!((&header.speakers, &header.late), (&tick.speakers, &tick.late));
        samples.unwrap().to_vec()
    }
}
