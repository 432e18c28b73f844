//! Distributions fitted to measured values by maximum likelihood, and the quality of the fits.

use serde::{Deserialize, Serialize};

/// A distribution of positive values.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum Fit {
    /// Exponential: memoryless.
    Exponential {
        /// Rate: 1 over the mean.
        rate: f64,
    },
    /// Lognormal: the logarithm is normal.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Pareto: a power law above a minimum.
    Pareto {
        /// The minimum.
        scale: f64,
        /// The exponent: the mean is infinite up to 1, the variance up to 2.
        shape: f64,
    },
    /// Weibull: a stretched exponential, with a heavier tail for a shape below 1.
    Weibull {
        /// The value that 1/e of all values exceed.
        scale: f64,
        /// The exponent.
        shape: f64,
    },
}

/// A fit, and its quality.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The distribution.
    pub fit: Fit,
    /// Kolmogorov-Smirnov distance: the maximum difference of the two distribution functions.
    pub distance: f64,
    /// Probability that a sample of the distribution is at least as far from it. The parameters come from the same
    /// values, so that it is an upper bound: a small one refutes the fit, a large one does not prove it.
    pub p: f64,
}

impl Fit {
    /// The share of values up to `x`.
    pub fn cdf(&self, x: f64) -> f64 {
        if x <= 0.0 {
            return 0.0;
        }
        match *self {
            Self::Exponential { rate } => -(-rate * x).exp_m1(),
            Self::Lognormal { mu, sigma } => {
                0.5 * libm::erfc(-(x.ln() - mu) / (sigma * std::f64::consts::SQRT_2))
            }
            Self::Pareto { scale, shape } if x > scale => 1.0 - (scale / x).powf(shape),
            Self::Pareto { .. } => 0.0,
            Self::Weibull { scale, shape } => -(-(x / scale).powf(shape)).exp_m1(),
        }
    }

    /// A value drawn from the distribution, computed from two uniform numbers between 0 and 1.
    pub fn draw(&self, [u, v]: [f64; 2]) -> f64 {
        // Avoids the logarithm of 0.
        let u = (1.0 - u).clamp(f64::MIN_POSITIVE, 1.0);
        match *self {
            Self::Exponential { rate } => -u.ln() / rate,
            // The Box-Muller transform.
            Self::Lognormal { mu, sigma } => {
                (mu + sigma * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()).exp()
            }
            Self::Pareto { scale, shape } => scale / u.powf(1.0 / shape),
            Self::Weibull { scale, shape } => scale * (-u.ln()).powf(1.0 / shape),
        }
    }

    /// Name of the distribution.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Exponential { .. } => "exponential",
            Self::Lognormal { .. } => "lognormal",
            Self::Pareto { .. } => "Pareto",
            Self::Weibull { .. } => "Weibull",
        }
    }

    /// Its parameters with their names.
    pub fn parameters(&self) -> Vec<(&'static str, f64)> {
        match *self {
            Self::Exponential { rate } => vec![("rate", rate)],
            Self::Lognormal { mu, sigma } => vec![("mu", mu), ("sigma", sigma)],
            Self::Pareto { scale, shape } | Self::Weibull { scale, shape } => {
                vec![("scale", scale), ("shape", shape)]
            }
        }
    }

    /// Whether the parameters describe a distribution; those from a file may not.
    pub fn is_sound(&self) -> bool {
        let is_positive = |(name, value): &(&str, f64)| value.is_finite() && (*name == "mu" || *value > 0.0);
        self.parameters().iter().all(is_positive)
    }
}

/// Every distribution fitted to the values above 0, the nearest first. None if fewer than two values differ.
pub fn fit_all(values: &[f64]) -> Vec<Fitted> {
    let mut sorted: Vec<f64> =
        values.iter().copied().filter(|value| value.is_finite() && *value > 0.0).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (Some(min), Some(max)) = (sorted.first().copied(), sorted.last().copied()) else {
        return Vec::new();
    };
    if min == max {
        return Vec::new();
    }
    let n = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / n;
    let mu = sorted.iter().map(|x| x.ln()).sum::<f64>() / n;
    let sigma = (sorted.iter().map(|x| (x.ln() - mu).powi(2)).sum::<f64>() / n).sqrt();
    let shape = weibull_shape(&sorted, max, mu);
    let spread = sorted.iter().map(|x| (x / max).powf(shape)).sum::<f64>() / n;
    let fits = [
        Fit::Exponential { rate: 1.0 / mean },
        Fit::Lognormal { mu, sigma },
        Fit::Pareto { scale: min, shape: 1.0 / (mu - min.ln()) },
        Fit::Weibull { scale: max * spread.powf(1.0 / shape), shape },
    ];
    let sound = fits.into_iter().filter(Fit::is_sound);
    let mut fitted: Vec<Fitted> = sound
        .map(|fit| {
            let distance = distance(&sorted, &fit);
            Fitted { fit, distance, p: kolmogorov(distance, n) }
        })
        .collect();
    fitted.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    fitted
}

/// The root of the likelihood equation, which increases from below 0 to above, found by bisection.
fn weibull_shape(sorted: &[f64], max: f64, mean_log: f64) -> f64 {
    let slope = |shape: f64| {
        // Relative to the maximum, so that no power overflows.
        let (mut sum, mut logs) = (0.0, 0.0);
        for x in sorted {
            let power = (x / max).powf(shape);
            sum += power;
            logs += power * x.ln();
        }
        logs / sum - 1.0 / shape - mean_log
    };
    let (mut low, mut high) = (1e-3, 1e3);
    for _ in 0..60 {
        let middle = f64::sqrt(low * high);
        if slope(middle) < 0.0 { low = middle } else { high = middle }
    }
    f64::sqrt(low * high)
}

/// Kolmogorov-Smirnov distance of sorted values from a distribution.
fn distance(sorted: &[f64], fit: &Fit) -> f64 {
    let n = sorted.len() as f64;
    let (mut max, mut at) = (0.0_f64, 0);
    // Equal values are one step.
    for same in sorted.chunk_by(|a, b| a == b) {
        let Some(value) = same.first() else { continue };
        let expected = fit.cdf(*value);
        let before = at as f64 / n;
        at += same.len();
        max = max.max((expected - before).abs()).max((at as f64 / n - expected).abs());
    }
    max
}

/// The probability of a distance as great, by Kolmogorov's series with Stephens' correction for few values.
fn kolmogorov(distance: f64, n: f64) -> f64 {
    let root = n.sqrt();
    let lambda = (root + 0.12 + 0.11 / root) * distance;
    // Below this value the series converges slowly, and the probability is practically 1.
    if lambda < 0.2 {
        return 1.0;
    }
    let term = |j: i32| {
        let j = f64::from(j);
        let sign = if j % 2.0 == 1.0 { 2.0 } else { -2.0 };
        sign * (-2.0 * j * j * lambda * lambda).exp()
    };
    (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Random;

    fn drawn(fit: Fit, n: usize) -> Vec<f64> {
        let mut random = Random::new(7);
        (0..n).map(|_| fit.draw(random.pair())).collect()
    }

    /// The standard errors of the estimates at 20,000 values are below 1.5 %.
    #[test]
    fn parameters_of_drawn_values_are_recovered() {
        for fit in [
            Fit::Exponential { rate: 0.25 },
            Fit::Lognormal { mu: 7.0, sigma: 1.5 },
            Fit::Pareto { scale: 100.0, shape: 1.3 },
            Fit::Weibull { scale: 30.0, shape: 0.6 },
        ] {
            let values = drawn(fit, 20_000);
            let all = fit_all(&values);
            let same = |found: &&Fitted| std::mem::discriminant(&found.fit) == std::mem::discriminant(&fit);
            let found = all.iter().find(same).unwrap();
            for ((name, was), (_, is)) in fit.parameters().iter().zip(found.fit.parameters()) {
                assert!((is / was - 1.0).abs() < 0.05, "{fit:?} {name}: {is}");
            }
            assert!(found.distance < 0.012 && found.p > 0.05, "{fit:?}: {found:?}");
            // An exponential is a Weibull of shape 1; all other pairs are distinguishable.
            for other in all.iter().filter(|other| other.fit.name() != found.fit.name()) {
                let is_special = matches!(fit, Fit::Exponential { .. }) && other.fit.name() == "Weibull";
                assert!(is_special || other.p < 0.001, "{fit:?} is no {other:?}");
            }
        }
    }

    /// Kolmogorov's distribution has 0.05 at 1.3581 and 0.01 at 1.6276.
    #[test]
    fn probabilities_equal_those_of_the_tables() {
        for (lambda, p) in [(1.3581, 0.05), (1.6276, 0.01), (0.8276, 0.5)] {
            let n = 1e8_f64;
            let found = kolmogorov(lambda / n.sqrt(), n);
            assert!((found - p).abs() < 0.0005, "{lambda}: {found}");
        }
    }

    #[test]
    fn the_distance_of_few_values_is_correct() {
        // For 1, 2, 3 and an exponential of rate 1 the distance is greatest just before 1, below all three values.
        let fit = Fit::Exponential { rate: 1.0 };
        assert!((distance(&[1.0, 2.0, 3.0], &fit) - 0.632_120_558_8).abs() < 1e-9);
    }

    #[test]
    fn equal_values_have_no_fit() {
        assert!(
            fit_all(&[]).is_empty()
                && fit_all(&[5.0; 9]).is_empty()
                && fit_all(&[0.0, -1.0, f64::NAN]).is_empty()
        );
        assert!(!fit_all(&[1e-300, 1e300]).is_empty());
    }
}
