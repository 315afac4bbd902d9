//! `strftime_now`: the date in the forms that templates ask for, without a time zone database.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::{Error, ErrorKind, Value};

const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The function for templates; it tells `now`, or the time at which it is called.
pub(super) fn function(now: Option<SystemTime>) -> Value {
    Value::from_function(move |format: &str| {
        let seconds = now
            .unwrap_or_else(SystemTime::now)
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs());
        Moment::of(seconds).format(format)
    })
}

/// A point of time in UTC, taken apart.
struct Moment {
    year: u64,
    month: usize,
    day: u64,
    day_of_year: u64,
    weekday: usize,
    second_of_day: u64,
}

impl Moment {
    fn of(seconds: u64) -> Self {
        let mut day = seconds / 86_400;
        let weekday = ((day + 3) % 7) as usize;
        let mut year = 1970;
        while day >= days_of(year) {
            day -= days_of(year);
            year += 1;
        }
        let day_of_year = day + 1;
        let mut month = 0;
        while day >= days_in(year, month) {
            day -= days_in(year, month);
            month += 1;
        }
        let second_of_day = seconds % 86_400;
        Self {
            year,
            month,
            day: day + 1,
            day_of_year,
            weekday,
            second_of_day,
        }
    }

    fn format(&self, format: &str) -> Result<String, Error> {
        let mut out = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                out.push(character);
                continue;
            }
            let mut directive = characters.next();
            let unpadded = directive == Some('-');
            if unpadded {
                directive = characters.next();
            }
            let field = directive
                .and_then(|directive| self.field(directive))
                .ok_or_else(|| {
                    let shown = directive.map(String::from).unwrap_or_default();
                    let message = format!("strftime_now does not know %{shown}");
                    Error::new(ErrorKind::InvalidOperation, message)
                })?;
            let shorter = field.trim_start_matches('0');
            out.push_str(match unpadded {
                true if shorter.is_empty() => "0",
                true => shorter,
                false => &field,
            });
        }
        Ok(out)
    }

    fn field(&self, directive: char) -> Option<String> {
        let (hour, minute) = (self.second_of_day / 3600, self.second_of_day / 60 % 60);
        let second = self.second_of_day % 60;
        let twelve = (hour + 11) % 12 + 1;
        let (weekday, month) = (DAYS[self.weekday], MONTHS[self.month]);
        Some(match directive {
            'a' => weekday[..3].to_owned(),
            'A' => weekday.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'B' => month.to_owned(),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'D' => format!(
                "{:02}/{:02}/{:02}",
                self.month + 1,
                self.day,
                self.year % 100
            ),
            'F' => format!("{}-{:02}-{:02}", self.year, self.month + 1, self.day),
            'H' => format!("{hour:02}"),
            'I' => format!("{twelve:02}"),
            'j' => format!("{:03}", self.day_of_year),
            'm' => format!("{:02}", self.month + 1),
            'M' => format!("{minute:02}"),
            'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            'S' => format!("{second:02}"),
            'T' => format!("{hour:02}:{minute:02}:{second:02}"),
            'y' => format!("{:02}", self.year % 100),
            'Y' => self.year.to_string(),
            'Z' | 'z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_as_python_tells_them() {
        let table = [
            (0, "%Y-%m-%d %H:%M:%S", "1970-01-01 00:00:00"),
            (1_709_210_096, "%d %b %Y", "29 Feb 2024"),
            (
                1_709_210_096,
                "%A, %-d %B %y, %-I:%M %p, day %j",
                "Thursday, 29 February 24, 12:34 PM, day 060",
            ),
            (4_107_542_399, "%F %T 100%%", "2100-02-28 23:59:59 100%"),
            (4_107_542_400, "%F %a", "2100-03-01 Mon"),
        ];
        for (seconds, format, expected) in table {
            assert_eq!(Moment::of(seconds).format(format).unwrap(), expected);
        }
    }

    #[test]
    fn an_unknown_directive_is_an_error() {
        assert!(Moment::of(0).format("%Q").is_err());
        assert!(Moment::of(0).format("50%").is_err());
    }
}
