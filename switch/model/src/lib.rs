//! The paper's mathematics (arXiv 2604.12961): what marking does to the error of a clock, before anybody builds it.
//!
//! Pure computation: no clock, no I/O, no thread; all randomness has a seed. **Times are nanoseconds as `f64`**, their
//! squares ns^2. Elementary functions are libm's, so that results have the same bits on every machine.
//!
//! | file | idea |
//! |---|---|
//! | `law/` | laws of queueing delay at one hop; `moments.rs` what they answer |
//! | `setting.rs` | delta, R, N and where the thresholds lie |
//! | `counter.rs` | Algorithm 1 as a dynamic program |
//! | `evaluation.rs` | both directions: MSE and improvement (eq. 11-13) |
//! | `exchanges.rs` | recorded exchanges, each message as a whole |
//! | `paths.rs` | what is planned for: laws, or recorded exchanges |
//! | `distribution.rs` | the whole law of what is left, on a grid; time uncertainty |
//! | `conditions.rs` | C1, C2, C3, and where the variance falls in truth |
//! | `search.rs` | delta and R under an objective |
//! | `curve.rs` | how much the choice of delta matters |
//! | `recording.rs`, `recording/` | exchanges from a recording |
//! | `monte_carlo.rs` | the rule drawn at random, as a check |
//! | `filter.rs` | filters of offsets |
//! | `tandem.rs` | Table III's flows through their host's link |
//!
//! The paper's symbols in our names: `SYMBOLS.md` beside this crate's `Cargo.toml`.
#![forbid(unsafe_code)]

mod conditions;
pub mod counter;
mod curve;
mod distribution;
mod error;
mod evaluation;
mod exchanges;
mod filter;
mod law;
mod moments;
pub mod monte_carlo;
mod paths;
mod recording;
mod search;
mod setting;
pub mod tandem;

pub use conditions::{
    Bound, Conditions, Interval, c1_bound_ns, c1_region, c3_bound_ns, conditions, variance_region,
};
pub use curve::Curve;
pub use distribution::{
    Distribution, delay_distribution, error_distribution, offset_distribution, uncertainty_ns,
};
pub use error::ModelError;
pub use evaluation::{Direction, Evaluation, Evaluator, Pair, evaluate, improvement, mse_ns2};
pub use exchanges::Exchanges;
pub use filter::{Filter, Window};
pub use law::{Bin, Discrete, Exponential, Gamma, Histogram, Law, Mm1};
pub use moments::{Moments, Spread};
pub use paths::{Paths, PathsEvaluator};
pub use recording::{CsvColumns, MessageKind, RecordedPair, Recording, Row};
pub use search::{Choice, Objective, Plan, Space, search};
pub use setting::{MAX_THRESHOLDS, Rule, Setting};
