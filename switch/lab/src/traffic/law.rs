//! Draws that are the same on every machine: a seed in a file means one sequence of frames wherever it is run.
//!
//! Sums and products are exact by IEEE 754; the logarithm of the system's library is not (it differs in the last bit
//! between libraries), so it comes from a library of its own.

use rand::{Rng, RngCore};

/// A value of exponential law with this mean, 0 or more, by inversion.
#[inline]
pub(crate) fn exponential<R: RngCore>(mean: f64, rng: &mut R) -> f64 {
    // 1 - u is in (0, 1], and exact.
    -mean * libm::log(1.0 - rng.random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn draws_are_pinned_to_the_last_bit() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let drawn: Vec<_> = (0..3).map(|_| exponential(1000.0, &mut rng).to_bits()).collect();
        assert_eq!(drawn, PINNED, "{drawn:#x?}");
    }

    const PINNED: &[u64] = &[0x4080_17D0_E636_BAE7, 0x4054_F31F_0FD3_0902, 0x408C_5DD2_D74A_060D];

    #[test]
    fn nothing_is_negative_or_endless() {
        struct Ends(u64);
        impl RngCore for Ends {
            fn next_u32(&mut self) -> u32 {
                self.0 as u32
            }
            fn next_u64(&mut self) -> u64 {
                self.0
            }
            fn fill_bytes(&mut self, octets: &mut [u8]) {
                octets.fill(self.0 as u8);
            }
        }
        assert_eq!(exponential(5.0, &mut Ends(0)), 0.0);
        let most = exponential(1.0, &mut Ends(u64::MAX));
        assert!((36.0..37.0).contains(&most), "{most}");
    }
}
