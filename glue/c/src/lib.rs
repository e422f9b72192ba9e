//! [`tobari_device`] for programs in C: `include/tobari_device.h` has the types and the contract,
//! this the other half of it.
//!
//! Nothing is allocated: the caller gives the memory of a device, and says how much it is, so that
//! a header of another version is found out. A device is opened in place, sealed with, and closed,
//! which wipes it. Each profile has functions of its own; what they do is written once
//! ([`open`], [`seal`], [`close`]).
//!
//! **What C promises**: pointers are to as many bytes as the header says, aligned as its types are,
//! and nobody else uses a device during a call. Null pointers, devices that are closed and memory
//! of another size are refused.

#![cfg_attr(target_os = "none", no_std)]

use core::ffi::c_void;
use core::mem::{MaybeUninit, align_of, size_of};
use tobari_device::{
    CounterError, CounterStore, Device, DeviceNumber, GCM_FRAME, GcmDevice, P1, P17, Profile, READINGS, Root, Stamp,
    U25, U28,
};

/// What functions answer.
const DONE: i32 = 0;
const NULL: i32 = -1;
const SIZE: i32 = -2;
const NUMBER: i32 = -3;
const STORE: i32 = -4;
const EXHAUSTED: i32 = -5;
const CLOSED: i32 = -6;
const TIME: i32 = -7;

/// Bytes that the header has for a device, of each profile.
const P1_BYTES: usize = 4608;
const U25_BYTES: usize = 5632;
const P17_BYTES: usize = P1_BYTES;
const U28_BYTES: usize = 6656;
const GCM_BYTES: usize = 2048;
/// How the header aligns them.
const ALIGN: usize = 16;

/// A counter as C keeps it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Callbacks {
    context: *mut c_void,
    load: Option<unsafe extern "C" fn(*mut c_void, *mut u32) -> i32>,
    store: Option<unsafe extern "C" fn(*mut c_void, u32) -> i32>,
}

/// A callback that is missing or that answered another number than 0.
pub struct Failed;

impl CounterStore for Callbacks {
    type Error = Failed;

    fn load(&mut self) -> Result<u32, Failed> {
        let (mut next, load) = (0, self.load.ok_or(Failed)?);
        // SAFETY: the caller gave a function for this context, and there is room for one number.
        let answer = unsafe { load(self.context, &mut next) };
        if answer == 0 { Ok(next) } else { Err(Failed) }
    }

    fn store(&mut self, next: u32) -> Result<(), Failed> {
        let store = self.store.ok_or(Failed)?;
        // SAFETY: the caller gave a function for this context.
        let answer = unsafe { store(self.context, next) };
        if answer == 0 { Ok(()) } else { Err(Failed) }
    }
}

/// What there is of each profile.
pub trait Sealer: Sized {
    /// So many bytes.
    type Frame;

    /// With the key, its number, and where to count.
    fn open(root: &Root, number: DeviceNumber, store: Callbacks) -> Result<Self, CounterError<Failed>>;
    /// Writes a frame. Profiles without a time leave the stamp out.
    fn seal(
        &mut self,
        stamp: Stamp,
        readings: &[u8; READINGS],
        frame: &mut Self::Frame,
    ) -> Result<(), CounterError<Failed>>;
}

impl<P: Profile> Sealer for Device<P, Callbacks> {
    type Frame = P::Frame;

    fn open(root: &Root, number: DeviceNumber, store: Callbacks) -> Result<Self, CounterError<Failed>> {
        Device::open(root, number, store)
    }

    fn seal(
        &mut self,
        stamp: Stamp,
        readings: &[u8; READINGS],
        frame: &mut P::Frame,
    ) -> Result<(), CounterError<Failed>> {
        self.seal_at(stamp.into(), readings, frame)
    }
}

impl Sealer for GcmDevice<Callbacks> {
    type Frame = [u8; GCM_FRAME];

    fn open(root: &Root, number: DeviceNumber, store: Callbacks) -> Result<Self, CounterError<Failed>> {
        GcmDevice::open(root, number, store)
    }

    fn seal(
        &mut self,
        _: Stamp,
        readings: &[u8; READINGS],
        frame: &mut Self::Frame,
    ) -> Result<(), CounterError<Failed>> {
        GcmDevice::seal(self, readings, frame)
    }
}

/// The memory of a device.
#[repr(C)]
pub struct Slot<D> {
    /// [`OPEN`], or anything else.
    state: u32,
    device: MaybeUninit<D>,
}

/// What stands before a device that is open.
const OPEN: u32 = 0x7462_7231;

const _: () = {
    assert!(size_of::<Slot<Device<P1, Callbacks>>>() <= P1_BYTES && align_of::<Slot<Device<P1, Callbacks>>>() <= ALIGN);
    assert!(
        size_of::<Slot<Device<U25, Callbacks>>>() <= U25_BYTES && align_of::<Slot<Device<U25, Callbacks>>>() <= ALIGN
    );
    assert!(
        size_of::<Slot<Device<P17, Callbacks>>>() <= P17_BYTES && align_of::<Slot<Device<P17, Callbacks>>>() <= ALIGN
    );
    assert!(
        size_of::<Slot<Device<U28, Callbacks>>>() <= U28_BYTES && align_of::<Slot<Device<U28, Callbacks>>>() <= ALIGN
    );
    assert!(size_of::<Slot<GcmDevice<Callbacks>>>() <= GCM_BYTES && align_of::<Slot<GcmDevice<Callbacks>>>() <= ALIGN);
};

fn answer(result: Result<(), CounterError<Failed>>) -> i32 {
    match result {
        Ok(()) => DONE,
        Err(CounterError::Store(Failed)) => STORE,
        Err(CounterError::Exhausted) => EXHAUSTED,
    }
}

/// Opens a device in its memory.
///
/// # Safety
/// Pointers that are not null point to what the header says.
unsafe fn open<D: Sealer>(
    slot: *mut Slot<D>,
    [bytes, expected]: [usize; 2],
    root: *const [u8; 32],
    number: u32,
    store: *const Callbacks,
) -> i32 {
    if slot.is_null() || root.is_null() || store.is_null() {
        return NULL;
    }
    if bytes != expected {
        return SIZE;
    }
    let Some(number) = DeviceNumber::new(number) else { return NUMBER };
    // SAFETY: a device's memory, as large as the caller says, which was compared, and nobody else
    // uses it now.
    let slot = unsafe { &mut *slot };
    slot.state = 0;
    // SAFETY: it is not null, and points to the callbacks of a counter.
    let store = unsafe { store.read() };
    // SAFETY: it is not null, and points to 32 bytes; the copy is wiped with the root.
    let root = Root::from_bytes(unsafe { root.read() });
    match D::open(&root, number, store) {
        Ok(device) => {
            slot.device = MaybeUninit::new(device);
            slot.state = OPEN;
            DONE
        }
        Err(error) => answer(Err(error)),
    }
}

/// Seals with a device that is open.
///
/// # Safety
/// As [`open`]; the memory was given to it, or is zero.
unsafe fn seal<D: Sealer>(
    slot: *mut Slot<D>,
    stamp: Stamp,
    readings: *const [u8; READINGS],
    frame: *mut D::Frame,
) -> i32 {
    if slot.is_null() || readings.is_null() || frame.is_null() {
        return NULL;
    }
    // SAFETY: a device's memory, which nobody else uses now.
    let slot = unsafe { &mut *slot };
    if slot.state != OPEN {
        return CLOSED;
    }
    // SAFETY: its state is written after a device was.
    let device = unsafe { slot.device.assume_init_mut() };
    // SAFETY: not null, and as many bytes as there are readings.
    let readings = unsafe { &*readings };
    // SAFETY: not null, and as many bytes as a frame has; bytes may have any value.
    let frame = unsafe { &mut *frame };
    answer(device.seal(stamp, readings, frame))
}

/// Wipes a device.
///
/// # Safety
/// As [`seal`].
unsafe fn close<D: Sealer>(slot: *mut Slot<D>) {
    if slot.is_null() {
        return;
    }
    // SAFETY: a device's memory, which nobody else uses now.
    let slot = unsafe { &mut *slot };
    if slot.state == OPEN {
        slot.state = 0;
        // SAFETY: its state was written after a device was, and says from now on that there is
        // none.
        unsafe { slot.device.assume_init_drop() };
        // what has no wiping of its own, too: numbers and counters
        slot.device = MaybeUninit::zeroed();
    }
}

/// The functions of a profile that open and wipe a device.
macro_rules! opened {
    ($device:ty, $bytes:expr, $open:ident, $close:ident) => {
        /// Opens a device in memory of so many bytes.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $open(
            slot: *mut Slot<$device>,
            bytes: usize,
            root: *const [u8; 32],
            number: u32,
            store: *const Callbacks,
        ) -> i32 {
            // SAFETY: the caller's promise.
            unsafe { open(slot, [bytes, $bytes], root, number, store) }
        }

        /// Wipes a device.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $close(slot: *mut Slot<$device>) {
            // SAFETY: the caller's promise.
            unsafe { close(slot) }
        }
    };
}

opened!(Device<P1, Callbacks>, P1_BYTES, tobari_p1_open, tobari_p1_close);
opened!(Device<U25, Callbacks>, U25_BYTES, tobari_u25_open, tobari_u25_close);
opened!(Device<P17, Callbacks>, P17_BYTES, tobari_p17_open, tobari_p17_close);
opened!(Device<U28, Callbacks>, U28_BYTES, tobari_u28_open, tobari_u28_close);
opened!(GcmDevice<Callbacks>, GCM_BYTES, tobari_gcm_open, tobari_gcm_close);

/// The function of a profile without a time that writes a frame.
macro_rules! sealed {
    ($device:ty, $seal:ident) => {
        /// Writes a frame of 256 bytes of readings.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $seal(
            slot: *mut Slot<$device>,
            readings: *const [u8; READINGS],
            frame: *mut <$device as Sealer>::Frame,
        ) -> i32 {
            // SAFETY: the caller's promise.
            unsafe { seal(slot, Stamp::default(), readings, frame) }
        }
    };
}

sealed!(Device<P1, Callbacks>, tobari_p1_seal);
sealed!(Device<U25, Callbacks>, tobari_u25_seal);
sealed!(GcmDevice<Callbacks>, tobari_gcm_seal);

/// The function of a profile with a time that writes a frame.
macro_rules! sealed_at {
    ($device:ty, $seal:ident) => {
        /// Writes a frame of 256 bytes of readings, with their time and sheet.
        ///
        /// # Safety
        /// As the header says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $seal(
            slot: *mut Slot<$device>,
            seconds: u64,
            sheet: u16,
            readings: *const [u8; READINGS],
            frame: *mut <$device as Sealer>::Frame,
        ) -> i32 {
            let Some(stamp) = Stamp::new(seconds, sheet) else { return TIME };
            // SAFETY: the caller's promise.
            unsafe { seal(slot, stamp, readings, frame) }
        }
    };
}

sealed_at!(Device<P17, Callbacks>, tobari_p17_seal_at);
sealed_at!(Device<U28, Callbacks>, tobari_u28_seal_at);

/// There is nobody to tell: a sensor stands still, and its watchdog starts it again. Nothing in the
/// device's code is known to come here.
#[cfg(target_os = "none")]
#[panic_handler]
fn stopped(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
