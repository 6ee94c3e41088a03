//! Quantiles of measurements. Shared by benchmarks.

/// Returns the quantile `part` (0 to 1) of `values`: this share of the values is smaller.
pub(crate) fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
