//! The law of what is left, on a grid: Algorithm 1 with whole distributions in place of moments.
//!
//! The delay so far is carried jointly with the counter on nodes that are `step` apart, and n*delta taken off at the
//! end, so that the step need not divide delta. What lies between two nodes is put on both so that its mean is kept. So
//! the mean is exact, the variance too large by at most a quarter of step^2 for each hop and one more for the end, and a
//! quantile off by at most as many steps as hops, plus one. Of each hop, delays that are exceeded with a probability of
//! 10^-12 count as the least of them.

use crate::{
    Law, ModelError, Pair, Rule, Setting,
    error::{positive, share},
};

/// Most nodes of a grid: more are refused, for the time grows with their square.
const MAX_NODES: f64 = 100_000.0;

/// The share of a hop's delays that the grid's end cuts off.
const CUT: f64 = 1e-12;

/// A law on nodes at equal distances.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    first_ns: f64,
    step_ns: f64,
    mass: Vec<f64>,
}

impl Distribution {
    /// Each node in ns, increasing, with its probability.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (f64, f64)> {
        self.mass.iter().enumerate().map(|(i, &p)| (self.first_ns + i as f64 * self.step_ns, p))
    }

    /// Distance of nodes, ns.
    pub const fn step_ns(&self) -> f64 {
        self.step_ns
    }

    /// Mean, ns.
    pub fn mean_ns(&self) -> f64 {
        self.nodes().map(|(x, p)| x * p).sum()
    }

    /// Variance, ns^2.
    pub fn var_ns2(&self) -> f64 {
        let mean = self.mean_ns();
        self.nodes().map(|(x, p)| p * (x - mean) * (x - mean)).sum()
    }

    /// P(X <= x).
    pub fn cdf(&self, x: f64) -> f64 {
        self.nodes().take_while(|node| node.0 <= x).map(|node| node.1).sum()
    }

    /// The lowest node at or below which the share `p` lies, ns.
    pub fn quantile(&self, p: f64) -> f64 {
        let mut sum = 0.0;
        let found = self.nodes().find(|node| {
            sum += node.1;
            sum >= p
        });
        found.or_else(|| self.nodes().last()).map_or(0.0, |node| node.0)
    }

    /// The least b with P(|X| <= b) of at least `coverage`, in ns: a time uncertainty bound where X is an offset error.
    pub fn bound_ns(&self, coverage: f64) -> f64 {
        let mut nodes: Vec<_> = self.nodes().map(|(x, p)| (x.abs(), p)).collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0.0;
        let found = nodes.iter().find(|node| {
            sum += node.1;
            sum >= coverage
        });
        found.or(nodes.last()).map_or(0.0, |node| node.0)
    }
}

/// One hop on the grid: by marks, what the nodes from the first on get.
struct Rows(Vec<(usize, Vec<f64>)>);

impl Rows {
    fn of(law: &Law, setting: &Setting, step: f64) -> Result<Self, ModelError> {
        let cells = (law.exceeded_by(CUT) / step).ceil();
        check_nodes(cells, step)?;
        let mut rows = Self(vec![]);
        let zero = law.above(f64::NEG_INFINITY, 0.0) - law.above(0.0, 0.0);
        rows.add(0, 0, zero.mass);
        let mut marks = 0;
        let mut rest = law.above(0.0, 0.0);
        for cell in 0..cells as usize {
            let to = (cell + 1) as f64 * step;
            loop {
                // Cut the cell at the next threshold, if it is in here.
                let threshold = setting.rule().threshold(marks + 1, setting.delta_ns());
                let crosses = marks < setting.thresholds() && threshold < to;
                let above = law.above(if crosses { threshold } else { to }, to);
                let piece = rest - above.raised(step);
                // How far up in its cell the piece is in the mean decides what each end gets.
                let up = piece.first / step;
                rows.add(marks, cell, piece.mass - up);
                rows.add(marks, cell + 1, up);
                if !crosses {
                    rest = above;
                    break;
                }
                marks += 1;
                rest = above.raised(step);
            }
        }
        rows.add(marks, cells as usize, rest.mass);
        Ok(rows)
    }

    fn add(&mut self, marks: u32, node: usize, mass: f64) {
        let rows = &mut self.0;
        while rows.len() <= marks as usize {
            rows.push((node, vec![]));
        }
        let (first, row) = &mut rows[marks as usize];
        if row.len() <= node - *first {
            row.resize(node - *first + 1, 0.0);
        }
        // Rounding can leave a little less than nothing.
        row[node - *first] += mass.max(0.0);
    }
}

fn check_nodes(nodes: f64, step: f64) -> Result<(), ModelError> {
    if nodes <= MAX_NODES {
        return Ok(());
    }
    Err(ModelError::range(
        "step",
        format!("{step} ns, which makes {nodes:.0} nodes"),
        "so large that 100,000 do",
    ))
}

/// The law of D, the delay that marks leave on a path, on a grid of `step_ns`.
///
/// Takes about hops^2 * N * (range/step)^2 additions, where range is that of one hop.
///
/// # Errors
/// [`ModelError::Range`] on a step that is not above 0, or so small that a grid has more than 100,000 nodes.
pub fn error_distribution(path: &[Law], setting: &Setting, step_ns: f64) -> Result<Distribution, ModelError> {
    let step = positive("step", step_ns)?;
    let mut states = vec![vec![1.0]];
    for law in path {
        let hop = Rows::of(law, setting, step)?;
        states = convolve(&states, &hop, setting);
        check_nodes(states.iter().map(Vec::len).max().unwrap_or(0) as f64, step)?;
    }
    let taken = |n: usize| n as f64 * setting.delta_ns() / step;
    let ends = states.iter().enumerate().filter_map(|(n, state)| {
        let least = state.iter().position(|&p| p > 0.0)? as f64 - taken(n);
        Some((least.floor(), (state.len() as f64 - taken(n)).ceil()))
    });
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |all, one| (all.0.min(one.0), all.1.max(one.1)));
    check_nodes(high - low, step)?;
    let mut mass = vec![0.0; (high - low) as usize + 1];
    for (n, state) in states.iter().enumerate() {
        for (i, &p) in state.iter().enumerate().filter(|node| *node.1 > 0.0) {
            let at = i as f64 - taken(n) - low;
            let node = at as usize;
            let up = at - node as f64;
            mass[node] += p * (1.0 - up);
            if up > 0.0 {
                mass[node + 1] += p * up;
            }
        }
    }
    Ok(Distribution { first_ns: low * step, step_ns: step, mass })
}

fn convolve(states: &[Vec<f64>], hop: &Rows, setting: &Setting) -> Vec<Vec<f64>> {
    let limit = setting.counter_max() as usize;
    let mut next: Vec<Vec<f64>> = vec![];
    for (n, state) in states.iter().enumerate() {
        for (r, (first, row)) in hop.0.iter().enumerate() {
            let to = (n + r).min(limit);
            if next.len() <= to {
                next.resize(to + 1, vec![]);
            }
            let sum = &mut next[to];
            let len = state.len() + first + row.len();
            if sum.len() < len {
                sum.resize(len, 0.0);
            }
            for (i, &p) in state.iter().enumerate().filter(|node| *node.1 > 1e-30) {
                for (to, &q) in sum[i + first..].iter_mut().zip(row) {
                    *to += p * q;
                }
            }
        }
    }
    next
}

/// The law of a path's queueing delay Q itself: [`error_distribution`] where nothing is marked.
///
/// # Errors
/// As there.
pub fn delay_distribution(path: &[Law], step_ns: f64) -> Result<Distribution, ModelError> {
    error_distribution(path, &Setting::new(f64::MAX / 4.0, 1, 1, Rule::Edge)?, step_ns)
}

/// The law of the offset error with marks, half of what they leave forward less what they leave on the way back, in steps
/// of half of `step_ns`.
///
/// # Errors
/// As [`error_distribution`].
pub fn offset_distribution(pair: &Pair, setting: &Setting, step_ns: f64) -> Result<Distribution, ModelError> {
    let forward = error_distribution(&pair.forward, setting, step_ns)?;
    let reverse = error_distribution(&pair.reverse, setting, step_ns)?;
    let last = reverse.mass.len() - 1;
    let mut mass = vec![0.0; forward.mass.len() + last];
    for (i, &p) in forward.mass.iter().enumerate().filter(|node| *node.1 > 0.0) {
        for (to, &q) in mass[i..].iter_mut().zip(reverse.mass.iter().rev()) {
            *to += p * q;
        }
    }
    let first_ns = 0.5 * (forward.first_ns - reverse.first_ns - last as f64 * step_ns);
    Ok(Distribution { first_ns, step_ns: 0.5 * step_ns, mass })
}

/// The time uncertainty bound of a pair: the offset error in ns that is not exceeded, either way, with probability
/// `coverage`, on a grid of `step_ns`.
///
/// # Errors
/// As [`error_distribution`], and on a coverage outside (0, 1].
pub fn uncertainty_ns(
    pair: &Pair,
    setting: &Setting,
    coverage: f64,
    step_ns: f64,
) -> Result<f64, ModelError> {
    share("coverage", coverage)?;
    Ok(offset_distribution(pair, setting, step_ns)?.bound_ns(coverage))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{evaluate, monte_carlo::message};
    use rand::SeedableRng;

    fn path() -> Vec<Law> {
        vec![
            Law::exponential(7e3, 0.34).unwrap(),
            Law::gamma(2.0, 6e3, 1.0).unwrap(),
            Law::points(&[(0.0, 2.0), (9_100.0, 1.0), (10e3, 1.0)]).unwrap(),
        ]
    }

    #[test]
    fn moments_are_those_of_the_dynamic_program() {
        for (delta, r, n, rule) in [
            (5e3, 4, 8, Rule::Edge),
            (3_333.3, 6, 5, Rule::Centred),
            (10e3, 1, 1, Rule::Edge),
            (700.0, 3, 9, Rule::Centred),
        ] {
            let setting = Setting::new(delta, r, n, rule).unwrap();
            let exact = evaluate(&Pair { forward: path(), reverse: vec![] }, &setting).forward;
            let step = 100.0;
            let grid = error_distribution(&path(), &setting, step).unwrap();
            assert!((grid.nodes().map(|n| n.1).sum::<f64>() - 1.0).abs() < 1e-9);
            assert!((grid.mean_ns() - exact.error_mean_ns).abs() < 1e-3, "{} {exact:?}", grid.mean_ns());
            let excess = grid.var_ns2() - exact.error_var_ns2;
            assert!(excess > -1.0 && excess < step * step, "{excess}");
        }
    }

    #[test]
    fn quantiles_are_those_of_the_rule_drawn_at_random() {
        let setting = Setting::new(4e3, 3, 7, Rule::Edge).unwrap();
        let grid = error_distribution(&path(), &setting, 50.0).unwrap();
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(8);
        let mut draws: Vec<f64> = (0..200_000).map(|_| message(&path(), &setting, &mut rng).1).collect();
        draws.sort_by(f64::total_cmp);
        for p in [0.05, 0.5, 0.9, 0.99, 0.999] {
            let se = (p * (1.0 - p) / 200_000f64).sqrt();
            let at = |p: f64| draws[(p * 200_000.0) as usize];
            let (low, high) = (at(p - 4.0 * se) - 200.0, at(p + 4.0 * se) + 200.0);
            let found = grid.quantile(p);
            assert!((low..=high).contains(&found), "{p}: {found}, not {low} to {high}");
        }
    }

    #[test]
    fn without_marks_it_is_the_delay() {
        let grid = delay_distribution(&path()[..1], 10.0).unwrap();
        for x in [0.0f64, 1e3, 7e3, 30e3] {
            let exact = 1.0 - 0.34 * (-x / 7e3).exp();
            assert!((grid.cdf(x) - exact).abs() < 5e-4, "{x}");
        }
        assert_eq!(grid.quantile(0.6), 0.0);
        let none = delay_distribution(&[], 10.0).unwrap();
        assert_eq!((none.quantile(0.5), none.quantile(1.0), none.bound_ns(1.0)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn offsets_of_equal_paths_are_symmetric() {
        let setting = Setting::new(5e3, 4, 8, Rule::Edge).unwrap();
        let pair = Pair { forward: path(), reverse: path() };
        let grid = offset_distribution(&pair, &setting, 200.0).unwrap();
        assert!(grid.mean_ns().abs() < 1e-6);
        assert!((grid.var_ns2() / evaluate(&pair, &setting).mse_ns2 - 1.0).abs() < 0.01);
        let bound = uncertainty_ns(&pair, &setting, 0.99, 200.0).unwrap();
        let outside = 1.0 - grid.cdf(bound) + grid.cdf(-bound - 1.0);
        assert!(outside <= 0.01 && outside > 0.009, "{outside}");
    }

    #[test]
    fn a_step_too_small_is_named() {
        let error = delay_distribution(&path(), 1e-3).unwrap_err().to_string();
        assert!(
            error.starts_with("step is 0.001 ns, which makes ") && error.ends_with("100,000 do"),
            "{error}"
        );
        assert!(delay_distribution(&path(), 0.0).unwrap_err().to_string().starts_with("step is 0;"));
    }
}
