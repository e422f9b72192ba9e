//! Sums are exact, every change in transit is detected, and nothing is used twice.

use super::*;
use proptest::prelude::*;
use zeroize::Zeroizing;

fn key(kind: u8, number: u16) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([kind; 32]);
    key[..2].copy_from_slice(&number.to_be_bytes());
    key
}

fn epoch() -> EpochKey {
    EpochKey::from_bytes(&key(1, 0))
}

fn session(member: u16) -> SessionKey {
    SessionKey::from_bytes(&key(2, member), &key(3, member))
}

fn sender(member: u16, width: Width) -> MaskSender {
    MaskSender::new(epoch(), session(member), width, 0)
}

fn receiver(members: u16, width: Width, samples: usize) -> MaskReceiver {
    let mut receiver = MaskReceiver::new(epoch(), width, samples, 0);
    (0..members).for_each(|member| receiver.insert(member, session(member)));
    receiver
}

fn width(senders: usize) -> Width {
    Width::for_senders(senders).unwrap()
}

/// The sum that an honest server computes from packets.
fn add<'a>(packets: impl IntoIterator<Item = &'a (Masked, Tag)>) -> (Masked, Tag) {
    let mut packets = packets.into_iter();
    let (mut sum, mut tag) = packets.next().unwrap().clone();
    for (masked, one) in packets {
        sum.add_assign(masked).unwrap();
        tag.add_assign(one);
    }
    (sum, tag)
}

fn words(masked: &Masked) -> Vec<u32> {
    let mut bytes = Vec::new();
    masked.encode(Form::Aligned, &mut bytes);
    bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// Three senders in tick 5, in a room for four.
fn three() -> (Vec<(Masked, Tag)>, MaskReceiver, Vec<i32>) {
    let width = width(4);
    let samples = [[1000, -5, 32_767, 0], [-1000, -6, 32_767, 0], [17, i16::MIN, 32_767, 0]];
    let packets = samples.iter().zip(0..).map(|(samples, u)| sender(u, width).encrypt(5, samples).unwrap()).collect();
    (packets, receiver(4, width, 4), vec![17, -11 - 32_768, 3 * 32_767, 0])
}

#[test]
fn full_rooms_at_either_end_of_the_scale_are_summed_exactly() {
    for (members, samples) in [(1, 3), (2, 3), (1024, 4), (4096, 2)] {
        let width = width(usize::from(members));
        let mut receiver = receiver(members, width, samples);
        let all: Vec<u16> = (0..members).collect();
        for (tick, level) in [i16::MIN, i16::MAX, -1, 0].into_iter().enumerate() {
            let tick = tick as u32;
            let packets: Vec<_> =
                all.iter().map(|u| sender(*u, width).encrypt(tick, &vec![level; samples]).unwrap()).collect();
            let (sum, tag) = add(&packets);
            let opened = receiver.open(tick, &all, &sum, &tag).unwrap();
            assert_eq!(*opened, vec![i32::from(level) * i32::from(members); samples], "{members} at {level}");
        }
    }
}

#[test]
fn a_width_that_is_too_small_for_the_senders_refuses_their_sum() {
    let width = width(2);
    let packets: Vec<_> = (0..3).map(|u| sender(u, width).encrypt(0, &[1]).unwrap()).collect();
    let (sum, tag) = add(&packets);
    let refused = receiver(4, width, 1).open(0, &[0, 1, 2], &sum, &tag);
    assert!(matches!(refused, Err(OpenError::Shape { .. })));
}

#[test]
fn every_subset_of_senders_opens_as_itself_and_as_no_other() {
    let (packets, _, _) = three();
    let members = |bits: u32| (0..3u16).filter(|u| bits >> u & 1 == 1).collect::<Vec<_>>();
    for real in 1..8u32 {
        let (sum, tag) = add(members(real).iter().map(|u| &packets[usize::from(*u)]));
        for said in 0..8u32 {
            let opened = receiver(4, width(4), 4).open(5, &members(said), &sum, &tag);
            assert_eq!(opened.is_ok(), said == real, "{real:03b} said to be {said:03b}");
            assert!(said == real || opened == Err(OpenError::Forged));
        }
    }
}

/// Every change that a server can make to the sum of [`three`] without a key must be detected.
#[test]
fn an_altered_sum_is_refused_whatever_was_done_to_it() {
    let (packets, _, expected) = three();
    let (sum, tag) = add(&packets);
    let altered = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = Vec::new();
        sum.encode(Form::Aligned, &mut bytes);
        change(&mut bytes);
        Masked::decode(Form::Aligned, width(4), 4, &bytes).unwrap()
    };
    let tagged = |change: &dyn Fn(&mut [u8; 16])| {
        let mut bytes = tag.to_bytes();
        change(&mut bytes);
        Tag::from_bytes(bytes).unwrap()
    };
    let doubled = add(packets.iter().chain([&packets[1]]));
    let alone = packets[2].clone();
    let mut later = sender(3, width(4)).encrypt(4, &[0; 4]).unwrap();
    later.0.add_assign(&sum).unwrap();
    later.1.add_assign(&tag);
    let mut own = Masked::zero(width(4), 4);
    own.add_assign(&sum).unwrap();
    let louder = Masked::decode(Form::Aligned, width(4), 4, &[1, 0, 0, 0].repeat(4)).unwrap();
    own.add_assign(&louder).unwrap();
    for (what, sum, tag) in [
        ("a bit of the sum", altered(&|bytes| bytes[0] ^= 1), tag),
        ("the highest bit", altered(&|bytes| bytes[14] ^= 2), tag),
        ("two samples change places", altered(&|bytes| bytes.swap(0, 4)), tag),
        ("a bit of the first number", sum.clone(), tagged(&|bytes| bytes[7] ^= 1)),
        ("a bit of the second", sum.clone(), tagged(&|bytes| bytes[15] ^= 1)),
        ("no tag", sum.clone(), Tag::default()),
        ("one added twice", doubled.0, doubled.1),
        ("another instead", alone.0, alone.1),
        ("a packet of another tick in it", later.0, later.1),
        ("sound of the server's own", own, tag),
    ] {
        let mut receiver = receiver(4, width(4), 4);
        assert_eq!(receiver.open(5, &[0, 1, 2], &sum, &tag), Err(OpenError::Forged), "{what}");
    }
    let mut receiver = receiver(4, width(4), 4);
    for (what, senders, expected) in [
        ("one that is not known", vec![0, 1, 9], OpenError::Unknown(9)),
        ("one twice", vec![0, 1, 1, 2], OpenError::Order),
        ("not in order", vec![1, 0, 2], OpenError::Order),
    ] {
        assert_eq!(receiver.open(5, &senders, &sum, &tag), Err(expected), "{what}");
    }
    assert_eq!(receiver.open(6, &[0, 1, 2], &sum, &tag), Err(OpenError::Forged), "moved to another tick");
    assert_eq!(*receiver.open(5, &[0, 1, 2], &sum, &tag).unwrap(), expected, "what was refused has changed nothing");
}

#[test]
fn another_session_or_epoch_does_not_open() {
    let (packets, _, _) = three();
    let (sum, tag) = add(&packets);
    let mut other = receiver(3, width(4), 4);
    other.insert(1, session(9));
    assert_eq!(other.open(5, &[0, 1, 2], &sum, &tag), Err(OpenError::Forged));
    let mut other = MaskReceiver::new(EpochKey::from_bytes(&key(8, 0)), width(4), 4, 0);
    (0..3).for_each(|u| other.insert(u, session(u)));
    assert_eq!(other.open(5, &[0, 1, 2], &sum, &tag), Err(OpenError::Forged));
    let mut gone = receiver(3, width(4), 4);
    gone.remove(1);
    assert_eq!(gone.open(5, &[0, 1, 2], &sum, &tag), Err(OpenError::Unknown(1)));
}

#[test]
fn a_sender_takes_no_tick_twice_and_none_before_and_never_after_the_last() {
    let mut sender = sender(0, width(2));
    sender.encrypt(3, &[1]).unwrap();
    for tick in [0, 2, 3] {
        assert_eq!(sender.encrypt(tick, &[2]).err(), Some(TickError { tick, next: Some(4) }));
    }
    sender.encrypt(u32::MAX, &[1]).unwrap();
    assert_eq!(sender.encrypt(u32::MAX, &[1]).err(), Some(TickError { tick: u32::MAX, next: None }));
    let mut late = MaskSender::new(epoch(), session(0), width(2), 7);
    assert!(late.encrypt(6, &[1]).is_err() && late.encrypt(7, &[1]).is_ok());
}

#[test]
fn a_receiver_takes_no_tick_twice_and_none_before() {
    let mut receiver = receiver(1, width(1), 1);
    let sums: Vec<_> = (0..4).map(|tick| sender(0, width(1)).encrypt(tick, &[tick as i16]).unwrap()).collect();
    let mut open = |tick: u32| {
        let (sum, tag) = &sums[tick as usize];
        receiver.open(tick, &[0], sum, tag).map(|opened| opened[0])
    };
    assert_eq!(open(1), Ok(1));
    for tick in [0, 1] {
        assert_eq!(open(tick), Err(OpenError::Tick(TickError { tick, next: Some(2) })));
    }
    assert_eq!(open(3), Ok(3));
}

/// The reason for the rule above: two packets under one key and tick reveal the difference of their
/// samples, and an equation in the coefficients.
#[test]
fn without_the_rule_two_packets_of_a_tick_would_tell_the_difference_of_their_samples() {
    let width = width(1024);
    // two independent sender states with one key stand for one sender without the rule
    let (first, first_tag) = sender(0, width).encrypt(9, &[1200, -7]).unwrap();
    let (second, second_tag) = sender(0, width).encrypt(9, &[200, -8]).unwrap();
    let told: Vec<i32> = words(&first)
        .iter()
        .zip(words(&second))
        .map(|(a, b)| width.centred(a.wrapping_sub(b) & width.largest()))
        .collect();
    assert_eq!(told, [1000, 1]);
    // with known samples, the difference of two tags is a sum of coefficients alone, the same for
    // every sender
    let (third, third_tag) = sender(1, width).encrypt(9, &[1200, -7]).unwrap();
    let (fourth, fourth_tag) = sender(1, width).encrypt(9, &[200, -8]).unwrap();
    let sum = |a: Tag, b: Tag| {
        let mut sum = a;
        sum.add_assign(&b);
        sum
    };
    assert_eq!(sum(first_tag, fourth_tag), sum(second_tag, third_tag));
    assert!(third != fourth);
}

#[test]
fn two_sessions_of_one_number_share_nothing() {
    let width = width(4);
    let samples = [5i16; 64];
    let one = MaskSender::new(epoch(), session(3), width, 0).encrypt(4, &samples).unwrap();
    let two = MaskSender::new(epoch(), session(300), width, 0).encrypt(4, &samples).unwrap();
    let equal = words(&one.0).iter().zip(words(&two.0)).filter(|(a, b)| *a == b).count();
    assert!(equal <= 1 && one.1 != two.1, "equal samples of two sessions look equal {equal} times");
}

/// A limit: a member that holds the keys can forge together with a server.
/// `book/src/explanation/threats/call.md` names it.
#[test]
fn whoever_holds_the_keys_can_forge_for_another() {
    let mut forger = sender(1, width(2));
    let forged = forger.encrypt(0, &[4000]).unwrap();
    assert_eq!(*receiver(2, width(2), 1).open(0, &[1], &forged.0, &forged.1).unwrap(), [4000]);
}

proptest! {
    #[test]
    fn the_sum_of_any_senders_is_exact(
        levels in prop::collection::vec((any::<i16>(), any::<i16>(), any::<i16>()), 1..40),
        tick in any::<u32>(),
    ) {
        let width = width(levels.len());
        let members: Vec<u16> = (0..levels.len() as u16).collect();
        let packets: Vec<_> = levels.iter().zip(&members)
            .map(|((a, b, c), u)| sender(*u, width).encrypt(tick, &[*a, *b, *c]).unwrap()).collect();
        let (sum, tag) = add(&packets);
        let opened = receiver(levels.len() as u16, width, 3).open(tick, &members, &sum, &tag).unwrap();
        let plain = levels.iter().fold([0; 3], |[x, y, z], (a, b, c)| [x + i32::from(*a), y + i32::from(*b), z + i32::from(*c)]);
        prop_assert_eq!(&opened[..], &plain[..]);
    }
}
