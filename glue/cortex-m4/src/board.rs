//! The emulated board: its text output, its end, and a count of instructions.

use core::panic::PanicInfo;
use cortex_m::peripheral::{SYST, syst::SystClkSource};
use cortex_m_semihosting::{debug, hprintln};

/// Instructions of a tick of the clock: QEMU with `-icount shift=0` takes one nanosecond for each
/// instruction, and the board's clock has 25 MHz.
const TICK: u32 = 40;
/// Calls that are counted together, so that an instruction of each call is four ticks.
const CALLS: u32 = 4 * TICK;
const MOST: u32 = 0x00ff_ffff;

/// The board's clock.
pub struct Clock(SYST);

impl Clock {
    /// Starts the clock. `None` if it was started before.
    pub fn start() -> Option<Self> {
        let mut clock = cortex_m::Peripherals::take()?.SYST;
        clock.set_clock_source(SystClkSource::Core);
        clock.set_reload(MOST);
        clock.clear_current();
        clock.enable_counter();
        // it has a value from its first tick on
        while SYST::get_current() == 0 {}
        Some(Self(clock))
    }

    /// The instructions of a call, of at most four million.
    pub fn count(&self, mut work: impl FnMut()) -> Count {
        let start = SYST::get_current();
        for _ in 0..CALLS {
            work();
        }
        // the clock counts down
        Count(start.wrapping_sub(SYST::get_current()) & MOST)
    }
}

/// The ticks of a fixed number of calls.
#[derive(Clone, Copy)]
pub struct Count(u32);

impl Count {
    /// Instructions of a call.
    pub fn instructions(self) -> u32 {
        (self.0 * TICK + CALLS / 2) / CALLS
    }

    /// Whether both calls have the same number of instructions. A difference of one instruction is
    /// four ticks, and the beginning of a tick makes a difference of one.
    pub fn equals(self, other: Self) -> bool {
        self.0.abs_diff(other.0) <= 1
    }
}

/// Ends the emulation with status 0.
pub fn end() -> ! {
    debug::exit(debug::EXIT_SUCCESS);
    loop {
        cortex_m::asm::wfi();
    }
}

/// A fault ends the emulation, too.
#[cortex_m_rt::exception]
unsafe fn HardFault(frame: &cortex_m_rt::ExceptionFrame) -> ! {
    hprintln!("{:?}", frame);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        cortex_m::asm::wfi();
    }
}

#[panic_handler]
fn stopped(why: &PanicInfo<'_>) -> ! {
    hprintln!("{}", why);
    debug::exit(debug::EXIT_FAILURE);
    loop {
        cortex_m::asm::wfi();
    }
}
