//! The program `plimsoll` under another name, so that cargo builds it, fresh, for the tests of this package.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::main()
}
