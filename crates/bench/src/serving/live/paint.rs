//! How the live view looks: in boxes where there is room for them, in lines where there is not.

use super::scene::Scene;
use crate::put::put;
use hdrhistogram::Histogram;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use std::cmp::Reverse;

/// The box of the load and, beside it, that of the times.
const LOAD_WIDTH: u16 = 34;
const TIMES_WIDTH: u16 = 40;
/// Title, progress, boxes, and the least for the graph.
const ABOVE_FAILURES: u16 = 1 + 1 + 7 + 5;
/// The box of failures with one line in it.
const ONE_FAILURE: u16 = 3;
const MOST_FAILURES: usize = 6;
/// Lines of failures where there are no boxes.
const LINES_OF_FAILURES: usize = 3;

impl Scene {
    pub(super) fn paint(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let boxes =
            area.width >= LOAD_WIDTH + TIMES_WIDTH && area.height >= ABOVE_FAILURES + ONE_FAILURE;
        if boxes {
            self.paint_boxes(frame, area);
        } else {
            self.paint_lines(frame, area);
        }
    }

    fn paint_boxes(&self, frame: &mut Frame<'_>, area: Rect) {
        let failures = self.failures.len().clamp(1, MOST_FAILURES) as u16;
        let foot = (2 + failures).min(area.height - ABOVE_FAILURES);
        let [head, gauge, numbers, graph, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(7),
            Constraint::Min(5),
            Constraint::Length(foot),
        ])
        .areas(area);
        frame.render_widget(self.title(), head);
        frame.render_widget(self.progress(), gauge);
        let [left, right] =
            Layout::horizontal([Constraint::Length(LOAD_WIDTH), Constraint::Min(TIMES_WIDTH)])
                .areas(numbers);
        self.paint_load(frame, left);
        let block = Block::default().borders(Borders::ALL).title(" times ");
        frame.render_widget(self.times_table().block(block), right);
        self.paint_rates(frame, graph, Borders::ALL);
        let block = Block::default().borders(Borders::ALL).title(" failures ");
        let mut lines = self.failure_lines(foot.height.saturating_sub(2) as usize);
        if lines.is_empty() {
            lines.push(Line::from("none"));
        }
        frame.render_widget(Paragraph::new(lines).block(block), foot);
    }

    /// Without boxes, the most important line first: what does not fit is left out from the end.
    fn paint_lines(&self, frame: &mut Frame<'_>, area: Rect) {
        let under_way = self.under_way();
        let (waiting, failed) = (self.waiting, self.state.failed);
        let alarm = if failed > 0 { red() } else { Style::default() };
        let counts = Line::styled(
            format!("failed {failed} · waiting {waiting} · under way {under_way}"),
            alarm,
        );
        let rates = Line::from(format!(
            "{} · {:.2} requests/s · {} tokens",
            self.elapsed(),
            self.request_rate,
            self.tokens_before
        ));
        let mut below = area;
        let mut take = |height: u16| {
            let height = height.min(below.height);
            let part = Rect { height, ..below };
            below.y += height;
            below.height -= height;
            part
        };
        frame.render_widget(self.progress(), take(1));
        frame.render_widget(counts, take(1));
        frame.render_widget(rates, take(1));
        frame.render_widget(self.times_table(), take(1 + self.times.len() as u16));
        let failures = self.failure_lines(LINES_OF_FAILURES);
        let height = failures.len() as u16;
        frame.render_widget(Paragraph::new(failures), take(height));
        self.paint_rates(frame, take(area.height), Borders::TOP);
    }

    fn title(&self) -> Line<'static> {
        let title = format!(" peregrine bench serving   {}", self.elapsed());
        Line::styled(title, Style::default().add_modifier(Modifier::BOLD))
    }

    /// Minutes and seconds.
    fn elapsed(&self) -> String {
        let elapsed = self.started.elapsed().as_secs();
        format!("{:02}:{:02}", elapsed / 60, elapsed % 60)
    }

    fn progress(&self) -> Gauge<'static> {
        let share = self.state.finished as f64 / self.total.max(1) as f64;
        let label = match self.total {
            0 => self.state.finished.to_string(),
            total => format!("{} / {total}", self.state.finished),
        };
        let bar = Gauge::default().ratio(share.clamp(0.0, 1.0)).label(label);
        bar.gauge_style(Style::default().fg(Color::Cyan))
    }

    fn under_way(&self) -> usize {
        self.state.pending.saturating_sub(self.waiting)
    }

    fn paint_load(&self, frame: &mut Frame<'_>, area: Rect) {
        let line = |label: &str, value: String| Line::from(format!("{label:<18}{value:>12}"));
        let text = vec![
            line("requests/s", format!("{:.2}", self.request_rate)),
            line("tokens", self.tokens_before.to_string()),
            line("under way", self.under_way().to_string()),
            line("waiting", self.waiting.to_string()),
            line("failed", self.state.failed.to_string()),
        ];
        let block = Block::default().borders(Borders::ALL).title(" load ");
        frame.render_widget(Paragraph::new(text).block(block), area);
    }

    fn times_table(&self) -> Table<'static> {
        let milliseconds = |times: &Histogram<u64>, share: f64| {
            format!("{:.1}", times.value_at_quantile(share) as f64 / 1e3)
        };
        let rows = self.times.iter().map(|(name, times)| {
            let cells = [0.5, 0.9, 0.99].map(|share| Cell::from(milliseconds(times, share)));
            Row::new(std::iter::once(Cell::from(*name)).chain(cells))
        });
        let widths = [
            Constraint::Length(6),
            Constraint::Length(11),
            Constraint::Length(11),
            Constraint::Length(11),
        ];
        let head =
            Row::new(["ms", "p50", "p90", "p99"]).style(Style::default().fg(Color::DarkGray));
        Table::new(rows, widths).header(head)
    }

    fn paint_rates(&self, frame: &mut Frame<'_>, area: Rect, borders: Borders) {
        let newest = self.token_rates.last().copied().unwrap_or(0);
        let block = Block::default()
            .borders(borders)
            .title(format!(" {newest} tokens/s "));
        let width = block.inner(area).width as usize;
        let from = self.token_rates.len().saturating_sub(width);
        let spark = Sparkline::default()
            .block(block)
            .data(&self.token_rates[from..]);
        frame.render_widget(spark.style(Style::default().fg(Color::Green)), area);
    }

    /// The most frequent reasons, and in the last line how many more there are.
    fn failure_lines(&self, room: usize) -> Vec<Line<'static>> {
        let mut reasons: Vec<(&String, &usize)> = self.failures.iter().collect();
        reasons.sort_by_key(|(_, count)| Reverse(**count));
        let more = reasons.len().saturating_sub(room);
        reasons.truncate(room);
        let last = reasons.len().saturating_sub(1);
        let lines = reasons
            .into_iter()
            .enumerate()
            .map(|(place, (name, count))| {
                let mut text = format!("{count:>6} × {name}");
                if place == last && more > 0 {
                    put(&mut text, format_args!(" · {more} more reasons"));
                }
                Line::styled(text, red())
            });
        lines.collect()
    }
}

fn red() -> Style {
    Style::default().fg(Color::Red)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;
    use crate::pace::LoadState;
    use crate::record::RequestRecord;
    use crate::record::{Asked, Chunk, Due, Failure};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn record(failure: Option<Failure>) -> RequestRecord {
        let sent = Nanos(1_000_000_000);
        let mut record = RequestRecord::begun(0, 0, Due::at(sent), sent, Asked::default());
        record.chunks = [1.2, 1.3, 1.4]
            .iter()
            .map(|seconds: &f64| Chunk {
                at: Nanos((seconds * 1e9) as u64),
                tokens: 0,
                text_end: 0,
            })
            .collect();
        record.finished = Nanos(1_400_000_000);
        record.failure = failure;
        record
    }

    fn busy_scene() -> Scene {
        let tokens = Arc::new(AtomicU64::new(0));
        let mut scene = Scene::new(40, Arc::clone(&tokens));
        for _ in 0..9 {
            scene.take_in(&record(None));
        }
        scene.take_in(&record(Some(Failure::Cut)));
        tokens.store(123, Ordering::Relaxed);
        let state = LoadState {
            finished: 10,
            failed: 1,
            pending: 7,
            ..LoadState::default()
        };
        scene.tick(&state, Some(2));
        scene
    }

    fn drawn(scene: &Scene, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| scene.paint(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_view_shows_load_times_and_failures() {
        let scene = busy_scene();
        let text = drawn(&scene, (80, 18));
        for words in [
            "10 / 40",
            "tokens                     123",
            "under way                    5",
            "waiting                      2",
            "TTFT   200.",
            "TPOT   100.",
            "E2E    400.",
            "1 × connection closed early",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
    }

    #[test]
    fn a_small_terminal_keeps_what_waits_and_what_failed() {
        let scene = busy_scene();
        for size in [(60, 15), (73, 40), (120, 16), (40, 10), (36, 4)] {
            let text = drawn(&scene, size);
            for words in ["10 / 40", "failed 1", "waiting 2", "under way 5"] {
                assert!(text.contains(words), "{words:?} at {size:?} in\n{text}");
            }
        }
        let text = drawn(&scene, (60, 15));
        for words in ["TTFT   200.", "E2E    400.", "1 × connection", "tokens/s"] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
    }

    #[test]
    fn reasons_without_room_are_counted() {
        let mut scene = busy_scene();
        for code in 500..508 {
            let (reason, body) = ("No".to_owned(), String::new());
            for _ in 0..2 {
                scene.take_in(&record(Some(Failure::Status {
                    code,
                    reason: reason.clone(),
                    body: body.clone(),
                })));
            }
        }
        for (size, more) in [((80, 17), 8), ((80, 40), 3), ((60, 15), 6)] {
            let text = drawn(&scene, size);
            let words = format!(" · {more} more reasons");
            assert!(text.contains(&words), "{words:?} at {size:?} in\n{text}");
            assert!(text.contains("2 × HTTP 500 No"), "{text}");
        }
    }
}
