//! The critical errors (Xids) that NVIDIA's driver reports, taken from the library's queue of events.
//!
//! The wrapper's own event set borrows the library and gives up all cards when one does not take part, so the set
//! is held by its handle here.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::ptr;

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::event::EventSet;
use nvml_wrapper_sys::bindings::{nvmlEventSet_t, nvmlEventTypeXidCriticalError};

/// The queue is not emptied for ever.
const EVENTS_MAX: usize = 1000;

/// The set of events, and which cards are in it.
#[derive(Default)]
pub(super) struct Xids {
    /// Never freed: it is needed as long as the library is.
    set: Option<nvmlEventSet_t>,
    cards: u32,
}

impl Xids {
    /// The last error of each card since the last call. The first call begins to listen.
    pub(super) fn drain(&mut self, nvml: &Nvml, count: u32) -> HashMap<u32, u64> {
        let mut last = HashMap::new();
        if count != self.cards || self.set.is_none() {
            self.listen(nvml, count);
        }
        let Some(set) = self.set else { return last };
        // SAFETY: the handle comes from `nvmlEventSetCreate` of this library, which is still initialised, and it
        // is not freed: `ManuallyDrop` keeps the wrapper from doing so.
        let set = ManuallyDrop::new(unsafe { EventSet::new(set, nvml) });
        for _ in 0..EVENTS_MAX {
            match set.wait(0) {
                Ok(event) => {
                    if let (Ok(card), Some(XidError::Value(xid))) = (event.device.index(), event.event_data) {
                        last.insert(card, xid);
                    }
                }
                // One card that is lost ends the waiting for all; the others are heard with the next reading.
                Err(_) => break,
            }
        }
        last
    }

    /// A card that takes no part is left out; the others are heard.
    fn listen(&mut self, nvml: &Nvml, count: u32) {
        self.cards = count;
        self.set = self.set.take().or_else(|| create(nvml));
        let Some(set) = self.set else { return };
        let Ok(register) = nvml.lib().nvmlDeviceRegisterEvents.as_ref() else { return };
        for card in (0..count).filter_map(|index| nvml.device_by_index(index).ok()) {
            // SAFETY: both handles come from this library, which is initialised. It copies what it needs.
            let _ = unsafe { register(card.handle(), nvmlEventTypeXidCriticalError.into(), set) };
        }
    }
}

fn create(nvml: &Nvml) -> Option<nvmlEventSet_t> {
    let create = nvml.lib().nvmlEventSetCreate.as_ref().ok()?;
    let mut set: nvmlEventSet_t = ptr::null_mut();
    // SAFETY: the library is initialised and writes one handle to the place it is given.
    let code = unsafe { create(&mut set) };
    nvml_wrapper::error::nvml_try(code).ok()?;
    (!set.is_null()).then_some(set)
}
