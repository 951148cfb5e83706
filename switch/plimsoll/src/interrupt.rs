//! SIGINT and SIGTERM as a flag.

use std::{
    io,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::{
    consts::{SIGINT, SIGTERM},
    flag,
};

/// A flag that either signal sets, in place of ending the process.
///
/// # Errors
/// The system's, where it does not take a handler.
pub(crate) fn flag() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}
