//! Exponential delays with an atom at zero, and the M/M/1 wait, which is one.

use plimsoll_core::Rate;

use crate::{
    Moments,
    error::{ModelError, positive, share, short},
};

/// Exponential with probability `waits`, else zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    mean_ns: f64,
    waits: f64,
}

impl Exponential {
    /// Mean of the delays that are not zero, in ns, and their probability (0, 1].
    ///
    /// # Errors
    /// [`ModelError::Range`] on a mean that is not above 0, or a probability outside (0, 1].
    pub fn new(mean_ns: f64, waits: f64) -> Result<Self, ModelError> {
        Ok(Self { mean_ns: positive("mean", mean_ns)?, waits: share("p", waits)? })
    }

    /// Probability of a delay above 0.
    pub const fn waits(&self) -> f64 {
        self.waits
    }

    /// Closed form: given X > x, X - x is exponential again.
    #[inline]
    pub(super) fn above(&self, x: f64, about: f64) -> Moments {
        let m = self.mean_ns;
        if x < 0.0 {
            let mut all =
                Moments { mass: self.waits, first: self.waits * m, second: 2.0 * self.waits * m * m };
            all.mass = 1.0;
            return all.raised(-about);
        }
        let mass = self.waits * libm::exp(-x / m);
        Moments { mass, first: mass * m, second: 2.0 * mass * m * m }.raised(x - about)
    }

    pub(super) fn inverse(&self, beyond: f64) -> f64 {
        if beyond >= self.waits { 0.0 } else { -self.mean_ns * libm::log(beyond / self.waits) }
    }

    pub(super) fn scaled(&self, factor: f64) -> Result<Self, ModelError> {
        Self::new(self.mean_ns * factor, self.waits)
    }
}

/// The wait in an M/M/1 queue: packets of exponential size at exponential gaps, first come first served.
///
/// With service time s = 8*size/rate and rho = s/gap: zero with probability 1 - rho, else exponential with mean
/// s/(1 - rho). The unconditional mean, rho*s/(1 - rho), is lambda* in the paper's Table III.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mm1 {
    size_octets: f64,
    gap_ns: f64,
    rate: Rate,
    wait: Exponential,
}

impl Mm1 {
    /// Mean size on the wire in octets, mean gap between arrivals in ns, line rate.
    ///
    /// # Errors
    /// [`ModelError::Range`] on a size, gap or rate that is not above 0, or a load rho = 8*size/(rate*gap) of 1 or
    /// more, at which the queue grows for ever.
    pub fn new(size_octets: f64, gap_ns: f64, rate: Rate) -> Result<Self, ModelError> {
        positive("size", size_octets)?;
        positive("gap", gap_ns)?;
        positive("rate", rate.0 as f64)?;
        let service_ns = size_octets * 8e9 / rate.0 as f64;
        let rho = service_ns / gap_ns;
        if rho >= 1.0 {
            return Err(ModelError::range("rho = 8*size/(rate*gap)", short(rho), "below 1"));
        }
        Ok(Self { size_octets, gap_ns, rate, wait: Exponential::new(service_ns / (1.0 - rho), rho)? })
    }

    /// rho, the share of time that the link is busy, which is the probability of a wait above 0.
    pub const fn load(&self) -> f64 {
        self.wait.waits
    }

    /// The wait's law.
    pub const fn wait(&self) -> &Exponential {
        &self.wait
    }

    /// The same queue with `factor` times as many packets.
    pub(super) fn busier(&self, factor: f64) -> Result<Self, ModelError> {
        Self::new(self.size_octets, self.gap_ns / factor, self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mm1_waits_of_table_iii() {
        for (size, gap_ns, rho, mean_us) in [
            (850.0, 8e3, 0.85, 38.53),
            (1000.0, 12e3, 2.0 / 3.0, 16.0),
            (750.0, 12e3, 0.5, 6.0),
            (600.0, 14e3, 0.342857, 2.504),
        ] {
            let queue = Mm1::new(size, gap_ns, Rate(1_000_000_000)).unwrap();
            let all = queue.wait().above(-1.0, 0.0);
            assert!((queue.load() - rho).abs() < 1e-6);
            assert!((all.first / 1e3 - mean_us).abs() < 0.01, "{}", all.first);
            assert!((queue.wait().above(0.0, 0.0).mass - rho).abs() < 1e-6);
        }
    }

    #[test]
    fn what_cannot_be_is_named() {
        let said = |e: ModelError| e.to_string();
        assert_eq!(
            said(Exponential::new(-7.0, 1.0).unwrap_err()),
            "mean is -7; it must be a finite number above 0"
        );
        assert_eq!(said(Exponential::new(7.0, 0.0).unwrap_err()), "p is 0; it must be above 0 and at most 1");
        assert!(said(Exponential::new(f64::NAN, 1.0).unwrap_err()).contains("mean is NaN"));
        assert_eq!(
            said(Mm1::new(1000.0, 8e3, Rate(1_000_000_000)).unwrap_err()),
            "rho = 8*size/(rate*gap) is 1; it must be below 1"
        );
        assert!(said(Mm1::new(1000.0, 8e3, Rate(0)).unwrap_err()).starts_with("rate is 0"));
    }
}
