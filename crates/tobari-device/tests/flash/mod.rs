//! A counter that lasts as long as the process: for tests and measurements, where nothing is restarted.

use std::convert::Infallible;
use tobari_device::CounterStore;

/// The next counter.
pub(crate) struct Flash(pub(crate) u32);

impl CounterStore for Flash {
    type Error = Infallible;

    fn load(&mut self) -> Result<u32, Infallible> {
        Ok(self.0)
    }

    fn store(&mut self, next: u32) -> Result<(), Infallible> {
        self.0 = next;
        Ok(())
    }
}
