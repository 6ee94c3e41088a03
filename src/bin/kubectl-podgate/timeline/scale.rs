//! Ticks of the time axis.

/// Distances between two ticks, in milliseconds. A longer distance is a multiple of [`DAY`].
const TICK_STEPS: [i64; 16] = [
    100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000,
    21_600_000,
];
const DAY: i64 = 86_400_000;

/// Returns at most `most` + 1 ticks at round times within `length` milliseconds. Each tick is an offset in milliseconds
/// and a label. The first offset is 0.
pub(crate) fn ticks(length: i64, most: usize) -> Vec<(i64, String)> {
    let most = i64::try_from(most.max(1)).unwrap_or(1);
    let step = TICK_STEPS.into_iter().find(|step| length / step < most).unwrap_or(DAY);
    // Only steps of a day can give more ticks than `most`. In that case, use steps of several days.
    let step = step * (length / step / most + 1);
    (0..=length / step).map(|n| (n * step, format_tick(n * step))).collect()
}

fn format_tick(ms: i64) -> String {
    let (minutes, seconds) = (ms / 60_000, ms % 60_000 / 1000);
    match ms {
        _ if ms % 1000 != 0 => format!("{:.1}s", ms as f64 / 1000.0),
        ..120_000 => format!("{}s", ms / 1000),
        7_200_000.. => format!("{:.1}h", ms as f64 / 3_600_000.0),
        _ if seconds == 0 => format!("{minutes}min"),
        _ => format!("{minutes}min{seconds}s"),
    }
}
