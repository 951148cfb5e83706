//! What is planned for: the paths between two clocks, as laws of independent hops or as recorded exchanges.

use crate::{Evaluator, Exchanges, Law, ModelError, Pair, Setting};

/// The paths between two clocks.
#[derive(Clone, Debug, PartialEq)]
pub enum Paths {
    /// Laws of hops, which Algorithm 1 takes as independent.
    Laws(Pair),
    /// What messages met, each as a whole.
    Recorded(Exchanges),
}

impl From<Pair> for Paths {
    fn from(pair: Pair) -> Self {
        Self::Laws(pair)
    }
}

impl From<Exchanges> for Paths {
    fn from(exchanges: Exchanges) -> Self {
        Self::Recorded(exchanges)
    }
}

impl Paths {
    /// The law of each hop, forward and back.
    pub fn laws(&self) -> Vec<Law> {
        match self {
            Self::Laws(pair) => pair.forward.iter().chain(&pair.reverse).cloned().collect(),
            Self::Recorded(exchanges) => exchanges.laws(),
        }
    }

    /// With more traffic: each law [`Law::surged`]; recorded delays are so many times as long.
    pub(crate) fn surged(&self, factor: f64) -> Result<Self, ModelError> {
        let surged = |laws: &[Law]| laws.iter().map(|law| law.surged(factor)).collect::<Result<Vec<_>, _>>();
        Ok(match self {
            Self::Laws(pair) => {
                Self::Laws(Pair { forward: surged(&pair.forward)?, reverse: surged(&pair.reverse)? })
            }
            Self::Recorded(exchanges) => Self::Recorded(exchanges.scaled(factor)?),
        })
    }
}

/// Evaluates settings on one pair of paths. After [`PathsEvaluator::prepare`] with a setting, those of the same delta and
/// rule with an R and N of no more can be asked for.
#[derive(Clone, Debug)]
pub struct PathsEvaluator {
    paths: Paths,
    evaluator: Evaluator,
    errors: Vec<f64>,
}

impl PathsEvaluator {
    /// For these paths.
    pub fn new(paths: Paths) -> Self {
        Self { paths, evaluator: Evaluator::default(), errors: Vec::new() }
    }

    /// The paths.
    pub const fn paths(&self) -> &Paths {
        &self.paths
    }

    /// [`Evaluator::prepare`].
    pub fn prepare(&mut self, setting: &Setting) {
        if let Paths::Laws(pair) = &self.paths {
            self.evaluator.prepare(pair, setting);
        }
    }

    /// MSE in ns^2 of a setting that was prepared for.
    pub fn mse_ns2(&mut self, setting: &Setting) -> f64 {
        match &self.paths {
            Paths::Laws(_) => self.evaluator.mse_ns2(setting),
            Paths::Recorded(exchanges) => exchanges.mse_with(Some(setting), &mut self.errors),
        }
    }

    /// MSE in ns^2 without marks, once anything was prepared.
    pub fn baseline_mse_ns2(&mut self) -> f64 {
        match &self.paths {
            Paths::Laws(_) => self.evaluator.baseline_mse_ns2(),
            Paths::Recorded(exchanges) => exchanges.mse_with(None, &mut self.errors),
        }
    }
}
