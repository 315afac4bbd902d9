//! Dates in file names and keys.

/// Year, month, day of the month of a moment, in UTC.
pub(crate) fn date(unix_seconds: u64) -> (i64, u32, u32) {
    // Days are counted in eras of 400 years that begin on the first of March.
    let days = (unix_seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day)
}

/// `YYYYmmddHHMMSS`.
pub(crate) fn compact(unix_seconds: u64) -> String {
    let (year, month, day) = date(unix_seconds);
    let seconds = unix_seconds % 86_400;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
}

/// `YYYY-mm-ddTHH:MM:SSZ`.
pub(crate) fn readable(unix_seconds: u64) -> String {
    let text = compact(unix_seconds);
    let (date, time) = text.split_at(8);
    format!(
        "{}-{}-{}T{}:{}:{}Z",
        &date[..4],
        &date[4..6],
        &date[6..],
        &time[..2],
        &time[2..4],
        &time[4..]
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_become_dates() {
        for (moment, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(readable(moment), text);
        }
    }
}
