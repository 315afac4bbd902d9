//! Plain tables for terminals.

/// `1 run`, `5 runs`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    let end = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{end}")
}

/// Lines of cells, aligned: numbers to the right, everything else to the left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Columns {
    lines: Vec<Vec<String>>,
}

impl Columns {
    /// A table with these heads.
    pub(crate) fn headed(heads: &[&str]) -> Self {
        Self {
            lines: vec![heads.iter().map(|head| (*head).to_owned()).collect()],
        }
    }

    /// Adds a line.
    pub(crate) fn add(&mut self, cells: Vec<String>) {
        self.lines.push(cells);
    }

    /// The table, two blanks between columns, a line end after each line.
    pub(crate) fn text(&self) -> String {
        let count = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |line: &[String], at: usize| line.get(at).cloned().unwrap_or_default();
        let mut text = String::new();
        let widths: Vec<usize> = (0..count)
            .map(|at| {
                self.lines
                    .iter()
                    .map(|line| width(&cell(line, at)))
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let numeric: Vec<bool> = (0..count)
            .map(|at| {
                let mut cells = self.lines.iter().skip(1).map(|line| cell(line, at));
                cells.all(|cell| cell == "–" || cell.is_empty() || cell.parse::<f64>().is_ok())
            })
            .collect();
        for line in &self.lines {
            let mut written = String::new();
            for at in 0..count {
                let cell = cell(line, at);
                let blanks = " ".repeat(widths[at] - width(&cell));
                if at > 0 {
                    written += "  ";
                }
                written += &if numeric[at] {
                    blanks + &cell
                } else {
                    cell + &blanks
                };
            }
            text += written.trim_end();
            text.push('\n');
        }
        text
    }
}

/// Columns that a text takes in a terminal: East Asian letters take two.
pub(crate) fn width(text: &str) -> usize {
    text.chars()
        .map(|letter| if is_wide(letter) { 2 } else { 1 })
        .sum()
}

fn is_wide(letter: char) -> bool {
    matches!(u32::from(letter),
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 | 0x20000..=0x3fffd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_to_the_right_and_wide_letters_count_twice() {
        let mut table = Columns::headed(&["arm", "req/s"]);
        table.add(vec!["融合前".into(), "1.48".into()]);
        table.add(vec!["plain".into(), "–".into()]);
        table.add(vec!["x".into(), "13.25".into()]);
        let expected = "arm     req/s\n融合前   1.48\nplain       –\nx       13.25\n";
        assert_eq!(table.text(), expected);
    }
}
