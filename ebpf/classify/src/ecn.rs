//! ECN code points (RFC 3168 section 5).

/// Not ECN-capable.
pub const NOT_ECT: u8 = 0b00;
/// ECN-capable, ECT(1).
pub const ECT_1: u8 = 0b01;
/// ECN-capable, ECT(0).
pub const ECT_0: u8 = 0b10;
/// Congestion experienced.
pub const CE: u8 = 0b11;
